"""The bodies of requests: `schemas.requests` has each request as data, here is its HTTP spelling: what a client
names stands in the path, lists stand in an object that can grow, and parameters are structs too."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.schemas.frames import NUMBER_MAX, Name, hidden_from_rich
from holdfast.schemas.placement import PlacementInfo, QueueInfo
from holdfast.schemas.player import PLAYER_CHARS_MAX, PlayerName, SeatInfo
from holdfast.schemas.requests import PARTY_MAX, Expression, Password, Seconds
from holdfast.schemas.room import PROPERTIES_MAX, JoinPolicy, Properties, RoomName, SeatsMax, Visibility

Limit = Annotated[int, Meta(ge=1, le=100)]
Cursor = Annotated[str, Meta(max_length=1024)]
Found = Annotated[str, Meta(max_length=128)]
Sentence = Annotated[str, Meta(max_length=256)]
Roles = Annotated[list[Name], Meta(max_length=32)]


class RoomUpdate(Struct, frozen=True, forbid_unknown_fields=True):
    """What to change of a room; what is missing or null stays."""

    name: RoomName | None = None
    set: Properties = {}
    """Properties to set."""
    remove: Annotated[list[Name], Meta(max_length=PROPERTIES_MAX)] = []
    """Properties to take away."""
    max_players: SeatsMax | None = None
    """Fewer than there are throws nobody out."""
    join_policy: JoinPolicy | None = None
    locked: bool | None = None
    visibility: Visibility | None = None
    password: Password | None = None
    """An empty one takes the password away."""
    host: PlayerName | None = None
    """The player who is the host from now on."""
    if_version: int | None = None
    """Change nothing unless the room has this version; If-Match is the same."""

    def __repr__(self) -> str:
        return f"RoomUpdate(if_version={self.if_version!r})"

    __rich_repr__ = hidden_from_rich


class NewReservation(Struct, frozen=True, forbid_unknown_fields=True):
    """Seats to keep for players, all or none. Asking again extends."""

    players: Annotated[list[PlayerName], Meta(min_length=1, max_length=PARTY_MAX)]
    ttl_s: Seconds | None = None
    """How long; the node's own time if it is missing or null."""


class NewAccount(Struct, frozen=True, forbid_unknown_fields=True):
    """An account to make."""

    name: Annotated[str, Meta(min_length=1, max_length=64)]
    """However it is typed later: upper and lower case are the same. No colon."""
    password: Annotated[str, Meta(min_length=8, max_length=256)]
    player: Annotated[str, Meta(max_length=PLAYER_CHARS_MAX)] = ""
    """Who signs in with it; if it is missing, a player of its own."""
    roles: Roles = []

    def __repr__(self) -> str:
        return f"NewAccount(name={self.name!r}, player={self.player!r}, password=***)"

    __rich_repr__ = hidden_from_rich


class NewPassword(Struct, frozen=True, forbid_unknown_fields=True):
    """What an account's password is to be."""

    password: Annotated[str, Meta(min_length=8, max_length=256)]

    def __repr__(self) -> str:
        return "NewPassword(password=***)"

    __rich_repr__ = hidden_from_rich


class NewTicket(Struct, frozen=True, forbid_unknown_fields=True):
    """A ticket to issue."""

    player: PlayerName
    """Who signs in with it."""
    roles: Roles = []
    ttl_s: Seconds | None = None
    """How long it is good for; the server's own time if it is missing or null."""


class NewBroadcast(Struct, frozen=True, forbid_unknown_fields=True):
    """A message to all players of a room."""

    type: Name
    """Its wire name, as the game's clients know it."""
    body: dict[str, Any] = {}
    """Its fields."""


class RoomQuery(Struct, frozen=True):
    """Which rooms, in which order."""

    kind: Name | None = None
    where: Expression = ""
    """As in: open_seats > 0 AND properties.map = 'dust'. Empty finds all."""
    order_by: Annotated[list[Annotated[str, Meta(max_length=96)]], Meta(max_length=4)] = []
    """As in: players desc. Repeat it for more; the oldest come first otherwise."""
    limit: Limit = 20
    cursor: Cursor = ""
    """Of the page before."""


class SessionQuery(Struct, frozen=True):
    """Which sessions."""

    player: Annotated[str, Meta(max_length=128)] = ""
    """Only those of this player."""
    search: Found = ""
    """Only those in whose id, player or room this occurs."""
    status: Annotated[str, Meta(max_length=16)] = ""
    """Only those that are preconnect, connected or disconnected."""
    limit: Limit = 20
    cursor: Cursor = ""
    """Of the page before."""


class PlayerQuery(Struct, frozen=True):
    """Which players."""

    search: Found = ""
    """Only those in whose id this occurs."""
    limit: Limit = 20
    cursor: Cursor = ""
    """Of the page before."""


class PageQuery(Struct, frozen=True):
    """Which page."""

    limit: Limit = 20
    cursor: Cursor = ""
    """Of the page before."""


class ReasonQuery(Struct, frozen=True):
    """Why."""

    reason: Sentence = ""
    """A sentence for those whom it concerns."""


class EventQuery(Struct, frozen=True):
    """From where on."""

    after: Annotated[int, Meta(ge=0, le=NUMBER_MAX)] | UnsetType = UNSET
    """Go on after the event with this id; the Last-Event-ID header counts more."""


class SeatList(Struct, frozen=True):
    """The seats of a room."""

    seats: list[SeatInfo]


class QueueList(Struct, frozen=True):
    """The queues of a node."""

    queues: list[QueueInfo]


class PlacementList(Struct, frozen=True):
    """The placements of a node."""

    placements: list[PlacementInfo]


class Health(Struct, frozen=True):
    """Answered by a node that is well."""

    status: str
