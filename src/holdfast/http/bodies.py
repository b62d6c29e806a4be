"""Bodies and query parameters that only HTTP has; the others are `schemas.requests` themselves, or derived from them.

Ids stand in the path, and lists in an object that can grow.
"""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.schemas.frames import NAME_CHARS_MAX, NUMBER_MAX, HidesSecrets, Name, Text
from holdfast.schemas.node import PacketTarget
from holdfast.schemas.placement import PlacementInfo, QueueInfo
from holdfast.schemas.player import PLAYER_CHARS_MAX, PlayerName, SeatInfo
from holdfast.schemas.requests import PARTY_MAX, Expression, JoinOptions, Search, Seconds

_OF_A_NODE = "[A-Za-z0-9_-]{1,64}:-?[0-9]{1,16}"
POSITION = f"^([0-9]{{1,16}}|{_OF_A_NODE}(,{_OF_A_NODE}){{0,255}})$"
"""Where a reader of events is: the id of an event, or in a cluster one of each node."""
Limit = Annotated[int, Meta(ge=1, le=100)]
Cursor = Annotated[str, Meta(max_length=1024)]
Found = Annotated[str, Meta(max_length=128)]
Sentence = Annotated[str, Meta(max_length=256)]
Roles = Annotated[list[Name], Meta(max_length=32)]


class NewReservation(Struct, frozen=True, forbid_unknown_fields=True):
    """Seats to reserve for players, all or none. Reserving again extends the time."""

    players: Annotated[list[PlayerName], Meta(min_length=1, max_length=PARTY_MAX)]
    ttl_s: Seconds | None = None
    """How long; the node's default if it is missing or null."""
    options: JoinOptions = None
    """What each of them joins with, unless they say otherwise: as the room declares it."""


class NewAccount(HidesSecrets, Struct, frozen=True, forbid_unknown_fields=True):
    """An account to create."""

    shown = ("name", "player")
    name: Annotated[str, Meta(min_length=1, max_length=64)]
    """Upper and lower case are the same. It must not contain a colon."""
    password: Annotated[str, Meta(min_length=8, max_length=256)]
    player: Annotated[str, Meta(max_length=PLAYER_CHARS_MAX)] = ""
    """The player who signs in with it; a new one if it is missing."""
    roles: Roles = []


class NewPassword(HidesSecrets, Struct, frozen=True, forbid_unknown_fields=True):
    """An account's new password."""

    password: Annotated[str, Meta(min_length=8, max_length=256)]


class NewTicket(Struct, frozen=True, forbid_unknown_fields=True):
    """A ticket to issue."""

    player: PlayerName
    """The player who signs in with it."""
    roles: Roles = []
    ttl_s: Seconds | None = None
    """How long it is valid; the server's default if it is missing or null."""


class SessionChanges(Struct, frozen=True, forbid_unknown_fields=True):
    """What to change of a session."""

    limits: Annotated[dict[str, Annotated[float, Meta(ge=0)] | None], Meta(max_length=32)]
    """By name, as in {"messages_per_s": 500, "idle_s": 0}; null undoes a change. They win over those of its roles."""


class NewBroadcast(Struct, frozen=True, forbid_unknown_fields=True):
    """A message to all players of a room."""

    type: Name
    """Its wire name, as the game's clients know it."""
    body: dict[str, Any] = {}
    """Its fields."""


class NewPlace(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a room should go."""

    to: Annotated[str, Meta(min_length=1, max_length=128)]
    """The name of a node, or its life."""


class NewNodeBroadcast(Struct, frozen=True, forbid_unknown_fields=True):
    """A text, or a message of the game, to everybody on the node."""

    text: Text = ""
    """Either a text: clients get it as a holdfast.announcement."""
    type: Annotated[str, Meta(max_length=NAME_CHARS_MAX)] = ""
    """Or a message: its wire name, as the game's clients know it."""
    body: dict[str, Any] = {}
    """The fields of the message."""
    role: Annotated[str, Meta(max_length=NAME_CHARS_MAX)] = ""
    """Only to sessions with this role."""
    kind: Annotated[str, Meta(max_length=NAME_CHARS_MAX)] = ""
    """Only to sessions with a seat in a room of this kind, or that watch one."""


class RoomQuery(Search, frozen=True):
    """Which rooms, in which order."""

    where: Expression = ""
    """As in: open_seats > 0 AND properties.map = 'dust'. Empty finds all."""


class PageQuery(Struct, frozen=True):
    """Which page."""

    limit: Limit = 20
    cursor: Cursor = ""
    """The cursor of the page before."""


class SessionQuery(PageQuery, frozen=True):
    """Which sessions."""

    player: Annotated[str, Meta(max_length=PLAYER_CHARS_MAX)] = ""
    """Only those of this player."""
    search: Found = ""
    """Only those with this in their id, player, room or the player's name."""
    status: Annotated[str, Meta(max_length=16)] = ""
    """Only those that are preconnect, connected or disconnected."""


class PlayerQuery(PageQuery, frozen=True):
    """Which players."""

    search: Found = ""
    """Only those with this in their id or name."""


class ReasonQuery(Struct, frozen=True):
    """Why."""

    reason: Sentence = ""
    """A sentence for the players concerned."""


class EventQuery(Struct, frozen=True):
    """Where to start."""

    after: Annotated[str, Meta(pattern=POSITION)] | UnsetType = UNSET
    """Continue after the event with this id; the Last-Event-ID header takes precedence."""


class NodeQuery(Struct, frozen=True):
    """About which node."""

    node: Annotated[str, Meta(max_length=256)] = ""
    """The name of a node of the cluster, or its life."""


class TurnsQuery(Struct, frozen=True):
    """Which turns of a recording."""

    first: Annotated[int, Meta(ge=0, le=NUMBER_MAX)] = 0
    """The number of the first one; 0 for the newest turns."""
    limit: Limit = 100
    player: Annotated[str, Meta(max_length=PLAYER_CHARS_MAX)] = ""
    """Only what this player was sent."""


class TurnQuery(Struct, frozen=True):
    """Which turn of a recording."""

    turn: Annotated[int, Meta(ge=0, le=NUMBER_MAX)] = 0
    """Its number; 0 for the newest."""
    player: Annotated[str, Meta(max_length=PLAYER_CHARS_MAX)] = ""
    """Only what this player saw."""


class PacketQuery(Struct, frozen=True):
    """How long."""

    for_s: Annotated[float, Meta(gt=0)] | UnsetType = UNSET
    """In seconds; ten minutes if it is missing."""


class SeatList(Struct, frozen=True):
    """The seats of a room."""

    seats: list[SeatInfo]


class QueueList(Struct, frozen=True):
    """The queues of a node."""

    queues: list[QueueInfo]


class PlacementList(Struct, frozen=True):
    """Placements."""

    placements: list[PlacementInfo]
    missing: list[str] = []
    """The nodes of a cluster that did not answer."""


class PacketTargetList(Struct, frozen=True):
    """The targets of the packet log."""

    targets: list[PacketTarget]


class Health(Struct, frozen=True):
    """The status of a healthy node."""

    status: str
