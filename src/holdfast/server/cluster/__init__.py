"""A server as a node of a cluster: it finds sessions and rooms on other nodes, and takes over those of dead ones."""
