"""Transports: bytes in, bytes out. The adapters are modules: `from holdfast.transports import enet, memory, tcp,
websocket`."""

from holdfast.transports.listeners import Listen, Opening
from holdfast.transports.listening import PendingConnection, PendingConnections
from holdfast.transports.port import (
    BROKEN,
    GOING_AWAY,
    INTERNAL,
    NO_STATUS,
    NORMAL,
    NOT_TEXT,
    POLICY,
    TOO_BIG,
    UNSUPPORTED,
    VANISHED,
    Accept,
    DialError,
    Listener,
    Receiver,
    Subprotocol,
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
    "POLICY",
    "TOO_BIG",
    "UNSUPPORTED",
    "VANISHED",
    "Accept",
    "DialError",
    "Listen",
    "Listener",
    "Opening",
    "PendingConnection",
    "PendingConnections",
    "Receiver",
    "Subprotocol",
    "Transport",
    "TransportLimits",
]
