"""The wire as data: golden vectors for every SDK, and what they are generated from."""
