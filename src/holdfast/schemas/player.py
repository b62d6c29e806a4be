"""Players and their seats as data: for operators and other players, saved, and exported.

`PlayerSchema` has everything that is known of a player in a room; `SeatInfo`, `PlayerState`, `SeatRecord` and
`PlayerFile` list what of it is shown, saved and exported.
"""

from typing import Annotated, Any

from msgspec import Meta, Raw, Struct

from holdfast.schemas.session import ChannelRecord

PLAYER_CHARS_MAX = 128
AGENT_PREFIX = "agent:"
"""The ids of agents begin so, and those of no other player."""
NO_OPTIONS = Raw(b"\xc0")
"""Null in MessagePack: msgspec knows no `Raw | None`."""

PlayerName = Annotated[str, Meta(min_length=1, max_length=PLAYER_CHARS_MAX)]


class PlayerInfo(Struct, frozen=True, omit_defaults=True):
    """A player with a session, a seat or a reservation."""

    id: str
    sessions: list[str]
    rooms: list[str]
    account: str = ""
    """The name of the account that one of the sessions was signed in with."""
    roles: list[str] = []
    """Of all sessions together."""
    granted: list[str] = []
    """Roles that operators granted."""
    revoked: list[str] = []
    """Roles that operators revoked."""
    name: str = ""
    """Their display name, if they have one: that of the newest session."""
    is_agent: bool = False
    nodes: list[str] = []
    """The nodes of a cluster that have one of the sessions or rooms."""
    missing: list[str] = []
    """The nodes that did not answer: what they have of the player is not shown."""


class PlayerPage(Struct, frozen=True, omit_defaults=True):
    """One page of the players, by id; the cursor fetches the next page, and is empty on the last."""

    players: list[PlayerInfo]
    cursor: str = ""
    missing: list[str] = []
    """The nodes of the cluster that did not answer: their players are not listed."""


class PlayerState(Struct, frozen=True, rename={"player": "id", "state": "seat"}):
    """A player as their room knows them."""

    player: str
    state: str
    data: Any
    owned: list[str]
    name: str = ""
    """What they are called in the room, if they have a name."""
    groups: list[str] = []
    options: Any = None
    """What they joined with."""


class SeatInfo(Struct, frozen=True, omit_defaults=True):
    """One seat of a room."""

    player: str
    state: str
    """reserved, taken or held."""
    session: str = ""
    latency_ms: float = 0.0
    expires_in_s: float = 0.0
    """For a reserved or held seat: when it is freed unless its player comes."""
    is_host: bool = False
    name: str = ""
    """What the player is called in the room, if they have a name."""
    is_agent: bool = False


class SpectatorInfo(Struct, frozen=True, omit_defaults=True):
    """A spectator of a room."""

    player: str
    state: str
    """taken, or held for a spectator who dropped."""
    session: str
    latency_ms: float = 0.0
    expires_in_s: float = 0.0
    """For a held place: when it is freed unless the spectator comes back."""
    name: str = ""
    """What the spectator is called in the room, if they have a name."""


class SpectatorPage(Struct, frozen=True, omit_defaults=True):
    """One page of a room's spectators, by the player's id; the cursor fetches the next, and is empty on the last."""

    spectators: list[SpectatorInfo]
    cursor: str = ""


class PlayerSchema(SeatInfo, frozen=True, kw_only=True):
    """Everything that is known of a player in a room: what is shown of their seat, and what is private. It is never
    sent."""

    number: int
    rewound_s: float | None
    agent: str
    """The name of the room's own agent that sits here; empty for everybody else."""
    data: Any
    options: Any
    owned: list[str]
    groups: list[str]


class ReservationInfo(Struct, frozen=True, omit_defaults=True):
    """Reserved seats."""

    room: str
    players: list[str]
    expires_in_s: float


class WaitInfo(Struct, frozen=True, omit_defaults=True):
    """A place on a room's waitlist: 1 is next; 0 with `expires_in_s` means that a seat is reserved: join now."""

    room: str
    position: int
    expires_in_s: float = 0.0


class SeatRecord(Struct, array_like=True, frozen=True):
    """A seat and its player."""

    player: str
    session: str
    data: Raw
    number: int
    """Seats are numbered in the order they are taken: this is also the order of the players."""
    channel: ChannelRecord | None = None
    rewound_s: float | None = None
    """The age of the checkpoint that the room recovered from, until the player returns: they remember more of it."""
    name: str = ""
    """What the player is called in the room; the session's record has the name that they chose."""
    agent: str = ""
    """The name of the room's own agent that sits here; empty for everybody else."""
    options: Raw = NO_OPTIONS
    """What the player joined with."""


class StreamFile(Struct, frozen=True, forbid_unknown_fields=True):
    """For reading only: how far the player's messages were applied, and the unacknowledged messages to them."""

    applied: int
    last_sent: int
    unacknowledged: list[Any]


class PlayerFile(Struct, frozen=True, forbid_unknown_fields=True, rename={"player": "id"}):
    """A player and their data."""

    player: str
    data: Any
    owned: list[str]
    stream: StreamFile | None = None
    name: str = ""
    """What the player is called in the room, if they have a name."""
    groups: list[str] = []
    agent: str = ""
    """The name of the room's own agent that sits here; empty for everybody else."""
    options: Any = None
    """What the player joined with."""
