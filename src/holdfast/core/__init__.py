"""The rules: synchronous and deterministic; time and randomness are arguments."""
