"""How many seats each player has reserved, and in which rooms: a reservation belongs to a player."""

from collections import Counter

from holdfast.core.errors import Throttled


class ReservedSeats:
    """The seats that players have reserved, counted by room. Those of operators are not counted."""

    def __init__(self, per_player_max: int) -> None:
        self._per_player_max = per_player_max
        self._rooms: dict[str, Counter[str]] = {}

    def count(self, player_id: str) -> int:
        """How many seats are reserved in this player's name, in all rooms."""
        rooms = self._rooms.get(player_id)
        return rooms.total() if rooms is not None else 0

    def rooms(self, player_id: str) -> list[str]:
        """The ids of the rooms in which this player has seats reserved."""
        return list(self._rooms.get(player_id, ()))

    def is_full(self, player_id: str) -> bool:
        """Whether the player has as many seats reserved as one player may."""
        return self.count(player_id) >= self._per_player_max

    def check(self, player_id: str, seats: int) -> None:
        """Refuse a player who would have too many seats reserved; an operator ("") may reserve any number."""
        if player_id and self.count(player_id) + seats > self._per_player_max:
            raise Throttled(f"a player may have {self._per_player_max} seats reserved at a time")

    def add(self, player_id: str, room_id: str) -> None:
        """One more seat is reserved in this player's name."""
        if player_id:
            self._rooms.setdefault(player_id, Counter())[room_id] += 1

    def remove(self, player_id: str, room_id: str) -> None:
        """A reservation of this player is over."""
        rooms = self._rooms.get(player_id)
        if rooms is None:
            return
        rooms[room_id] -= 1
        if rooms[room_id] <= 0:
            del rooms[room_id]
        if not rooms:
            del self._rooms[player_id]
