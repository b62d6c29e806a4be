"""The messages of a kind of room, and their version."""
