"""Connections: reading, writing, heartbeat, and rate limits of one client."""
