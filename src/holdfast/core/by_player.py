"""What players have, such as sessions or seats: nearly always one each, which is kept without a tuple around it."""

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class ByPlayer(Generic[T]):
    """The things of each player, in the order in which they were added."""

    __slots__ = ("_all", "_first")

    def __init__(self) -> None:
        self._first: dict[str, T] = {}
        # Of the players who have several; None while there is no such player.
        self._all: dict[str, tuple[T, ...]] | None = None

    def __iter__(self) -> Iterator[str]:
        """The players who have any."""
        return iter(self._first)

    def __contains__(self, player_id: object) -> bool:
        return player_id in self._first

    def first(self, player_id: str) -> T | None:
        """The oldest."""
        return self._first.get(player_id)

    def last(self, player_id: str) -> T | None:
        """The newest."""
        if self._all is not None and player_id in self._all:
            return self._all[player_id][-1]
        return self._first.get(player_id)

    def all(self, player_id: str) -> tuple[T, ...]:
        """All of a player's, oldest first."""
        if self._all is not None and player_id in self._all:
            return self._all[player_id]
        first = self._first.get(player_id)
        return () if first is None else (first,)

    def add(self, player_id: str, thing: T) -> None:
        """The player has one more."""
        if player_id not in self._first:
            self._first[player_id] = thing
            return
        if self._all is None:
            self._all = {}
        self._all[player_id] = (*self._all.get(player_id, (self._first[player_id],)), thing)

    def remove(self, player_id: str, thing: T) -> None:
        """The player has it no more; what they do not have is ignored."""
        rest = tuple(each for each in self.all(player_id) if each is not thing)
        if rest:
            self._first[player_id] = rest[0]
        else:
            self._first.pop(player_id, None)
        if self._all is None:
            return
        if len(rest) > 1:
            self._all[player_id] = rest
        else:
            self._all.pop(player_id, None)
            # Not kept for the next time: few rooms and players ever have one.
            self._all = self._all or None
