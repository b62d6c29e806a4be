"""The server: connections, admission, rooms, durability, operations."""
