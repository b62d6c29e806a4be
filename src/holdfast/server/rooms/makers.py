"""Who has had seats reserved, and in which rooms: a reservation belongs to a player, and ends with their session."""

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.server.rooms.runner import RoomRunner


class Makers:
    """How many seats each player has reserved, by room. Operators are not counted."""

    def __init__(self) -> None:
        self._rooms: dict[str, Counter[RoomRunner]] = {}

    def count(self, player_id: str) -> int:
        """How many seats are reserved in this player's name, in all rooms."""
        rooms = self._rooms.get(player_id)
        return rooms.total() if rooms is not None else 0

    def rooms(self, player_id: str) -> "list[RoomRunner]":
        """The rooms in which this player has seats reserved."""
        return list(self._rooms.get(player_id, ()))

    def reserved(self, player_id: str, host: "RoomRunner") -> None:
        """One more seat is reserved in this player's name."""
        if player_id:
            self._rooms.setdefault(player_id, Counter())[host] += 1

    def over(self, player_id: str, host: "RoomRunner") -> None:
        """A reservation of this player is over."""
        rooms = self._rooms.get(player_id)
        if rooms is None:
            return
        rooms[host] -= 1
        if rooms[host] <= 0:
            del rooms[host]
        if not rooms:
            del self._rooms[player_id]
