"""The HTTP API: for backends, operators and dashboards. Talks to the server through the few calls in `port.py`."""
