"""Operations: what the HTTP API can do with a node."""
