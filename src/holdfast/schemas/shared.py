"""What the nodes of a cluster ask each other about players, and about rooms that one makes for another's players.

Fields are only ever added, with defaults: nodes of two versions hear each other.
"""

from msgspec import Struct

from holdfast.schemas.placement import PlacementInfo
from holdfast.schemas.requests import JoinOrCreate, StartPlacement
from holdfast.schemas.room import RoomInfo
from holdfast.schemas.rows import NumberedRow

# Players


class SeatHere(Struct, frozen=True, array_like=True):
    """A room in which a player has a seat or a reservation."""

    room: RoomInfo
    """As the player sees it."""
    is_seated: bool
    """Not only reserved."""
    is_own: bool
    """A seat to return to, or one that they reserved themselves: `join_or_create` takes it."""


class SessionHere(Struct, frozen=True, array_like=True):
    """A session of a player; an agent's is none."""

    id: str
    name: str = ""
    is_connected: bool = True
    away_s: float = 0.0
    """How long it has been disconnected."""
    age_s: float = 0.0


class SignInHere(Struct, frozen=True, array_like=True):
    """A sign-in of a player that is being decided on another node."""

    id: str


class PlayerHere(Struct, frozen=True, array_like=True):
    """What a node has of a player."""

    sessions: list[SessionHere] = []
    signing_in: list[SignInHere] = []
    seats: list[SeatHere] = []


class PlayersAsked(Struct, frozen=True, array_like=True):
    """What do you have of these players?"""

    players: list[str]
    seats: bool = False
    """Also of their seats."""


class EndSessions(Struct, frozen=True, array_like=True):
    """End these sessions: their player has signed in elsewhere."""

    sessions: list[str]


class PlayersGone(Struct, frozen=True, array_like=True):
    """These players have no session on this node any more."""

    life: str
    players: list[str]


class PlayersLooked(Struct, frozen=True, array_like=True):
    """Which of these players have a session on your node? Tell that life when they have none there any more."""

    life: str
    players: list[str]


class PlayerNotice(Struct, frozen=True, array_like=True):
    """Something that all sessions of a player should hear."""

    player: str
    topic: str
    key: str
    body: bytes
    """In MessagePack."""


class PlayerNotices(Struct, frozen=True, array_like=True):
    """Tell it to those that are on your node."""

    notices: list[PlayerNotice]


# Requests about rooms of other nodes


class RemoteCaller(Struct, frozen=True, array_like=True):
    """The session that asks."""

    session: str
    life: str
    """Its node."""
    player: str
    name: str
    address: str
    roles: list[str]
    wrong_guesses: int


class RemoteRequest(Struct, frozen=True, array_like=True):
    """Carry out a request of a session of another node; the same `id` again gets the same answer."""

    id: str
    caller: RemoteCaller
    operation: str
    arguments: bytes
    """In MessagePack, like the answer."""


class RemoteDone(Struct, frozen=True, array_like=True):
    """The answer, or the refusal."""

    body: bytes = b""
    code: str = ""
    message: str = ""
    wrong_guesses: int = 0
    """How many more wrong guesses the session has made."""
    is_elsewhere: bool = False
    """The room is not here."""


# `join_or_create`


class SeatAsked(Struct, frozen=True, array_like=True):
    """Find a room for a player, or make one; the same `id` again gets the same answer."""

    id: str
    life: str
    """The node of the player's session."""
    player: str
    address: str
    roles: list[str]
    request: JoinOrCreate


class Seated(Struct, frozen=True, array_like=True):
    """A seat is reserved for the player there."""

    room: str


class Newcomer(Struct, frozen=True, array_like=True):
    """A player who is about to join."""

    player: str
    roles: list[str]


class KeepSeats(Struct, frozen=True, array_like=True):
    """Reserve a seat for each of these players, as far as there are any."""

    room: str
    guests: list[Newcomer]


class SeatsKept(Struct, frozen=True, array_like=True):
    """The others have a seat."""

    refused: dict[str, tuple[str, str]]
    """Code and message, by player."""
    row: NumberedRow | None = None
    """The room as it is now; None if it is not here."""


class MakeRoom(Struct, frozen=True, array_like=True):
    """Make a room for this player, who has not found one; the same `id` again gets the same answer."""

    id: str
    player: str
    address: str
    roles: list[str]
    request: JoinOrCreate


class RoomMade(Struct, frozen=True, array_like=True):
    """The room, and the node that has it."""

    life: str
    row: NumberedRow | None
    """None: this node can make none now."""
    why_not: str = ""


# News


class NewsItem(Struct, frozen=True, array_like=True):
    """Something that all nodes should know at once; a node that does not know the name ignores it."""

    name: str
    body: bytes
    """In MessagePack."""


class NewsTold(Struct, frozen=True, array_like=True):
    """What a node tells all others."""

    life: str
    number: int
    """Counts what this life has told."""
    items: list[NewsItem]


class AccessChanged(Struct, frozen=True, array_like=True):
    """A ban, a sign-out or a change of roles, as its record in the store is, or will be."""

    key: str
    subject: str
    """Whose: the subject of a ban, or a player."""
    value: bytes | None
    """None: it is lifted, or undone."""
    revision: int
    """Of the record; 0 while it is not saved."""
    why: str = ""


class Guessed(Struct, frozen=True, array_like=True):
    """A password of an account was tried, and what came of it."""

    account: str
    address: str
    outcome: str
    """"wrong", "right", or "forgotten": the account has another password."""


# Placements


class PlaceRoom(Struct, frozen=True, array_like=True):
    """Create the room of a placement, with its seats; the same `id` again gets the same answer."""

    id: str
    request: StartPlacement
    owner: str
    address: str


class GiveUpRoom(Struct, frozen=True, array_like=True):
    """End the room of a placement that has ended meanwhile."""

    room: str


class PlacementAsked(Struct, frozen=True, array_like=True):
    """Show, or stop, a placement of yours."""

    id: str
    owner: str | None
    """Only if it is this player's."""


class PlacementStarted(Struct, frozen=True, array_like=True):
    """Start a placement, or show the one that was started by the same request."""

    request: StartPlacement
    owner: str
    address: str


class KnownPlacement(Struct, frozen=True, array_like=True):
    """A placement, or the refusal; neither if it is not known here."""

    info: PlacementInfo | None = None
    code: str = ""
    message: str = ""
