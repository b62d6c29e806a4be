"""Tools for testing games: virtual time, an in-memory network with seeded faults."""
