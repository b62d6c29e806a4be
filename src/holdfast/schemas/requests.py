"""Requests to a node's directory, as data: the same from a client's session, over HTTP, and in Python."""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypedDict

import msgspec
from msgspec import Meta, Struct

from holdfast.schemas.frames import CREDENTIAL_CHARS_MAX, HidesSecrets, Name
from holdfast.schemas.player import PLAYER_CHARS_MAX, PlayerName
from holdfast.schemas.room import PROPERTIES_MAX, Code, JoinPolicy, Properties, RoomId, RoomName, SeatsMax, Visibility

EXPRESSION_CHARS_MAX = 1024
PARTY_MAX = 32
WHY_CHARS_MAX = 256
MESSAGE_VERSION_CHARS_MAX = 4096
# The end of the year 9999, the last that calendars support.
BAN_UNTIL_MAX = 253_402_300_799

Password = Annotated[str, Meta(max_length=64)]
Credential = Annotated[str, Meta(max_length=CREDENTIAL_CHARS_MAX)]
IdempotencyKey = Annotated[str, Meta(max_length=64)]
Expression = Annotated[str, Meta(max_length=EXPRESSION_CHARS_MAX)]
MessageVersion = Annotated[str, Meta(max_length=MESSAGE_VERSION_CHARS_MAX)]
"""The version of the room's messages that the client was built for, as `holdfast types` wrote it; empty: not given."""
Config = dict[str, Any]
"""What a new room is told in `on_create`, and nobody else: plain data."""
JoinOptions = Any
"""What a player joins with: data for the room's `join_options`, or null."""
Seconds = Annotated[float, Meta(gt=0, le=3600)]


class RoomOptions(TypedDict, total=False):
    """The room to create, by keyword; with the kind, these are the options of a placement."""

    properties: Mapping[str, Any] | None
    config: Mapping[str, Any] | None
    max_players: int | None
    name: str
    visibility: Visibility


class CreateOptions(RoomOptions, total=False):
    """The fields of `Create` by keyword, besides the kind."""

    password: str
    idempotency_key: str
    message_version: str


def fields_of(options: RoomOptions) -> dict[str, Any]:
    """Options by keyword as the fields of a request."""
    properties, config = options.get("properties"), options.get("config")
    return {**options, "properties": dict(properties or {}), "config": dict(config or {})}


class DirectoryRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The base of all requests. Unknown fields are refused: what is only partly understood must not be carried out."""


class Create(HidesSecrets, DirectoryRequest, frozen=True):
    """Create a room. The same `idempotency_key` with the same request gives the same room; a different request is
    refused."""

    shown = ("kind", "name", "visibility")
    kind: Name
    properties: Properties = {}
    max_players: SeatsMax | None = None
    name: RoomName = ""
    visibility: Visibility = "public"
    password: Password = ""
    idempotency_key: IdempotencyKey = ""
    message_version: MessageVersion = ""
    config: Config = {}


class JoinOrCreate(Create, frozen=True):
    """Take a seat in the oldest open public room of a kind that matches `where`, or in a new room."""

    where: Expression = ""
    options: JoinOptions = None


class Join(HidesSecrets, DirectoryRequest, frozen=True):
    """Take a seat: by the room's id, or by its code."""

    shown = ("room", "code")
    room: RoomId = ""
    code: Code = ""
    password: Password = ""
    message_version: MessageVersion = ""
    options: JoinOptions = None


class Reserve(HidesSecrets, DirectoryRequest, frozen=True):
    """Reserve seats for a party, all or none; empty `players`: for the sender. Asking again extends the time."""

    shown = ("room", "players", "ttl_s")
    room: RoomId = ""
    code: Code = ""
    password: Password = ""
    players: Annotated[list[PlayerName], Meta(max_length=PARTY_MAX)] = []
    ttl_s: Seconds | None = None
    options: JoinOptions = None


class Release(DirectoryRequest, frozen=True):
    """Free reserved seats; empty `players`: the sender's."""

    room: RoomId
    players: Annotated[list[PlayerName], Meta(max_length=PARTY_MAX)] = []


class Wait(HidesSecrets, DirectoryRequest, frozen=True):
    """Join the waitlist of a full room; asking again returns the present place."""

    shown = ("room",)
    room: RoomId
    password: Password = ""


class StopWaiting(DirectoryRequest, frozen=True):
    """Leave the waitlist."""

    room: RoomId


class Leave(DirectoryRequest, frozen=True):
    """Free the seat."""


class Spectate(HidesSecrets, DirectoryRequest, frozen=True):
    """Watch a room without a seat: the room by its id, or by its code."""

    shown = ("room",)
    room: RoomId = ""
    code: Code = ""
    password: Password = ""
    message_version: MessageVersion = ""


class Unspectate(DirectoryRequest, frozen=True):
    """Watch no more."""


class Mine(DirectoryRequest, frozen=True):
    """The rooms in which this player has a seat, from any device; unless `seated`, also reserved ones."""

    seated: bool = False
    """Without rooms where a seat is only reserved: anybody in the room may have reserved it."""


class Search(DirectoryRequest, frozen=True):
    """Find rooms: `where` in the search language, `order_by` as in ["players desc", "properties.level"]."""

    kind: Name | None = None
    where: Expression = "open_seats > 0"
    order_by: Annotated[list[Annotated[str, Meta(max_length=96)]], Meta(max_length=4)] = []
    """As in: players desc. There may be several; by default the oldest come first."""
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    cursor: Annotated[str, Meta(max_length=1024)] = ""
    """The cursor of the previous page."""


class Watch(DirectoryRequest, frozen=True):
    """Watch a search: the present results, and every change to them as a notice. The client chooses the `id`."""

    id: Name
    kind: Name | None = None
    where: Expression = "open_seats > 0"
    limit: Annotated[int, Meta(ge=1, le=100)] = 100


class Unwatch(DirectoryRequest, frozen=True):
    """Stop watching a search."""

    id: Name


class RoomChanges(HidesSecrets, DirectoryRequest, frozen=True, kw_only=True):
    """Changes to a room; a field that is missing or null stays as it is."""

    shown: ClassVar[tuple[str, ...]] = ("if_version",)
    name: RoomName | None = None
    set: Properties = {}
    """Properties to set."""
    remove: Annotated[list[Name], Meta(max_length=PROPERTIES_MAX)] = []
    """Properties to remove."""
    max_players: SeatsMax | None = None
    """Fewer than there are players removes nobody."""
    join_policy: JoinPolicy | None = None
    locked: bool | None = None
    visibility: Visibility | None = None
    password: Password | None = None
    """An empty one removes the password."""
    host: PlayerName | None = None
    """The player who becomes the host."""
    if_version: int | None = None
    """Change nothing unless the room has this version."""


class Update(RoomChanges, frozen=True):
    """Change a room's listing."""

    shown = ("room", "if_version")
    room: RoomId


class PlacedPlayer(DirectoryRequest, frozen=True):
    """A player who is to get a seat, and their latency to each region."""

    id: PlayerName
    latencies_ms: Annotated[dict[Name, Annotated[float, Meta(ge=0, le=60_000)]], Meta(max_length=32)] = {}
    options: JoinOptions = None


class StartPlacement(DirectoryRequest, frozen=True):
    """Create a room on the best node of a queue, with seats for these players; `id` makes it idempotent."""

    queue: Name
    kind: Name
    players: Annotated[list[PlacedPlayer], Meta(max_length=PARTY_MAX)] = []
    id: IdempotencyKey = ""
    name: RoomName = ""
    properties: Properties = {}
    max_players: SeatsMax | None = None
    visibility: Visibility = "public"
    config: Config = {}


class GetPlacement(DirectoryRequest, frozen=True):
    """Get the state of a placement."""

    placement: IdempotencyKey


class StopPlacement(DirectoryRequest, frozen=True):
    """Stop a pending placement."""

    placement: IdempotencyKey


class Ban(DirectoryRequest, frozen=True):
    """Ban a player or a range of addresses. It replaces a former ban of the same."""

    player: Annotated[str, Meta(max_length=PLAYER_CHARS_MAX)] = ""
    """The player's id."""
    address: Annotated[str, Meta(max_length=64)] = ""
    """An address or a range of them, as in 203.0.113.0/24 or 2001:db8::/32."""
    until: Annotated[float, Meta(ge=0, le=BAN_UNTIL_MAX)] = 0.0
    """In seconds since 1970; 0 is permanent."""
    for_s: Annotated[float, Meta(gt=0, le=BAN_UNTIL_MAX)] | None = None
    """Instead of `until`: so many seconds from now."""
    why: Annotated[str, Meta(max_length=WHY_CHARS_MAX)] = ""
    """The reason, shown to the banned players."""


class LinkAccount(HidesSecrets, DirectoryRequest, frozen=True):
    """Let a credential prove this guest from now on: the same player, with an account. The credential is a secret."""

    shown = ("scheme",)
    scheme: Name
    credential: Credential


class Rename(DirectoryRequest, frozen=True):
    """Change the player's display name; an empty one takes it away."""

    name: str


class Confirm(DirectoryRequest, frozen=True):
    """The client has stored the token of an answer: the previous one is used up."""


class WholeView(DirectoryRequest, frozen=True):
    """The client has lost what the room shares: send the whole view again."""

    purpose: Literal["seat", "spectator"]


REQUESTS: dict[str, type[Struct]] = {
    "confirm": Confirm,
    "create": Create,
    "get_placement": GetPlacement,
    "join": Join,
    "join_or_create": JoinOrCreate,
    "leave": Leave,
    "link": LinkAccount,
    "mine": Mine,
    "release": Release,
    "rename": Rename,
    "reserve": Reserve,
    "search": Search,
    "spectate": Spectate,
    "start_placement": StartPlacement,
    "stop_placement": StopPlacement,
    "stop_waiting": StopWaiting,
    "unspectate": Unspectate,
    "unwatch": Unwatch,
    "update": Update,
    "view": WholeView,
    "wait": Wait,
    "watch": Watch,
}
"""The requests of a session, by name on the wire."""
READS = frozenset({"get_placement", "mine", "search", "watch"})
"""Read-only requests: their answers are long, and a repeated request is carried out again."""

REMOTE = frozenset({"release", "reserve", "stop_waiting", "update", "wait"})
"""Requests about a room that leave the session where it is: in a cluster the node of the room carries them out."""


def fingerprint(request: Struct) -> bytes:
    """Equal for equal requests, and different for different ones."""
    return hashlib.sha256(msgspec.msgpack.encode(request, order="deterministic")).digest()
