"""The seats of a room: who has one, for whom one is kept, and whether there is one for somebody new."""

from typing import Generic, TypeVar

from holdfast.core.errors import Duplicate, NotFound, RoomFull, RoomLocked
from holdfast.core.messages import PlayerData
from holdfast.core.player import Player, SeatState
from holdfast.core.reservations import Reservations
from holdfast.core.room_context import Host
from holdfast.core.room_listing import RoomListing
from holdfast.core.session import PlayerId

D = TypeVar("D", bound=PlayerData)


class Seating(Generic[D]):
    """The half of a room that knows its seats."""

    max_players: int
    duplicate: str

    def __init__(self, host: Host) -> None:
        self.listing = RoomListing()
        self.reservations = Reservations()
        self.is_locked = False
        self.is_closing = False
        self._host = host
        self._seats: list[Player[D]] = []
        self._last_number = 0
        self._players: tuple[Player[D], ...] | None = None

    @property
    def players(self) -> tuple[Player[D], ...]:
        """Who is in the room, present or held, in the order they joined."""
        if self._players is None:
            self._players = tuple(seat for seat in self._seats if seat.seat is not SeatState.RESERVED)
        return self._players

    def player(self, player_id: str) -> Player[D] | None:
        """The player with this id, if they are in the room."""
        return next((player for player in self.players if player.id == player_id), None)

    # What the host asks

    def seat_of(self, player_id: PlayerId) -> Player[D] | None:
        """The player's seat in any state, reserved ones included."""
        return next((seat for seat in self._seats if seat.id == player_id), None)

    def check_open(self, player_id: PlayerId) -> None:
        """Refuse a newcomer if the rules say so; nothing changes."""
        if self.is_closing:
            raise NotFound("the room is closing")
        if self.duplicate != "allow" and self.seat_of(player_id) is not None:
            raise Duplicate("this player is in the room already")
        if not self.reservations.is_waiting(player_id):
            self.check_space(1)

    def check_space(self, seats: int) -> None:
        """Refuse if so many newcomers cannot be let in."""
        if self.is_closing:
            raise NotFound("the room is closing")
        if self.is_locked or self.listing.join_policy == "deny_all":
            raise RoomLocked("the room is locked" if self.is_locked else "the room takes nobody new")
        if self.seats_used + seats > self.max_players:
            raise RoomFull(f"all {self.max_players} seats are taken, held or reserved")

    def add_seat(self, player: Player[D]) -> None:
        """A seat is reserved: it counts from now on. One that comes back from the store has its number already."""
        player.number = player.number or self._last_number + 1
        self._last_number = max(self._last_number, player.number)
        self._seats.append(player)
        self._players = None
        self._host.listed()

    def seats_changed(self) -> None:
        """A reserved seat was taken: it is a player now."""
        self._players = None

    def remove_seat(self, player: Player[D]) -> None:
        """A seat was freed."""
        self._seats = [seat for seat in self._seats if seat is not player]
        self._players = None
        self._host.listed()

    @property
    def seats(self) -> tuple[Player[D], ...]:
        """Every seat, reserved ones included."""
        return tuple(self._seats)

    @property
    def open_seats(self) -> int:
        """How many newcomers could join now."""
        if self.is_closing or self.is_locked or self.listing.join_policy == "deny_all":
            return 0
        return max(0, self.max_players - self.seats_used)

    @property
    def seats_used(self) -> int:
        """Seats that are reserved, taken or held."""
        return len(self._seats) + self.reservations.waiting
