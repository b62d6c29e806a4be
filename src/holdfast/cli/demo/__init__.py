"""`holdfast demo`: a game, bots that play it, connections that break and a server that is killed."""
