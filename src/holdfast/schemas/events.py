"""What happens on a node, as data: the events that games, operators and the node's own records are told of.

Each has a name for the wire ("session.dropped") and the same fields everywhere: handlers of `server.on`, the stream of
events over HTTP, a session's timeline. None of them ever holds a secret. A `reason` is always one of `Reason`, and the
one that the client was told.
"""

from typing import Any

from msgspec import Struct


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """The base of all events."""

    at: float = 0.0
    """When it happened, in seconds since 1970: set when it is published."""

    @property
    def name(self) -> str:
        """What it is called on the wire: "session.dropped"."""
        return str(self.__struct_config__.tag)

    @property
    def body(self) -> dict[str, Any]:
        """Everything else that it says, by field."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "at"}


# Connections


class ConnectionRefused(Event, frozen=True, kw_only=True, tag="connection.refused"):
    """Somebody was turned away before they had a session; the reason is what they were told."""

    connection: str
    transport: str
    reason: str
    address: str = ""


# Sessions


class SessionEvent(Event, frozen=True, kw_only=True):
    """Something of one session. These come in order: `SessionOpened` or `Restored` first, `Ended` or `Released` last.

    A `PlayerLeft` may follow the end, if the room is in the middle of a turn then.
    """

    session: str
    player: str


class SessionOpened(SessionEvent, frozen=True, kw_only=True, tag="session.opened"):
    """A player has signed in, or an agent was opened; `is_reset` if it came back to a session that is gone."""

    connection: str
    transport: str
    peer: str = ""
    is_reset: bool = False


class Authenticated(SessionEvent, frozen=True, kw_only=True, tag="session.authenticated"):
    """Who it is was proven: at the start, and again when a guest is linked to an account."""

    scheme: str
    roles: list[str] = []


class Dropped(SessionEvent, frozen=True, kw_only=True, tag="session.dropped"):
    """The session has lost its connection, and waits for its player."""

    connection: str
    reason: str
    grace_s: float
    """How long it waits."""
    silent_s: float = 0.0
    """Since the client was last heard."""
    pings: int = 0
    """Those that were not answered since then."""
    latency_ms: float = 0.0
    """The smoothed round-trip time."""
    last_ms: float = 0.0
    """The last round trip that was measured."""
    worst_ms: float = 0.0
    """The longest round trip of the session."""
    code: int = 0
    """What the client or the network ended the link with, as in WebSocket: 1001 is a page that was closed, 1006 a link
    that broke without a word. 0 if the server ended it."""


class Resumed(SessionEvent, frozen=True, kw_only=True, tag="session.resumed"):
    """The player is back; the outcome is "resumed" or "resynced"."""

    connection: str
    transport: str
    outcome: str
    replayed: int
    away_s: float = 0.0
    peer: str = ""


class RolledBack(SessionEvent, frozen=True, kw_only=True, tag="session.rolled_back"):
    """The client knows more than the store, which went back in time: it is "resynced", or "reset" to a new session."""

    outcome: str
    room: str = ""
    age_s: float | None = None
    """How old the room's state was when the server came back with it, as far as that is known."""
    peer: str = ""


class Superseded(SessionEvent, frozen=True, kw_only=True, tag="session.superseded"):
    """A newer connection speaks for the session; the old one was told."""

    connection: str


class Ended(SessionEvent, frozen=True, kw_only=True, tag="session.ended"):
    """The session is over: its seat is freed, its token is dead."""

    reason: str
    message: str = ""
    """What the player was told beside the reason."""


class Restored(SessionEvent, frozen=True, kw_only=True, tag="session.restored"):
    """The session came back from the store, as a former server has left it, and waits for its player."""

    grace_s: float
    room: str = ""
    """Where its seat is, if it has one."""


class Released(SessionEvent, frozen=True, kw_only=True, tag="session.released"):
    """This server has let the session go, but it is not over: it waits in the store, or another server has it."""

    reason: str


class TokenReused(SessionEvent, frozen=True, kw_only=True, tag="token.reused"):
    """Somebody presented a token that was used before: the session is revoked."""

    peer: str


class Resynced(SessionEvent, frozen=True, kw_only=True, tag="session.resynced"):
    """More piled up for the client than may be kept: it gets the present state instead."""


# Limits and the door


class LimitExceeded(Event, frozen=True, kw_only=True, tag="limit.exceeded"):
    """Somebody reached a limit; `action` is what was done: "warned", "dropped", "disconnected" or "refused"."""

    limit: str
    action: str
    times: int = 1
    """How often, since it was told last."""
    address: str = ""
    session: str = ""
    player: str = ""


class SignInFailed(Event, frozen=True, kw_only=True, tag="sign_in.failed"):
    """A credential proved nothing, or its owner is not welcome."""

    scheme: str
    """Empty if nobody here knows it."""
    reason: str
    address: str = ""


class Banned(Event, frozen=True, kw_only=True, tag="ban.set"):
    """A player or a range of addresses is not welcome any more. `until` of 0 is for good."""

    subject: str
    why: str = ""
    until: float = 0.0


class BanLifted(Event, frozen=True, kw_only=True, tag="ban.lifted"):
    """They are welcome again."""

    subject: str


# Rooms and seats


class RoomEvent(Event, frozen=True, kw_only=True):
    """Something of one room."""

    room: str


class RoomCreated(RoomEvent, frozen=True, kw_only=True, tag="room.created"):
    """A room is there."""

    kind: str
    creator: str = ""


class RoomStarted(RoomEvent, frozen=True, kw_only=True, tag="room.started"):
    """A round of its game has begun."""

    kind: str


class RoomUpdated(RoomEvent, frozen=True, kw_only=True, tag="room.updated"):
    """Its entry in the directory has changed."""

    version: int


class RoomRecovered(RoomEvent, frozen=True, kw_only=True, tag="room.recovered"):
    """It is back from the store."""

    kind: str
    age_s: float = 0.0
    """How old the state is that it came back with: what happened after that is lost. 0 if nothing is."""


ROOM_FAILURES = ("create_failed", "activation_timeout", "unhealthy", "abandoned", "set_aside")
"""Every `RoomFailed.why`."""


class RoomFailed(RoomEvent, frozen=True, kw_only=True, tag="room.failed"):
    """It ends, or never began, because its code failed or it was not well.

    `why` is "create_failed", "activation_timeout", "unhealthy", "abandoned" (its last turn did not end in time) or
    "set_aside" (it could not be brought back from the store, where it still is); the log says more.
    """

    kind: str
    why: str


class RoomReleased(RoomEvent, frozen=True, kw_only=True, tag="room.released"):
    """This server has let it go, but it is not over: it waits in the store, or another server has it."""

    reason: str


class RoomEnded(RoomEvent, frozen=True, kw_only=True, tag="room.ended"):
    """It is over: "ended", or "failed" if that was not in order. The reason is the game's own, or one of ours."""

    status: str
    reason: str = ""


class HostChanged(RoomEvent, frozen=True, kw_only=True, tag="host.changed"):
    """Another player is its host; nobody, if that is empty."""

    player: str = ""


class SeatReserved(RoomEvent, frozen=True, kw_only=True, tag="seat.reserved"):
    """A seat is kept for a player."""

    player: str


class SeatTaken(RoomEvent, frozen=True, kw_only=True, tag="seat.taken"):
    """A player has a seat, or is back in it."""

    player: str


class SeatHeld(RoomEvent, frozen=True, kw_only=True, tag="seat.held"):
    """The seat's player has dropped, and it waits for them."""

    player: str


class SeatFreed(RoomEvent, frozen=True, kw_only=True, tag="seat.freed"):
    """The seat is anybody's again."""

    player: str


class SeatExpired(RoomEvent, frozen=True, kw_only=True, tag="seat.expired"):
    """The player for whom it was reserved did not come in time."""

    player: str


class PlayerJoined(SessionEvent, frozen=True, kw_only=True, tag="player.joined"):
    """The session's player took a seat."""

    room: str
    kind: str


class PlayerLeft(SessionEvent, frozen=True, kw_only=True, tag="player.left"):
    """The session's player gave the seat up, or lost it."""

    room: str
    reason: str
    message: str = ""
    """What the player was told beside the reason."""


# The node


class PlacementChanged(Event, frozen=True, kw_only=True, tag="placement.changed"):
    """A placement went on, or ended."""

    placement: str
    status: str
    reason: str = ""


class NodeReady(Event, frozen=True, kw_only=True, tag="node.ready"):
    """The node takes players and rooms."""

    node: str


class NodeDraining(Event, frozen=True, kw_only=True, tag="node.draining"):
    """The node takes nobody new, and stops within so many seconds."""

    node: str
    deadline_s: float


class NodeHealth(Event, frozen=True, kw_only=True, tag="node.health"):
    """The node is well again, or is not."""

    node: str
    is_healthy: bool
