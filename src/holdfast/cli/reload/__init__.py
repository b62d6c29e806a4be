"""`holdfast serve --reload`: the server starts again when the game's code changes, and the rooms go on."""
