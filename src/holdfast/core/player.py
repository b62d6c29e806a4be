"""A player in a room: what a game sees of them, and the seat that the engine keeps behind it."""

from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any, Generic, TypeVar

from holdfast.core.messages import Message, PlayerData, check_message
from holdfast.core.outlet import Outlet
from holdfast.core.session import PlaceRunner, PlayerId, Session
from holdfast.core.tables import Table

D = TypeVar("D", bound=PlayerData)


class SeatState(Enum):
    """What a seat is to the room: reserved, taken and held ones count against `max_players`."""

    RESERVED = "reserved"
    TAKEN = "taken"
    HELD = "held"
    FREED = "freed"
    EXPIRED = "expired"


class SeatStep(Enum):
    """What can happen to a seat."""

    TAKEN = "taken"
    DROPPED = "dropped"
    RETURNED = "returned"
    FREED = "freed"
    EXPIRED = "expired"


_S, _E = SeatState, SeatStep

SEAT_TABLE = Table(
    "seat",
    _S.RESERVED,
    {
        _S.RESERVED: {_E.TAKEN: _S.TAKEN, _E.FREED: _S.FREED, _E.EXPIRED: _S.EXPIRED},
        _S.TAKEN: {_E.DROPPED: _S.HELD, _E.FREED: _S.FREED},
        _S.HELD: {_E.RETURNED: _S.TAKEN, _E.FREED: _S.FREED},
        _S.FREED: {},
        _S.EXPIRED: {},
    },
)


# In the place of a set while a player owns nothing: an empty set takes 216 bytes.
_NOTHING: frozenset[str] = frozenset()


class Seat:
    """One seat of a room: the engine's half of a player. The same object for as long as the seat is theirs."""

    __slots__ = (
        "is_joining",
        "number",
        "outlet",
        "owned",
        "player",
        "player_id",
        "runner",
        "session",
        "state",
        "was_reserved",
    )

    outlet: Outlet
    """Set when the seat is taken; until then there is nobody to speak to."""

    def __init__(self, session: Session, data: PlayerData, runner: PlaceRunner, number: int = 0) -> None:
        self.session = session
        self.player_id: PlayerId = session.player_id
        self.runner = runner
        self.state = SEAT_TABLE.start
        self.number = number
        """Of the seat, in its room; 0 until the room gives it one."""
        self.is_joining = False
        """Whether the seat is taken and `on_join` waits for its turn: the room has not heard of the player."""
        self.was_reserved = False
        """Whether a player who joins came with a reservation."""
        self.owned: AbstractSet[str] = _NOTHING
        self.player: Player[Any] = Player(self, data)

    @property
    def room(self) -> Any:
        """The room."""
        return self.runner.room

    def happened(self, event: SeatStep) -> None:
        """Take one step of the seat's table."""
        self.state = SEAT_TABLE.after(self.state, event)

    def __repr__(self) -> str:
        return f"<Seat of {self.player_id} {self.state.value}>"


class Player(Generic[D]):
    """A player in a room. The same object for as long as the seat is theirs; your own attributes on it are yours."""

    def __init__(self, seat: Seat, data: D) -> None:
        """Called by the server."""
        # The one attribute here that is not the game's.
        self._holdfast_seat = seat
        self.id: PlayerId = seat.player_id
        self.data = data
        """What the player keeps across a drop."""

    @property
    def session(self) -> Session:
        """The player's session."""
        return self._holdfast_seat.session

    @property
    def owned(self) -> AbstractSet[str]:
        """The ids of the objects that the player owns; see `Room.own`."""
        return self._holdfast_seat.owned

    @property
    def connected(self) -> bool:
        """Whether the player is there now; False while the seat is held for them."""
        return self._holdfast_seat.state is SeatState.TAKEN

    @property
    def roles(self) -> frozenset[str]:
        """What the player may do beyond others, as it was proven when they signed in."""
        return self._holdfast_seat.session.roles

    @property
    def latency_ms(self) -> float:
        """The smoothed round-trip time."""
        return self._holdfast_seat.session.latency.smoothed_ms

    def send(self, message: Message) -> None:
        """Send reliably: exactly once, in order, also if the player drops and returns."""
        check_message(message)
        self._holdfast_seat.outlet.send(message)

    def send_latest(self, message: Message, key: str = "") -> None:
        """Send unreliably: never repeated; a newer one with the same type and key takes its place."""
        check_message(message)
        self._holdfast_seat.outlet.send_latest(message, key)

    def kick(self, reason: str = "") -> None:
        """Remove the player from the room; `reason` is the sentence they are told."""
        seat = self._holdfast_seat
        seat.runner.kick(seat, reason)

    def __repr__(self) -> str:
        return f"<Player {self.id} {self._holdfast_seat.state.value}>"


def seat_of(player: Player[Any]) -> Seat:
    """The engine's half of a player."""
    return player._holdfast_seat  # noqa: SLF001 - the one way from the game's half to the engine's
