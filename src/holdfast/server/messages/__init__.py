"""What a kind of room and its clients say to each other, and the version of it."""
