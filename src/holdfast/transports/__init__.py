"""Bytes in, bytes out. The adapters are modules: `from holdfast.transports import memory, tcp, websocket`."""

from holdfast.transports.port import (
    BROKEN,
    GOING_AWAY,
    INTERNAL,
    NO_STATUS,
    NORMAL,
    NOT_TEXT,
    TOO_BIG,
    UNSUPPORTED,
    VANISHED,
    Accept,
    Dialect,
    DialError,
    Listener,
    Receiver,
    Transport,
    TransportLimits,
)

__all__ = [
    "BROKEN",
    "GOING_AWAY",
    "INTERNAL",
    "NORMAL",
    "NOT_TEXT",
    "NO_STATUS",
    "TOO_BIG",
    "UNSUPPORTED",
    "VANISHED",
    "Accept",
    "DialError",
    "Dialect",
    "Listener",
    "Receiver",
    "Transport",
    "TransportLimits",
]
