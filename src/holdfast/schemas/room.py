"""Rooms as data: one schema, and what each reader gets of it.

`RoomSchema` has everything that is known of a room beside the game's own state. It never leaves the server. Its
projections do, each an allow-list of fields: `RoomInfo` is the answer to a client, the body over HTTP and the row of a
search, `ListingRecord` is saved with the room's state in a `RoomRecord`, and `ListingFile` is exported in a `RoomFile`.
A new field of the schema is private until a projection lists it; `project` fills it in there. Fields of records stand
in the order in which they are stored, so new ones come last.
"""

from typing import Annotated, Any, Literal, NewType

from msgspec import Meta, Raw, Struct

from holdfast.schemas.frames import Name
from holdfast.schemas.player import PlayerFile, PlayerName, PlayerState

PROPERTIES_MAX = 64
ROOM_NAME_CHARS_MAX = 128

Properties = Annotated[dict[Name, Any], Meta(max_length=PROPERTIES_MAX)]
"""A room's searchable facts: text, numbers, booleans, and lists of them."""
RoomName = Annotated[str, Meta(max_length=ROOM_NAME_CHARS_MAX)]
RoomId = Annotated[str, Meta(max_length=64)]
Code = Annotated[str, Meta(max_length=16)]
SeatsMax = Annotated[int, Meta(le=100_000)]
Visibility = Literal["public", "private"]
"""public: found by searches. private: joined by those who know its id or its code."""
TimeText = NewType("TimeText", str)
"""A moment as people read it, as in 2026-11-15T12:00:00Z; records have seconds since 1970."""
HexText = NewType("HexText", str)
"""A number of up to 64 bits: tools that count in floats would round it."""
JoinPolicy = Literal["accept_all", "deny_all"]
"""Whether newcomers may join, as set from outside; the game's own word for it is `lock`."""


class PasswordHash(Struct, frozen=True, array_like=True):
    """A room's password as it is kept: argon2id's own text, with its salt and settings.

    The first two fields are of records from before that: a salted SHA-256, still good until the password is changed.
    """

    salt: bytes = b""
    digest: bytes = b""
    argon2: str = ""

    @property
    def is_old(self) -> bool:
        """Whether it is one of those."""
        return not self.argon2

    def __repr__(self) -> str:
        return "PasswordHash(***)"


class CreationKey(Struct, frozen=True, array_like=True):
    """The idempotency key a room was made with: whose, and a hash of the rest of the request."""

    creator: str
    key: str
    request: bytes


class RoomSchema(Struct, frozen=True, kw_only=True):
    """Everything that is known of a room beside its game's state. It is never sent: see its projections."""

    id: str
    kind: str
    players: int
    max_players: int
    phase: str
    properties: dict[str, Any]
    name: str
    status: str
    reason: str
    open_seats: int
    visibility: Visibility
    join_policy: JoinPolicy
    is_locked: bool
    password: PasswordHash | None
    has_password: bool
    code: str
    creator: str
    creation_key: CreationKey | None
    host: str
    successor: str
    """The player who is to be the next host, if the game has named one."""
    created_at: float
    version: int


class RoomInfo(Struct, frozen=True, omit_defaults=True, gc=False):
    """A room as the directory shows it, and as searches find it. Times are seconds since 1970."""

    id: str
    kind: str
    players: int
    """Seats that are reserved, taken or held."""
    max_players: int
    phase: str
    properties: dict[str, Any]
    name: str = ""
    status: str = "active"
    """creating, active, ending, ended or failed."""
    reason: str = ""
    """Why it ended or failed."""
    open_seats: int = 0
    """How many newcomers could join now; 0 while it takes nobody."""
    visibility: str = "public"
    join_policy: str = "accept_all"
    is_locked: bool = False
    has_password: bool = False
    code: str = ""
    """For who knows it already: the members, the creator and operators. Empty for others."""
    creator: str = ""
    host: str = ""
    """The player who is the host, if the room has one."""
    created_at: float = 0.0
    version: int = 0
    """Grows with every change of the entry: what `if_version` compares."""


class RoomPage(Struct, frozen=True, omit_defaults=True):
    """One page of a search; the cursor gets the next one, and is empty after the last."""

    rooms: list[RoomInfo]
    cursor: str = ""


class RoomState(Struct, frozen=True):
    """What is inside a room now; values that are no data are shown as text."""

    room: str
    state: Any
    """What would be saved of it: its `snapshot()`."""
    attributes: dict[str, Any]
    """What the game keeps on the room itself."""
    players: list[PlayerState]


class BroadcastInfo(Struct, frozen=True):
    """How many players a message was sent to."""

    players: int


class ReservationRecord(Struct, array_like=True, frozen=True):
    """A seat that is kept for somebody, until when by the wall clock, and at whose request."""

    player: str
    until: float
    by: str
    is_placed: bool = False


class ListingRecord(Struct, array_like=True, frozen=True):
    """A room's entry in the directory."""

    name: str = ""
    visibility: Visibility = "public"
    password: PasswordHash | None = None
    creator: str = ""
    code: str = ""
    creation_key: CreationKey | None = None
    join_policy: JoinPolicy = "accept_all"
    version: int = 1
    host: str = ""
    successor: str = ""
    reservations: list[ReservationRecord] = []


class ObjectsRecord(Struct, array_like=True, frozen=True):
    """Some of a room's objects, each with the number of its owner's seat."""

    number: int
    owners: dict[str, int]


class TimerRecord(Struct, array_like=True, frozen=True):
    """A pending `after`: when by the room's clock, which method, with what. A player is named by id."""

    number: int
    due_at: float
    method: str
    arguments: list[tuple[str, Any]]


class EffectRecord(Struct, array_like=True, frozen=True):
    """Something to be done outside, once the turn that wanted it is saved."""

    name: str
    room: str
    payload: Raw


class RoomRecord(Struct, array_like=True, frozen=True):
    """A room between two turns."""

    kind: str
    node: str
    epoch: int
    index: int
    previous: bytes
    saved_at: float
    phase: str
    is_locked: bool
    max_players: int
    was_joined: bool
    properties: Raw
    random: int
    state: Raw
    has_state_beside: bool
    """The state lies beside the record, under a key of its own: it is large and seldom changes."""
    seats: list[Raw]
    """Of `SeatRecord`. Of these three, only what is not beside the record: read them with `seats_of` and its like."""
    objects: list[Raw]
    """Of `ObjectsRecord`."""
    timers: list[Raw]
    """Of `TimerRecord`."""
    parts: bytes
    """The sum of the digests of everything that lies beside the record."""
    created_at: float
    is_final: bool
    """Nothing happened in the room after this: its server stopped in order."""
    listing: ListingRecord = ListingRecord()
    clock: float = 0.0
    """What the clock that timers go by showed when this was saved; it has nothing to do with the time of day."""


class ReservationFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A seat that is kept for a player, until when, and who had it reserved (empty: an operator)."""

    player: PlayerName
    until: TimeText
    by: str = ""
    is_placed: bool = False
    """Whether a placement had it reserved, in the name of `by`."""


class ListingFile(Struct, frozen=True, forbid_unknown_fields=True):
    """What the directory knew of the room. Files from before there was one have none of it."""

    name: RoomName = ""
    visibility: Visibility = "public"
    creator: str = ""
    code: str = ""
    """Empty: the next server makes one up, as it does when another room has this one."""
    join_policy: JoinPolicy = "accept_all"
    version: Annotated[int, Meta(ge=1)] = 1
    host: str = ""
    successor: str = ""
    reservations: list[ReservationFile] = []


class TimerFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A pending `after`; an argument is {"value": …}, or {"player": id}."""

    due_at: TimeText
    method: str
    arguments: list[dict[str, Any]]


FileFormat = Literal["holdfast-room"]
FILE_FORMAT: FileFormat = "holdfast-room"
FILE_VERSION = 1


class RoomFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the file says, from top to bottom."""

    format: FileFormat = FILE_FORMAT
    version: int = FILE_VERSION
    id: str
    kind: str
    phase: Literal["lobby", "playing"]
    is_locked: bool
    max_players: int
    was_joined: bool
    listing: ListingFile = ListingFile()
    properties: dict[str, Any]
    state: Any
    parts: dict[str, dict[str, Any]]
    """The `Parts` of the state: by field, then by name."""
    players: list[PlayerFile]
    objects: list[str]
    """What belongs to the server; the players' objects are with them."""
    timers: list[TimerFile]
    random: HexText
    """Where the room's dice are. A text: tools that count in floats would round it."""
    created_at: TimeText
    saved_at: TimeText
    epoch: int
    index: int
    hash: str
    """By this the next record of the room names the one in this file."""
