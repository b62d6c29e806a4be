"""What can be asked of a node's directory, as data: the same words from a client's session, over HTTP, and in Python.

Unknown fields are refused: these are commands, and what is not understood must not be half carried out.
"""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

import msgspec
from msgspec import Meta, Struct

from holdfast.schemas.frames import CREDENTIAL_CHARS_MAX, Name, hidden_from_rich
from holdfast.schemas.player import PLAYER_CHARS_MAX, PlayerName
from holdfast.schemas.room import PROPERTIES_MAX, Code, JoinPolicy, Properties, RoomId, RoomName, SeatsMax, Visibility

EXPRESSION_CHARS_MAX = 1024
PARTY_MAX = 32
WHY_CHARS_MAX = 256
MESSAGE_VERSION_CHARS_MAX = 4096
# The end of the year 9999: no calendar goes further.
BAN_UNTIL_MAX = 253_402_300_799

Password = Annotated[str, Meta(max_length=64)]
Credential = Annotated[str, Meta(max_length=CREDENTIAL_CHARS_MAX)]
IdempotencyKey = Annotated[str, Meta(max_length=64)]
Expression = Annotated[str, Meta(max_length=EXPRESSION_CHARS_MAX)]
MessageVersion = Annotated[str, Meta(max_length=MESSAGE_VERSION_CHARS_MAX)]
"""Which messages of the room the client was made for, as `holdfast types` wrote it; empty: it does not say."""
Seconds = Annotated[float, Meta(gt=0, le=3600)]


class RoomOptions(TypedDict, total=False):
    """The room to make, by keyword; these and the kind are what a placement takes."""

    properties: Mapping[str, Any] | None
    max_players: int | None
    name: str
    visibility: Visibility


class CreateOptions(RoomOptions, total=False):
    """The fields of `Create` by keyword, beside the kind."""

    password: str
    idempotency_key: str
    message_version: str


def fields_of(options: RoomOptions) -> dict[str, Any]:
    """Options by keyword as the fields of a request."""
    return {**options, "properties": dict(options.get("properties") or {})}


class Create(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Make a room. The same `idempotency_key` with the same request gives the same room; a different one is refused."""

    kind: Name
    properties: Properties = {}
    max_players: SeatsMax | None = None
    name: RoomName = ""
    visibility: Visibility = "public"
    password: Password = ""
    idempotency_key: IdempotencyKey = ""
    message_version: MessageVersion = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(kind={self.kind!r}, name={self.name!r}, visibility={self.visibility!r})"

    __rich_repr__ = hidden_from_rich


class JoinOrCreate(Create, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Take a seat in the oldest open public room of a kind for which `where` holds, or in a new room."""

    where: Expression = ""


class Join(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Take a seat: by the room's id, or by its code."""

    room: RoomId = ""
    code: Code = ""
    password: Password = ""
    message_version: MessageVersion = ""

    def __repr__(self) -> str:
        return f"Join(room={self.room!r}, code={self.code!r})"

    __rich_repr__ = hidden_from_rich


class Reserve(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Keep seats for a party, all or none; `players` empty: for whoever asks. Asking again extends."""

    room: RoomId = ""
    code: Code = ""
    password: Password = ""
    players: Annotated[list[PlayerName], Meta(max_length=PARTY_MAX)] = []
    ttl_s: Seconds | None = None

    def __repr__(self) -> str:
        return f"Reserve(room={self.room!r}, players={self.players!r}, ttl_s={self.ttl_s!r})"

    __rich_repr__ = hidden_from_rich


class Release(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Give reserved seats back; `players` empty: whoever asks."""

    room: RoomId
    players: Annotated[list[PlayerName], Meta(max_length=PARTY_MAX)] = []


class Wait(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Stand in line for a seat of a full room; asking again tells how far the line has moved."""

    room: RoomId
    password: Password = ""

    def __repr__(self) -> str:
        return f"Wait(room={self.room!r})"

    __rich_repr__ = hidden_from_rich


class StopWaiting(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Step out of the line."""

    room: RoomId


class Leave(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Give the seat back."""


class Mine(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The rooms in which this player has a seat, from whichever device; unless `seated`, also a reserved one."""

    seated: bool = False
    """Without those where a seat is only reserved: anybody in the room may have reserved it."""


class Search(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Find rooms: `where` in the grammar of searches, `order_by` as in ["players desc", "properties.level"]."""

    kind: Name | None = None
    where: Expression = "open_seats > 0"
    order_by: Annotated[list[Annotated[str, Meta(max_length=96)]], Meta(max_length=4)] = []
    """As in: players desc. There may be several; by default the oldest come first."""
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    cursor: Annotated[str, Meta(max_length=1024)] = ""
    """The cursor of the page before."""


class Watch(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A search that goes on: what is found now, and every change to it as a notice. `id` is the client's own choice."""

    id: Name
    kind: Name | None = None
    where: Expression = "open_seats > 0"
    limit: Annotated[int, Meta(ge=1, le=100)] = 100


class Unwatch(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """End a search that goes on."""

    id: Name


class RoomChanges(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What to change of a room; a field that is missing or null stays as it is."""

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

    def __repr__(self) -> str:
        return f"{type(self).__name__}(if_version={self.if_version!r})"

    __rich_repr__ = hidden_from_rich


class Update(RoomChanges, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Change a room's entry."""

    room: RoomId

    def __repr__(self) -> str:
        return f"Update(room={self.room!r}, if_version={self.if_version!r})"


class PlacedPlayer(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Somebody who is to get a seat, and how far they are from each region."""

    id: PlayerName
    latencies_ms: Annotated[dict[Name, Annotated[float, Meta(ge=0, le=60_000)]], Meta(max_length=32)] = {}


class StartPlacement(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Have a room made on the best node of a queue, with seats for these players; `id` makes it idempotent."""

    queue: Name
    kind: Name
    players: Annotated[list[PlacedPlayer], Meta(max_length=PARTY_MAX)] = []
    id: IdempotencyKey = ""
    name: RoomName = ""
    properties: Properties = {}
    max_players: SeatsMax | None = None
    visibility: Visibility = "public"


class GetPlacement(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How far a placement is."""

    placement: IdempotencyKey


class StopPlacement(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Give up a placement that is still pending."""

    placement: IdempotencyKey


class Ban(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Keep somebody out: a player, or a range of addresses. It takes the place of a former ban of the same."""

    player: Annotated[str, Meta(max_length=PLAYER_CHARS_MAX)] = ""
    """The player's id."""
    address: Annotated[str, Meta(max_length=64)] = ""
    """An address or a range of them, as in 203.0.113.0/24 or 2001:db8::/32."""
    until: Annotated[float, Meta(ge=0, le=BAN_UNTIL_MAX)] = 0.0
    """In seconds since 1970; 0 is for good."""
    for_s: Annotated[float, Meta(gt=0, le=BAN_UNTIL_MAX)] | None = None
    """The same as so many seconds from now."""
    why: Annotated[str, Meta(max_length=WHY_CHARS_MAX)] = ""
    """What they are told."""


class LinkAccount(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Let a credential prove this guest from now on: the same player, with an account. The credential is a secret."""

    scheme: Name
    credential: Credential

    def __repr__(self) -> str:
        return f"Link(scheme={self.scheme!r}, credential=***)"

    __rich_repr__ = hidden_from_rich


class Confirm(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The token that came with an answer is stored: the one before it is used up."""


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
    "reserve": Reserve,
    "search": Search,
    "start_placement": StartPlacement,
    "stop_placement": StopPlacement,
    "stop_waiting": StopWaiting,
    "unwatch": Unwatch,
    "update": Update,
    "wait": Wait,
    "watch": Watch,
}
"""What a session can ask for, by its name on the wire."""
READS = frozenset({"get_placement", "mine", "search", "watch"})
"""Those that change no room and no seat: their answers are long, and asked again they are carried out again."""


def fingerprint(request: Struct) -> bytes:
    """The same for equal requests, and different for different ones."""
    return hashlib.sha256(msgspec.msgpack.encode(request, order="deterministic")).digest()
