"""The rooms of a node: finding, creating and joining them."""
