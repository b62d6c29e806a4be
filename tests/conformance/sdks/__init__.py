"""Every SDK runs through the same scenarios, as a program of its own, against a real server and a bad network."""
