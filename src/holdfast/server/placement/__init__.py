"""Placements: rooms made for players who were matched elsewhere."""
