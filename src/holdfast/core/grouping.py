"""Which players of a room are in which of its groups: they stay through a drop, and leave when they leave the room."""

from collections.abc import Callable

from holdfast.core.errors import Throttled
from holdfast.core.limits import Limits
from holdfast.core.session import Seat, SeatState


class Members:
    """The members of one group."""

    __slots__ = ("number", "seats", "version")

    def __init__(self, number: int) -> None:
        self.number = number
        """Groups of a room are numbered as they begin."""
        self.seats: dict[Seat, None] = {}
        self.version = 0
        """Grows with every change."""


class Grouping:
    """The engine's half of a room's groups. A group without members does not exist."""

    __slots__ = ("_last_number", "_limits", "_size", "groups")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._last_number = 0
        self._size = 0
        self.groups: dict[str, Members] = {}

    def add(self, name: str, seat: Seat) -> None:
        """Add a member to a group, which may begin with it."""
        members = self.groups.get(name)
        if members is not None and seat in members.seats:
            return
        limits = self._limits
        if members is None and len(self.groups) >= limits.groups_max:
            raise Throttled(f"this room has {len(self.groups)} groups; empty some, or raise Limits.groups_max")
        if self._size >= limits.group_members_max:
            raise Throttled(f"the groups of this room have {self._size} members: see Limits.group_members_max")
        self.restore(name, seat)

    def restore(self, name: str, seat: Seat) -> None:
        """The same without limits, for a new member: what is in the store was within them once."""
        members = self.groups.get(name)
        if members is None:
            self._last_number += 1
            members = self.groups[name] = Members(self._last_number)
        members.seats[seat] = None
        members.version += 1
        self._size += 1

    def remove(self, name: str, seat: Seat) -> None:
        """Remove a member from a group, which may end with it."""
        members = self.groups.get(name)
        if members is None or seat not in members.seats:
            return
        del members.seats[seat]
        members.version += 1
        self._size -= 1
        if not members.seats:
            del self.groups[name]

    def leave(self, seat: Seat) -> None:
        """The player has left the room, and with it all groups."""
        for name in [name for name, members in self.groups.items() if seat in members.seats]:
            self.remove(name, seat)

    def note(self) -> Callable[[], None]:
        """What makes the groups those of now again; those who have left the room meanwhile stay away."""
        groups = {name: (members, members.seats.copy(), members.version) for name, members in self.groups.items()}
        last_number, size = self._last_number, self._size

        def restore() -> None:
            self.groups = {name: members for name, (members, _, _) in groups.items()}
            self._last_number, self._size = last_number, size
            for members, seats, version in groups.values():
                members.seats, members.version = seats, version
            for seat in {seat for _, seats, _ in groups.values() for seat in seats}:
                if seat.state is SeatState.FREED:
                    self.leave(seat)

        return restore

    def groups_by_seat(self) -> dict[Seat, list[str]]:
        """The names of the groups that each member is in."""
        found: dict[Seat, list[str]] = {}
        for name, members in self.groups.items():
            for seat in members.seats:
                found.setdefault(seat, []).append(name)
        return found
