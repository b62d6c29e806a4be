"""`holdfast demo`: a game, bots that play it, and a network that breaks."""
