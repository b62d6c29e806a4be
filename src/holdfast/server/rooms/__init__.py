"""What runs a room: its turns, its clock, its players' lines."""
