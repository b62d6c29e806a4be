"""Players and their seats as data: what operators and other players see, what is saved, and what is exported."""

from typing import Annotated, Any

from msgspec import Meta, Raw, Struct

from holdfast.schemas.session import ChannelRecord

PLAYER_CHARS_MAX = 128

PlayerName = Annotated[str, Meta(min_length=1, max_length=PLAYER_CHARS_MAX)]


class PlayerInfo(Struct, frozen=True, omit_defaults=True):
    """Somebody who is here: with a session, a seat, or a seat that is reserved for them."""

    id: str
    sessions: list[str]
    rooms: list[str]


class PlayerPage(Struct, frozen=True, omit_defaults=True):
    """One page of the players, by id; the cursor gets the next one, and is empty after the last."""

    players: list[PlayerInfo]
    cursor: str = ""


class PlayerState(Struct, frozen=True):
    """What a room knows of one of its players."""

    id: str
    seat: str
    data: Any
    owned: list[str]


class SeatInfo(Struct, frozen=True, omit_defaults=True):
    """One seat of a room."""

    player: str
    state: str
    """reserved, taken or held."""
    session: str = ""
    latency_ms: float = 0.0
    expires_in_s: float = 0.0
    """Of a reserved or held seat: when it is freed unless its player comes."""
    is_host: bool = False


class ReservationInfo(Struct, frozen=True, omit_defaults=True):
    """Seats that are kept for players who have not come yet."""

    room: str
    players: list[str]
    expires_in_s: float


class WaitInfo(Struct, frozen=True, omit_defaults=True):
    """A place in a room's line: 1 is next; 0 with `expires_in_s` means that a seat is reserved: join now."""

    room: str
    position: int
    expires_in_s: float = 0.0


class SeatRecord(Struct, array_like=True, frozen=True):
    """A seat and its player."""

    player: str
    session: str
    data: Raw
    number: int
    """Seats are numbered as they are given out: this is the order of the players, too."""
    channel: ChannelRecord | None = None
    rewound_s: float | None = None
    """The room came back from a checkpoint of this age, and the player has not since: they remember more of it."""


class StreamFile(Struct, frozen=True, forbid_unknown_fields=True):
    """For reading only: how far the player's messages were applied, and what they have not acknowledged of ours."""

    applied: int
    last_sent: int
    unacknowledged: list[Any]


class PlayerFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A player and what is theirs."""

    id: str
    data: Any
    owned: list[str]
    stream: StreamFile | None = None
