"""Rooms as data: one schema, and its projections for each reader.

`RoomSchema` has everything that is known of a room besides the game's own state. It never leaves the server. Its
projections do, each an allow-list of fields: `RoomInfo` is the answer to a client, the HTTP body and the row of a
search, `ListingRecord` is saved with the room's state in a `RoomRecord`, and `ListingFile` is exported in a `RoomFile`.
A new field of the schema is private until a projection lists it, or it moves to `RoomInfo`; `project` then fills it in.
The fields of records are in the order in which they are stored, so new ones come last.
"""

from typing import Annotated, Any, Literal, NewType

from msgspec import Meta, Raw, Struct

from holdfast.schemas.frames import HidesSecrets, Name
from holdfast.schemas.player import PlayerFile, PlayerName, PlayerState

PROPERTIES_MAX = 64
ROOM_NAME_CHARS_MAX = 128

Properties = Annotated[dict[Name, Any], Meta(max_length=PROPERTIES_MAX)]
"""A room's searchable properties: text, numbers, booleans, and lists of them."""
RoomName = Annotated[str, Meta(max_length=ROOM_NAME_CHARS_MAX)]
RoomId = Annotated[str, Meta(max_length=64)]
Code = Annotated[str, Meta(max_length=16)]
SeatsMax = Annotated[int, Meta(le=100_000)]
Visibility = Literal["public", "private"]
"""public: found by searches. private: joined by id or code."""
TimeText = NewType("TimeText", str)
"""A time as people read it, as in 2026-11-15T12:00:00Z; records have seconds since 1970."""
HexText = NewType("HexText", str)
"""A number of up to 64 bits, as text: tools that use floats would round it."""
JoinPolicy = Literal["accept_all", "deny_all"]
"""Whether new players may join, as set from outside; `lock` is the game's own setting."""


class PasswordHash(HidesSecrets, Struct, frozen=True, array_like=True):
    """The hash of a room's password: argon2id's own text, with its salt and settings.

    The first two fields are of older records: a salted SHA-256, valid until the password is changed.
    """

    salt: bytes = b""
    digest: bytes = b""
    argon2: str = ""

    @property
    def is_old(self) -> bool:
        """Whether it is one of those."""
        return not self.argon2


class CreationKey(Struct, frozen=True, array_like=True):
    """The idempotency key that a room was created with: whose, and a hash of the rest of the request."""

    creator: str
    key: str
    request: bytes


class RoomInfo(Struct, frozen=True, omit_defaults=True, gc=False):
    """A room as the directory shows it, and as searches find it. Times are seconds since 1970."""

    id: str
    kind: str
    players: int
    """Reserved, taken and held seats."""
    max_players: int
    phase: str
    properties: dict[str, Any]
    name: str = ""
    status: str = "active"
    """creating, active, ending, ended or failed."""
    reason: str = ""
    """Why it ended or failed."""
    open_seats: int = 0
    """How many new players could join now; 0 while it accepts nobody."""
    visibility: str = "public"
    join_policy: str = "accept_all"
    is_locked: bool = False
    has_password: bool = False
    code: str = ""
    """The join code, shown to members, the creator and operators. Empty for others."""
    creator: str = ""
    host: str = ""
    """The host, if the room has one."""
    created_at: float = 0.0
    version: int = 0
    """Grows with every change of the listing: compared with `if_version`."""
    spectators: int = 0
    """Those who watch without a seat; they count in nothing else."""
    max_spectators: int = 0
    """How many may watch; 0: nobody."""
    host_name: str = ""
    """What the host is called, if they have a name."""


class RoomSchema(RoomInfo, frozen=True, kw_only=True):
    """Everything that is known of a room besides its game's state: what is shown, and what is private. It is never
    sent."""

    visibility: Visibility
    join_policy: JoinPolicy
    password: PasswordHash | None
    creation_key: CreationKey | None
    successor: str
    """The next host, if the game has named one."""


class RoomPage(Struct, frozen=True, omit_defaults=True):
    """One page of a search; the cursor fetches the next page, and is empty on the last."""

    rooms: list[RoomInfo]
    cursor: str = ""
    hint: str = ""
    """Why nothing was found, if the search compares a property with a type that it has in no room."""


class RoomOnNode(RoomInfo, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A room as operators see it."""

    node: str = ""
    """The node of a cluster that has it."""


class RoomsFound(Struct, frozen=True, omit_defaults=True):
    """One page of a search by operators; the cursor fetches the next page, and is empty on the last."""

    rooms: list[RoomOnNode]
    cursor: str = ""
    hint: str = ""
    """Why nothing was found, if the search compares a property with a type that it has in no room."""
    missing: list[str] = []
    """The nodes of the cluster that are silent: what is listed of their rooms may have changed."""


class RoomsChanged(Struct, frozen=True):
    """A notice: what has changed in a watched search since the last one. Rooms that are new or other than they were,
    and the ids of those gone."""

    changed: list[RoomInfo] = []
    removed: list[str] = []


class TimerInfo(Struct, frozen=True, omit_defaults=True):
    """A pending timer of a room."""

    method: str
    due_in_s: float
    name: str = ""
    every_s: float = 0.0
    """The time between two calls; 0: there is only one."""


class SharedParts(Struct, frozen=True):
    """What a room shares with its clients. In paths, `*` stands for any key or place."""

    roots: list[str]
    """"state", "players", or both."""
    private: list[str]
    """The paths of what only its own player sees."""
    hidden: list[str]
    """The paths of what no client sees."""
    has_view: bool = False
    """Whether clients have a view of the state that the room makes for each, and not the state itself."""
    behind: int = 0
    """Clients that are away or read slowly, and will get all changes at once."""
    kept_bytes: int = 0
    """What is kept of earlier states for these, by its size when it is encoded."""


class RoomState(Struct, frozen=True):
    """The present contents of a room; values that are not plain data are shown as text."""

    room: str
    state: Any
    """What would be saved: its `snapshot()`."""
    attributes: dict[str, Any]
    """The game's attributes of the room."""
    players: list[PlayerState]
    timers: list[TimerInfo] = []
    """Those that are pending, in the order in which they were set."""
    shared: SharedParts | None = None
    """What clients see of it; None if the room shares nothing."""


class BroadcastInfo(Struct, frozen=True):
    """How many players a message was sent to."""

    players: int


class ReservationRecord(Struct, array_like=True, frozen=True):
    """A reserved seat, until when on the wall clock, and at whose request."""

    player: str
    until: float
    by: str
    is_placed: bool = False
    options: bytes | None = None
    """What the player joins with, in MessagePack."""


class ListingRecord(Struct, array_like=True, frozen=True):
    """A room's listing in the directory."""

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
    """A pending timer: when on the room's clock, which method, and its arguments. A player is named by id."""

    number: int
    due_at: float
    method: str
    arguments: list[tuple[str, Any]]
    name: str = ""
    every_s: float = 0.0
    """The time between two calls; 0: there is only one."""


class GroupRecord(Struct, array_like=True, frozen=True):
    """A group of a room: its name, and the numbers of its members' seats."""

    number: int
    name: str
    seats: list[int]


class EffectRecord(Struct, array_like=True, frozen=True):
    """An effect, to be carried out once its turn is saved."""

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
    """Whether the state is beside the record, under its own key: it is large and seldom changes."""
    seats: list[Raw]
    """Of `SeatRecord`. These three, and the groups, have only what is not beside the record: read them with `seats_of`
    and the like."""
    objects: list[Raw]
    """Of `ObjectsRecord`."""
    timers: list[Raw]
    """Of `TimerRecord`."""
    parts: bytes
    """The sum of the digests of everything beside the record."""
    created_at: float
    is_final: bool
    """Nothing happened in the room after this: its server stopped cleanly."""
    listing: ListingRecord = ListingRecord()
    clock: float = 0.0
    """The time of the timers' clock when this was saved; it is unrelated to the time of day."""
    groups: list[Raw] = []
    """Of `GroupRecord`."""
    spectators: list[Raw] = []
    """Of `SeatRecord`, without data: read them with `spectators_of`."""


class ReservationFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A reserved seat, until when, and who reserved it (empty: an operator)."""

    player: PlayerName
    until: TimeText
    by: str = ""
    is_placed: bool = False
    """Whether a placement reserved it, in the name of `by`."""
    options: Any = None
    """What the player joins with, unless they say otherwise."""


class ListingFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The room's listing. Older files have none of it."""

    name: RoomName = ""
    visibility: Visibility = "public"
    creator: str = ""
    code: str = ""
    """Empty: the next server generates one, as it does when another room has this one."""
    join_policy: JoinPolicy = "accept_all"
    version: Annotated[int, Meta(ge=1)] = 1
    host: str = ""
    successor: str = ""
    reservations: list[ReservationFile] = []


class TimerFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A pending timer; an argument is {"value": …}, {"player": id} or {"spectator": id}."""

    due_at: TimeText
    method: str
    arguments: list[dict[str, Any]]
    name: str = ""
    every_s: float = 0.0
    """The time between two calls; 0: there is only one."""


FileFormat = Literal["holdfast-room"]
FILE_FORMAT: FileFormat = "holdfast-room"
FILE_VERSION = 1


class RoomFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The contents of the file, from top to bottom."""

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
    """The server's objects; the players' objects are with the players."""
    timers: list[TimerFile]
    random: HexText
    """The state of the room's random generator. A text: tools that use floats would round it."""
    created_at: TimeText
    saved_at: TimeText
    epoch: int
    index: int
    hash: str
    """The hash by which the next record of the room refers to the one in this file."""
