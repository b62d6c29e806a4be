"""The Python client; its protocol half is pure and mirrors the core."""
