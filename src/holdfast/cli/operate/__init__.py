"""Commands that operate a running node through its HTTP API."""
