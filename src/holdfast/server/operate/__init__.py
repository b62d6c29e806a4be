"""What operators do, behind the HTTP API."""
