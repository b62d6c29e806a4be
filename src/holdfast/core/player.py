"""A player inside a room: the seat they sit on, the data they keep, and the way to speak to them."""

from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from holdfast.core.backlog import Backlog
from holdfast.core.codec import Codec
from holdfast.core.messages import Message, PlayerData, check_message
from holdfast.core.session import PlayerId, Session
from holdfast.core.tables import Table
from holdfast.schemas.frames import Data, Latest

D = TypeVar("D", bound=PlayerData)


class SeatState(Enum):
    """What a seat is to the room: reserved, taken and held ones count against `max_players`."""

    RESERVED = "reserved"
    TAKEN = "taken"
    HELD = "held"
    FREED = "freed"
    EXPIRED = "expired"


class SeatEvent(Enum):
    """What can happen to a seat."""

    TAKEN = "taken"
    DROPPED = "dropped"
    RETURNED = "returned"
    FREED = "freed"
    EXPIRED = "expired"


_S, _E = SeatState, SeatEvent

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


class Outlet(Protocol):
    """Where a player's messages go: a channel to a client far away, or an agent in this process."""

    waiting_bytes: int
    """What was said from that end and waits for the room's turn."""
    latest_waiting_bytes: int
    """The same of what is unreliable, which is no part of the window."""
    backlog: Backlog | None
    """The same, message by message; None if nothing waits."""

    @property
    def is_full(self) -> bool:
        """Whether that end has as much to read as its window, or more: what it says waits until it has read."""

    def overflow(self) -> None:
        """That end does not read: keep nothing more for it, until it is resynced."""

    def send(self, message: Message) -> None:
        """Deliver exactly once, in order."""

    def prepare(self, message: Message, bodies: dict[Codec, bytes]) -> None:
        """Encode a message to many, once per dialect, into `bodies`; raises if it cannot be sent."""

    def send_shared(self, message: Message, bodies: dict[Codec, bytes]) -> None:
        """The same as `send`, with what was prepared."""

    def send_latest(self, message: Message, key: str) -> None:
        """Deliver soon or never; a newer message with the same type and key takes its place."""

    def finish(self, farewell: Message) -> None:
        """The seat is freed: the stream ends with this message."""

    def applied(self, seq: int) -> None:
        """The room has applied the player's message with this number."""


class SeatHost(Protocol):
    """The host of the room a seat is in."""

    def kick(self, player: "Player[Any]", message: str) -> None:
        """Free the player's seat now."""

    def deliver(self, player: "Player[Any]", frame: Data) -> None:
        """Give the room the player's next message."""

    def refuse(self, player: "Player[Any]", frame: Data) -> None:
        """The player's next message is beyond what they may say: tell them, in its place."""

    def has_read(self, player: "Player[Any]") -> None:
        """The player has acknowledged something, and what they said may have its turn."""

    def deliver_latest(self, player: "Player[Any]", frame: Latest) -> None:
        """Give the room an unreliable message of the player, if it is free to take one."""


# In the place of a set while a player owns nothing: an empty set takes 216 bytes.
_NOTHING: frozenset[str] = frozenset()


class Player(Generic[D]):
    """One seat of a room and who sits on it. The same object for as long as the seat is theirs."""

    outlet: Outlet
    """Set when the seat is taken; until then there is nobody to speak to."""

    def __init__(self, session: Session, data: D, *, host: SeatHost) -> None:
        self.id: PlayerId = session.player_id
        self.session = session
        self.data = data
        self.owned: AbstractSet[str] = _NOTHING
        """The objects of the room that the player owns."""
        self.number = 0
        """Of the seat, in its room; given with the seat."""
        self.seat = SEAT_TABLE.start
        self.host = host

    @property
    def connected(self) -> bool:
        """Whether the player is there now; False while the seat is held for them."""
        return self.seat is SeatState.TAKEN

    @property
    def roles(self) -> frozenset[str]:
        """What the player may do beyond others, as it was proven when they signed in."""
        return self.session.roles

    @property
    def latency_ms(self) -> float:
        """The smoothed round-trip time."""
        return self.session.latency.smoothed_ms

    def send(self, message: Message) -> None:
        """Send reliably: exactly once, in order, also if the player drops and returns."""
        check_message(message)
        self.outlet.send(message)

    def send_latest(self, message: Message, key: str = "") -> None:
        """Send unreliably: never repeated; a newer one with the same type and key takes its place."""
        check_message(message)
        self.outlet.send_latest(message, key)

    def kick(self, reason: str = "") -> None:
        """Remove the player from the room; `reason` is the sentence they are told."""
        self.host.kick(self, reason)

    def happened(self, event: SeatEvent) -> None:
        """Take one step of the seat's table."""
        self.seat = SEAT_TABLE.after(self.seat, event)

    def __repr__(self) -> str:
        return f"<Player {self.id} {self.seat.value}>"
