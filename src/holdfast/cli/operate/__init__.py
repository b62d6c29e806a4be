"""Operate a running node from the command line: what the HTTP API can do, as tables or JSON."""
