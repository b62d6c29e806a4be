"""What happens on a node, as data: events for games, operators and the node's own records.

Each has a name on the wire ("session.dropped") and the same fields everywhere: handlers of `server.on`, the stream of
events over HTTP, a session's timeline. None of them ever contains a secret. A `reason` is always one of `Reason`, the
same that the client was told.
"""

from typing import Any

from msgspec import Struct

from holdfast.schemas.room import RoomInfo


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type"):
    """The base of all events. They hold values only, so the garbage collector need not track them."""

    at: float = 0.0
    """When it happened, in seconds since 1970: set when it is published."""

    @property
    def name(self) -> str:
        """Its name on the wire: "session.dropped"."""
        return str(self.__struct_config__.tag)

    @property
    def body(self) -> dict[str, Any]:
        """Its other fields, by name."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "at"}


# Connections


class ConnectionRefused(Event, frozen=True, kw_only=True, tag="connection.refused"):
    """A connection was refused before it had a session; the client was told the same reason."""

    connection: str
    transport: str
    reason: str
    address: str = ""


# Sessions


class SessionEvent(Event, frozen=True, kw_only=True):
    """An event of one session. They are in order: `SessionOpened` or `Restored` first, `Ended` or `Released` last.

    A `PlayerLeft` or `SpectatorLeft` may follow the end, if the room is in the middle of a turn.
    """

    session: str
    player: str
    player_name: str = ""
    """The player's display name, if they have one."""


class SessionOpened(SessionEvent, frozen=True, kw_only=True, tag="session.opened"):
    """A player has signed in, or an agent was opened; `is_reset` if it tried to resume a session that is gone."""

    connection: str
    transport: str
    peer: str = ""
    is_reset: bool = False


class Authenticated(SessionEvent, frozen=True, kw_only=True, tag="session.authenticated"):
    """The player's identity was proven: at sign-in, and again when a guest is linked to an account."""

    scheme: str
    roles: list[str] = []


class Renamed(SessionEvent, frozen=True, kw_only=True, tag="session.renamed"):
    """The player has changed their display name."""

    old_name: str
    new_name: str


class Dropped(SessionEvent, frozen=True, kw_only=True, tag="session.dropped"):
    """The session has lost its connection and waits for its player."""

    connection: str
    reason: str
    grace_s: float
    """How long the session waits."""
    silent_s: float = 0.0
    """Time since the client last sent something."""
    pings: int = 0
    """Unanswered pings since then."""
    latency_ms: float = 0.0
    """The smoothed round-trip time."""
    last_ms: float = 0.0
    """The last measured round trip."""
    worst_ms: float = 0.0
    """The longest round trip of the session."""
    code: int = 0
    """The code with which the client or the network closed the connection, as in WebSocket: 1001 is a page that was
    closed, 1006 a connection that broke without a close frame. 0 if the server closed it."""


class Resumed(SessionEvent, frozen=True, kw_only=True, tag="session.resumed"):
    """The player has returned; the outcome is "resumed" or "resynced"."""

    connection: str
    transport: str
    outcome: str
    replayed: int
    away_s: float = 0.0
    peer: str = ""


class RolledBack(SessionEvent, frozen=True, kw_only=True, tag="session.rolled_back"):
    """The client has newer state than the store, which was rolled back: it is "resynced" or "reset"."""

    outcome: str
    room: str = ""
    age_s: float | None = None
    """How old the room's state was when it was recovered, if that is known."""
    peer: str = ""


class Superseded(SessionEvent, frozen=True, kw_only=True, tag="session.superseded"):
    """A newer connection has taken over the session; the old one was told."""

    connection: str


class Ended(SessionEvent, frozen=True, kw_only=True, tag="session.ended"):
    """The session has ended: its seat is freed, its token is revoked."""

    reason: str
    message: str = ""
    """The message to the player beside the reason."""
    duration_s: float = 0.0
    """How long it lasted, from the sign-in on; also over restarts of the server."""


class Restored(SessionEvent, frozen=True, kw_only=True, tag="session.restored"):
    """The session was recovered from the store and waits for its player."""

    grace_s: float
    room: str = ""
    """The room of its seat, if it has one."""
    spectating: str = ""
    """The room that it watches, if it watches one and has no seat."""
    node: str = ""
    """The node of the cluster that had it before, if that is known."""
    has_died: bool = False
    """Whether that node is dead."""


class SessionArrived(SessionEvent, frozen=True, kw_only=True, tag="session.arrived"):
    """The session came from another node of the cluster, with its connection: its client notices nothing."""

    node: str
    """The one that had it before."""
    room: str = ""
    """The room of its seat, if it has one."""


class Released(SessionEvent, frozen=True, kw_only=True, tag="session.released"):
    """This server no longer has the session, but it has not ended: it is in the store or on another server."""

    reason: str
    node: str = ""
    """The node of the cluster that has it now, if that is known."""


class TokenReused(SessionEvent, frozen=True, kw_only=True, tag="token.reused"):
    """A used token was presented again: the session is revoked."""

    peer: str


class SessionResynced(SessionEvent, frozen=True, kw_only=True, tag="session.resynced"):
    """The client's backlog exceeded its limit: the client gets the current state instead."""


# Limits and admission


class LimitExceeded(Event, frozen=True, kw_only=True, tag="limit.exceeded"):
    """A limit was reached; `action` is what was done: "warned", "dropped", "disconnected" or "refused"."""

    limit: str
    action: str
    times: int = 1
    """How often since the last such event."""
    address: str = ""
    session: str = ""
    player: str = ""
    player_name: str = ""
    """The player's display name, if they have one."""


class SignInFailed(Event, frozen=True, kw_only=True, tag="sign_in.failed"):
    """A credential was wrong, or its owner may not enter."""

    scheme: str
    """Empty if it is unknown."""
    reason: str
    address: str = ""


class Banned(Event, frozen=True, kw_only=True, tag="ban.set"):
    """A player or a range of addresses was banned. `until` 0 means permanently."""

    subject: str
    why: str = ""
    until: float = 0.0


class BanLifted(Event, frozen=True, kw_only=True, tag="ban.lifted"):
    """A ban was lifted."""

    subject: str


class RoleGranted(Event, frozen=True, kw_only=True, tag="role.granted"):
    """An operator gave a player a role, or undid that it was revoked (`is_reset`)."""

    player: str
    role: str
    player_name: str = ""
    """The player's display name, if they have one."""
    by: str = ""
    """The name of the operator's API key, or what the caller passed; empty if it is unknown."""
    is_reset: bool = False
    """From now on the authenticator decides."""


class RoleRevoked(Event, frozen=True, kw_only=True, tag="role.revoked"):
    """An operator took a role from a player, or undid that it was granted (`is_reset`)."""

    player: str
    role: str
    player_name: str = ""
    by: str = ""
    is_reset: bool = False


# Rooms and seats


class RoomEvent(Event, frozen=True, kw_only=True):
    """An event of one room. `info` is the room as everybody may see it at that time: its join code is not shown."""

    room: str


class RoomCreated(RoomEvent, frozen=True, kw_only=True, tag="room.created"):
    """A room was created."""

    kind: str
    creator: str = ""
    info: RoomInfo | None = None


class RoomStarted(RoomEvent, frozen=True, kw_only=True, tag="room.started"):
    """A round of its game has begun."""

    kind: str
    info: RoomInfo | None = None


class ListingUpdated(RoomEvent, frozen=True, kw_only=True, tag="room.updated"):
    """Its listing in the directory has changed."""

    version: int
    info: RoomInfo | None = None


class RoomRecovered(RoomEvent, frozen=True, kw_only=True, tag="room.recovered"):
    """It was recovered from the store."""

    kind: str
    age_s: float = 0.0
    """How old the recovered state is: everything later is lost. 0 if nothing is lost."""
    info: RoomInfo | None = None
    node: str = ""
    """The node of the cluster that had it before, if that is known."""
    has_died: bool = False
    """Whether that node is dead."""


ROOM_FAILURES = ("create_failed", "activation_timeout", "unhealthy", "abandoned", "set_aside")
"""Every `RoomFailed.why`."""


class RoomFailed(RoomEvent, frozen=True, kw_only=True, tag="room.failed"):
    """It ends, or never started, because its code failed or it was unhealthy.

    `why` is "create_failed", "activation_timeout", "unhealthy", "abandoned" (its last turn did not finish in time) or
    "set_aside" (it could not be recovered from the store, where it still is); the log has details.
    """

    kind: str
    why: str
    info: RoomInfo | None = None


class RoomReleased(RoomEvent, frozen=True, kw_only=True, tag="room.released"):
    """This server no longer has the room, but it has not ended: it is in the store or on another server."""

    reason: str
    info: RoomInfo | None = None


class RoomMoved(RoomEvent, frozen=True, kw_only=True, tag="room.moved"):
    """It goes on on another node of the cluster, with everybody in it."""

    node: str
    """That node."""
    pause_s: float
    """How long it stood still."""
    info: RoomInfo | None = None


class RoomEnding(RoomEvent, frozen=True, kw_only=True, tag="room.ending"):
    """Its end has begun: its players leave, then it is gone. The reason is the one of `RoomEnded`."""

    kind: str
    reason: str
    info: RoomInfo | None = None


class RoomEnded(RoomEvent, frozen=True, kw_only=True, tag="room.ended"):
    """It has ended: "ended", or "failed" after an error. The reason is the game's own, or one of `Reason`."""

    status: str
    reason: str = ""
    info: RoomInfo | None = None


class RoomHostChanged(RoomEvent, frozen=True, kw_only=True, tag="host.changed"):
    """The room has a new host; empty if it has none."""

    player: str = ""
    player_name: str = ""
    """The player's display name, if they have one."""


class SeatReserved(RoomEvent, frozen=True, kw_only=True, tag="seat.reserved"):
    """A seat is reserved for a player."""

    player: str
    player_name: str = ""


class SeatTaken(RoomEvent, frozen=True, kw_only=True, tag="seat.taken"):
    """A player has taken a seat, or returned to it."""

    player: str
    player_name: str = ""


class SeatHeld(RoomEvent, frozen=True, kw_only=True, tag="seat.held"):
    """The seat's player has dropped, and the seat is held."""

    player: str
    player_name: str = ""


class SeatFreed(RoomEvent, frozen=True, kw_only=True, tag="seat.freed"):
    """The seat is free again."""

    player: str
    player_name: str = ""


class SeatExpired(RoomEvent, frozen=True, kw_only=True, tag="seat.expired"):
    """The player with the reservation did not join in time."""

    player: str
    player_name: str = ""


class PlayerJoined(SessionEvent, frozen=True, kw_only=True, tag="player.joined"):
    """The session's player took a seat."""

    room: str
    kind: str


class PlayerLeft(SessionEvent, frozen=True, kw_only=True, tag="player.left"):
    """The session's player gave up the seat, or lost it."""

    room: str
    reason: str
    message: str = ""
    """The message to the player beside the reason."""


class SpectatorJoined(SessionEvent, frozen=True, kw_only=True, tag="spectator.joined"):
    """The session's player watches a room, without a seat."""

    room: str
    kind: str


class SpectatorLeft(SessionEvent, frozen=True, kw_only=True, tag="spectator.left"):
    """The session's player watches the room no more; `seated` if they have a seat in it now."""

    room: str
    reason: str
    message: str = ""
    """The message to the spectator beside the reason."""


# The node


class PlacementChanged(Event, frozen=True, kw_only=True, tag="placement.changed"):
    """The state of a placement has changed."""

    placement: str
    status: str
    reason: str = ""


class BroadcastSent(Event, frozen=True, kw_only=True, tag="broadcast.sent"):
    """A message was sent to sessions on the node: to all of them, or to those with a role or in a kind of room."""

    message: str
    """Its wire name."""
    sessions: int
    """How many it was sent to."""
    text: str = ""
    """Of an announcement."""
    role: str = ""
    kind: str = ""
    by: str = ""
    """The name of the operator's API key; empty if it is unknown, or the game sent it."""


class NodeReady(Event, frozen=True, kw_only=True, tag="node.ready"):
    """The node accepts players and rooms."""

    node: str


class NodeDraining(Event, frozen=True, kw_only=True, tag="node.draining"):
    """The node admits no new players and stops within `deadline_s`."""

    node: str
    deadline_s: float


class NodeHealth(Event, frozen=True, kw_only=True, tag="node.health"):
    """The node is healthy again, or no longer."""

    node: str
    is_healthy: bool


class NodeEmptying(Event, frozen=True, kw_only=True, tag="node.emptying"):
    """An operator drains the node: it takes nothing new, and hands over what can go on elsewhere."""

    node: str


class NodeDrained(Event, frozen=True, kw_only=True, tag="node.drained"):
    """Everything that can go on elsewhere is elsewhere: the node may be stopped."""

    node: str
    rooms: int
    """Rooms that are only in its memory, and end with it."""


# Other nodes of the cluster, as this one sees them


class NodeJoined(Event, frozen=True, kw_only=True, tag="node.joined"):
    """Another node has come, or one that was believed dead is back."""

    node: str
    life: str
    """This run of its process."""
    version: str = ""


class NodeLeft(Event, frozen=True, kw_only=True, tag="node.left"):
    """Another node has ended in order."""

    node: str
    life: str


class NodeDied(Event, frozen=True, kw_only=True, tag="node.died"):
    """Another node is believed dead: others take over its durable rooms."""

    node: str
    life: str
    why: str
