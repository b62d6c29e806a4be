"""The HTTP API for backends, operators and dashboards."""
