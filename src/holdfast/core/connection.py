"""A connection: one live link to one client. Disposable; its id is never used again."""

from typing import NamedTuple, NewType

from holdfast.core.addresses import host_of
from holdfast.core.reasons import Reason
from holdfast.core.tables import Table, TableEnum
from holdfast.schemas.frames import Frame

ConnectionId = NewType("ConnectionId", str)


class ConnectionState(TableEnum):
    """The states of a connection."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    IN_GAME = "in_game"
    RELAYED = "relayed"
    """Its session is on another node of the cluster."""
    DISCONNECTING = "disconnecting"
    DISCONNECTED = "disconnected"


class ConnectionStep(TableEnum):
    """The events of a connection."""

    WELCOMED = "welcomed"
    SEATED = "seated"
    UNSEATED = "unseated"
    RELAYED = "relayed"
    CLOSED = "closed"
    LOST = "lost"


_S, _E = ConnectionState, ConnectionStep

CONNECTION_TABLE = Table(
    "connection",
    _S.CONNECTING,
    {
        _S.CONNECTING: {
            _E.WELCOMED: _S.CONNECTED,
            _E.RELAYED: _S.RELAYED,
            _E.CLOSED: _S.DISCONNECTING,
            _E.LOST: _S.DISCONNECTED,
        },
        _S.CONNECTED: {
            _E.SEATED: _S.IN_GAME,
            _E.RELAYED: _S.RELAYED,
            _E.CLOSED: _S.DISCONNECTING,
            _E.LOST: _S.DISCONNECTED,
        },
        _S.IN_GAME: {
            _E.UNSEATED: _S.CONNECTED,
            _E.RELAYED: _S.RELAYED,
            _E.CLOSED: _S.DISCONNECTING,
            _E.LOST: _S.DISCONNECTED,
        },
        _S.RELAYED: {_E.CLOSED: _S.DISCONNECTING, _E.LOST: _S.DISCONNECTED},
        _S.DISCONNECTING: {_E.LOST: _S.DISCONNECTED},
        _S.DISCONNECTED: {},
    },
)


class Connection:
    """What the rules know of a connection: its state, its peer and its counters."""

    __slots__ = (
        *(
            "address",
            "bytes_received",
            "bytes_sent",
            "end_code",
            "end_reason",
            "heard_at",
            "id",
            "is_compressed",
            "is_dirty",
        ),
        *("is_encrypted", "opened_at", "owes_ack", "peer", "state", "transport_kind"),
    )

    def __init__(self, connection_id: ConnectionId, now: float) -> None:
        self.id = connection_id
        self.state = CONNECTION_TABLE.start
        self.transport_kind = ""
        self.peer = self.address = ""
        self.opened_at = now
        self.heard_at = now
        self.end_reason: Reason | None = None
        self.end_code = 0
        """The close code from the peer or the network; 0 if the server closed it."""
        self.is_encrypted = False
        self.is_compressed = False
        self.is_dirty = False
        self.owes_ack = False
        # Of payloads, without the overhead of TLS, WebSocket and TCP.
        self.bytes_received = 0
        self.bytes_sent = 0

    @property
    def is_open(self) -> bool:
        """Whether frames may still be sent to the peer."""
        return self.state not in (_S.DISCONNECTING, _S.DISCONNECTED)

    def comes_from(self, peer: str) -> None:
        """The name of the other end: an address and a port."""
        self.peer, self.address = peer, host_of(peer)

    @property
    def pings_unanswered(self) -> int:
        """Pings sent since the client last sent something."""
        return 0

    # A connection without a transport, such as an agent's, writes nothing.

    def wake(self) -> None:
        """Something waits to be written."""

    def flush(self, *, with_ack: bool = False) -> None:
        """Write what waits now."""

    def send(self, frame: Frame) -> None:
        """Write a frame soon."""

    def send_latest(self, channel: int, name: str, body: bytes, key: str) -> None:
        """Write an unreliable message soon, or never if a newer one comes first."""

    def hold(self) -> None:
        """Write nothing until `release` was called as often."""

    def release(self) -> None:
        """Undo one `hold`."""

    def seated(self) -> None:
        """The session took a seat."""

    def unseated(self) -> None:
        """The session's seat was freed."""

    def forget_session(self) -> None:
        """Detach from the session."""

    def close(self, reason: Reason, message: str = "", *, retry_after_s: float = 0.0, problem: str = "") -> None:
        """Send the reason, and close."""

    def happened(self, event: ConnectionStep) -> None:
        self.state = CONNECTION_TABLE.after(self.state, event)

    def __repr__(self) -> str:
        return f"<Connection {self.id} {self.state.value} {self.transport_kind} {self.peer}>"


class Traffic(NamedTuple):
    """What a link has carried so far, counted in bytes and not in payloads."""

    received: int = 0
    taken: int = 0
    """Acknowledged or read by the other end."""
    waiting: int = 0
    """Sent, and not taken by the other end yet."""


class Look(NamedTuple):
    """The traffic at some time: it may show that a peer is alive although no complete payload came for a while.

    Bytes of its next payload may be arriving. Or bytes to the peer may be leaving: the ping waits behind them, and so
    does the pong. Bytes that the link accepts at once prove nothing: the peer's system does that while its program
    hangs.
    """

    at: float
    traffic: Traffic

    def is_alive(self, before: "Look | None", heard_at: float, bytes_per_s: float) -> bool:
        """Whether enough was carried since the look before, if that was taken in the same silence."""
        if before is None or not heard_at <= before.at < self.at:
            return False
        received = self.traffic.received - before.traffic.received
        taken = min(self.traffic.taken - before.traffic.taken, before.traffic.waiting)
        return received + taken >= bytes_per_s * (self.at - before.at)
