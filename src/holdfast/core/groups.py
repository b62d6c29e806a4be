"""The groups of a room as its game sees them: `self.group("red").add(player)`, `self.group("red").send(message)`."""

from collections.abc import Collection, Iterator, Mapping
from typing import Generic, TypeVar

from holdfast.core.grouping import Grouping
from holdfast.core.messages import Message, PlayerData
from holdfast.core.recipients import send_latest_to
from holdfast.core.room_context import RoomContext
from holdfast.core.session import Player, Seat, SeatState, seat_of

D = TypeVar("D", bound=PlayerData)

_NOBODY: Collection[Seat] = ()


class Group(Generic[D]):
    """Some players of a room, under a name; see `Room.group`. It always shows the present ones."""

    __slots__ = ("_context", "name")

    def __init__(self, context: RoomContext, name: str) -> None:
        """Called by `Room.group`."""
        self._context = context
        self.name = name

    def add(self, player: Player[D]) -> None:
        """Add a player of the room. They stay through drops and crashes, until they leave the room or are removed."""
        seat = self._seat_of(player)
        if seat not in self._context.seats or seat.state is SeatState.RESERVED:
            raise ValueError(f"{player.id} is not in this room; players are added in on_join, or later")
        grouping = self._context.grouping
        if grouping is None:
            grouping = Grouping(self._context.limits)
            self._context.set("grouping", grouping)
        if self.name not in grouping.groups:
            self._check_name()
        self._context.note(grouping)
        grouping.add(self.name, seat)

    def remove(self, player: Player[D]) -> None:
        """Remove a player; nothing happens if they are not in the group."""
        seat = self._seat_of(player)
        grouping = self._context.grouping
        if grouping is not None:
            self._context.note(grouping)
            grouping.remove(self.name, seat)

    def send(self, message: Message) -> None:
        """Send reliably to everybody in the group, also to those whose seat is held."""
        self._context.broadcasts.say(tuple(self._seats), message)

    def send_latest(self, message: Message, key: str = "") -> None:
        """Send unreliably to everybody in the group; see `Player.send_latest`."""
        send_latest_to(tuple(self._seats), message, key)

    def __len__(self) -> int:
        return len(self._seats)

    def __iter__(self) -> Iterator[Player[D]]:
        """The players in the order in which they joined the room; a copy."""
        return iter([seat.player for seat in sorted(self._seats, key=_number)])

    def __contains__(self, player: object) -> bool:
        return isinstance(player, Player) and seat_of(player) in self._seats

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and (self._context, self.name) == (other._context, other.name)

    def __hash__(self) -> int:
        return hash((self._context, self.name))

    def __repr__(self) -> str:
        return f"<Group {self.name!r} of {[player.id for player in self]}>"

    @property
    def _seats(self) -> Collection[Seat]:
        grouping = self._context.grouping
        members = grouping.groups.get(self.name) if grouping is not None else None
        return members.seats if members is not None else _NOBODY

    def _seat_of(self, player: Player[D]) -> Seat:
        if not isinstance(player, Player):
            raise TypeError(f"a group has players of its room; got {player!r}: self.player(player_id) finds one by id")
        return seat_of(player)

    def _check_name(self) -> None:
        size, most = len(self.name.encode()), self._context.limits.group_name_bytes_max
        if not 0 < size <= most:
            raise ValueError(f"a group's name has 1 to {most} bytes (Limits.group_name_bytes_max); this one has {size}")


class Groups(Mapping[str, Group[D]]):
    """The groups of a room that have members, by name. A game reads it; `Room.group` changes it."""

    __slots__ = ("_context",)

    def __init__(self, context: RoomContext) -> None:
        self._context = context

    def __getitem__(self, name: str) -> Group[D]:
        if name not in self._names:
            raise KeyError(name)
        return Group(self._context, name)

    def __iter__(self) -> Iterator[str]:
        """A copy: the game may empty what it finds."""
        return iter(tuple(self._names))

    def __len__(self) -> int:
        return len(self._names)

    @property
    def _names(self) -> Collection[str]:
        grouping = self._context.grouping
        return grouping.groups if grouping is not None else ()


def _number(seat: Seat) -> int:
    return seat.number
