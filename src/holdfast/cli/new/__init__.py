"""`holdfast new`: a small game to begin with."""
