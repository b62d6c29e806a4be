"""The files in deploy/ run in earnest: the services of compose.yaml as processes here, and a game in them."""
