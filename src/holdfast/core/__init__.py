"""The rules: synchronous and deterministic; time and chance are arguments."""
