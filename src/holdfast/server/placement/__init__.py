"""Placements: rooms created for players who were matched elsewhere."""
