"""ENet over UDP: reliable payloads, and unreliable datagrams for the newest values."""

from holdfast.transports.enet.endpoint import dial, listen

__all__ = ["dial", "listen"]
