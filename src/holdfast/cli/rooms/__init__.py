"""`holdfast rooms`: look into a store, and carry rooms in and out of it as files."""
