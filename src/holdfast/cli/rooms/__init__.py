"""`holdfast rooms`: rooms on a running node and rooms in a store."""
