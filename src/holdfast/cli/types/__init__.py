"""`holdfast types`: a game's messages in the words of another language."""
