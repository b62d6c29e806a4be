"""What goes over a connection: reading, writing, and what one client may ask of it."""
