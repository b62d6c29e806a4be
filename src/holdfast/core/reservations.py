"""Seats that are kept for players who have not come yet, and the line of those who wait for one."""

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.core.session import PlayerId


class Reservation(NamedTuple):
    """One seat that is kept."""

    until: float
    by: str
    """The player who had it reserved; empty for an operator, or the room itself."""


class Reservations:
    """Who a seat is kept for, and until when. Every one of them counts as occupied."""

    def __init__(self) -> None:
        self._kept: dict[PlayerId, Reservation] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, player_id: PlayerId) -> bool:
        return player_id in self._kept

    def __iter__(self) -> Iterator[tuple[PlayerId, Reservation]]:
        return iter(list(self._kept.items()))

    def keep(self, player_id: PlayerId, until: float, by: str = "") -> None:
        """Keep a seat; who has one already keeps it for longer, never for less."""
        known = self._kept.get(player_id)
        self._kept[player_id] = Reservation(max(until, known.until), known.by) if known else Reservation(until, by)

    def get(self, player_id: PlayerId) -> Reservation | None:
        """What is kept for a player."""
        return self._kept.get(player_id)

    def drop(self, player_id: PlayerId) -> Reservation | None:
        """The seat is taken, or given back; what was kept."""
        return self._kept.pop(player_id, None)

    def expired(self, now: float) -> list[PlayerId]:
        """Those whose time is over."""
        return [player_id for player_id, kept in self._kept.items() if kept.until <= now]

    @property
    def next_at(self) -> float | None:
        """When the next one is over."""
        return min((kept.until for kept in self._kept.values()), default=None)


class Line:
    """Who waits for a seat of a full room, first come first served."""

    def __init__(self) -> None:
        self._waiting: dict[PlayerId, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, player_id: PlayerId) -> bool:
        return player_id in self._waiting

    def __iter__(self) -> Iterator[PlayerId]:
        return iter(list(self._waiting))

    def add(self, player_id: PlayerId) -> None:
        """Stand in line, at the end unless they do already."""
        self._waiting.setdefault(player_id)

    def position(self, player_id: PlayerId) -> int:
        """1 for who is next; 0 for somebody who does not wait."""
        return next((place for place, each in enumerate(self._waiting, 1) if each == player_id), 0)

    def leave(self, player_id: PlayerId) -> bool:
        """Step out of the line; False if they were not in it."""
        return player_id in self._waiting and self._waiting.pop(player_id) is None

    def next(self) -> PlayerId | None:
        """Whose turn it is; they are out of the line."""
        player_id = next(iter(self._waiting), None)
        if player_id is not None:
            del self._waiting[player_id]
        return player_id
