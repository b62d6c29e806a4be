"""`holdfast serve --workers`: one game on all cores of a machine."""
