"""Seats that are kept for players who have not come yet, and the line of those who wait for one."""

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.core.session import PlayerId


class Reservation(NamedTuple):
    """One seat that is kept."""

    until: float
    by: str = ""
    """The player who had it reserved; empty for an operator."""
    is_placed: bool = False
    """Whether a placement had it reserved in that player's name: it outlives their session."""

    @property
    def needs_maker(self) -> bool:
        """Whether it ends with the session of the player who made it."""
        return bool(self.by) and not self.is_placed


class Reservations:
    """Who a seat is kept for, and until when. Every one of them counts as occupied.

    One that is in use has become a seat of its own, and does not expire. It is remembered until the room has heard of
    its player: before that they may be turned away, or the server may fall.
    """

    def __init__(self) -> None:
        self._kept: dict[PlayerId, Reservation] = {}
        self._in_use: set[PlayerId] = set()

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, player_id: PlayerId) -> bool:
        return player_id in self._kept

    def __iter__(self) -> Iterator[tuple[PlayerId, Reservation]]:
        return iter(list(self._kept.items()))

    @property
    def waiting(self) -> int:
        """How many wait for their player; those in use have a seat, which counts already."""
        return len(self._kept) - len(self._in_use)

    def is_waiting(self, player_id: PlayerId) -> bool:
        """Whether a seat waits for this player."""
        return player_id in self._kept and player_id not in self._in_use

    @property
    def is_room_needed(self) -> bool:
        """Whether a room that nobody has joined waits for them: those of operators and placements, not of players."""
        return any(not kept.needs_maker for _, kept in self._waiting())

    def keep(self, player_id: PlayerId, until: float, by: str = "", is_placed: bool = False) -> None:
        """Keep a seat; a player who has one already keeps it for longer, never for less."""
        known = self._kept.get(player_id) or Reservation(until, by, is_placed)
        self._kept[player_id] = known._replace(until=max(until, known.until))

    def made_by(self, maker: str) -> list[PlayerId]:
        """For whom this player has had seats reserved that wait, and end with the player's session."""
        return [player_id for player_id, kept in self._waiting() if kept.by == maker and kept.needs_maker]

    def makers(self) -> set[str]:
        """The players whose session some of those that wait depend on."""
        return {kept.by for _, kept in self._waiting() if kept.needs_maker}

    def get(self, player_id: PlayerId) -> Reservation | None:
        """What is kept for a player."""
        return self._kept.get(player_id)

    def use(self, player_id: PlayerId) -> bool:
        """The player takes the seat; False if none waits for them."""
        if not self.is_waiting(player_id):
            return False
        self._in_use.add(player_id)
        return True

    def put_back(self, player_id: PlayerId) -> None:
        """The player did not get in after all: the seat waits for them again, for as long as it would have."""
        self._in_use.discard(player_id)

    def drop(self, player_id: PlayerId) -> Reservation | None:
        """The player has come, or the seat is given back; what was kept."""
        self._in_use.discard(player_id)
        return self._kept.pop(player_id, None)

    def expired(self, now: float) -> list[PlayerId]:
        """Those whose time is over."""
        return [player_id for player_id, kept in self._waiting() if kept.until <= now]

    @property
    def next_at(self) -> float | None:
        """When the next one is over."""
        return min((kept.until for _, kept in self._waiting()), default=None)

    def _waiting(self) -> Iterator[tuple[PlayerId, Reservation]]:
        return ((player_id, kept) for player_id, kept in self._kept.items() if player_id not in self._in_use)


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
