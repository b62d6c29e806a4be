"""The way of single messages through the server, for OpenTelemetry: `from holdfast.tracing import Tracing`."""

from holdfast.observability.tracing import Tracing

__all__ = ["Tracing"]
