"""What the API needs of a server. Every refusal is a `holdfast.Refused` with a code; nothing else is raised."""

from collections.abc import AsyncIterator
from typing import Protocol

from holdfast.core.infos import (
    EventInfo,
    NodeInfo,
    PlacementInfo,
    PlayerInfo,
    PlayerPage,
    QueueInfo,
    ReservationInfo,
    RoomInfo,
    RoomPage,
    SeatInfo,
    SessionInfo,
    SessionPage,
)
from holdfast.core.wishes import Create, Release, Reserve, Search, StartPlacement, Update


class Backend(Protocol):
    """One node, for those who operate it: they see everything, private rooms and codes too."""

    # Rooms

    async def create_room(self, wish: Create) -> RoomInfo:
        """Make a room."""

    async def search_rooms(self, wish: Search) -> RoomPage:
        """Find rooms, private ones too."""

    def get_room(self, room_id: str) -> RoomInfo:
        """One room; also one that ended a short while ago."""

    async def update_room(self, wish: Update) -> RoomInfo:
        """Change a room's entry."""

    async def end_room(self, room_id: str, reason: str) -> RoomInfo:
        """End a room: everybody leaves, then it is gone."""

    # Seats

    def seats_of(self, room_id: str) -> list[SeatInfo]:
        """Who has a seat in a room."""

    async def reserve(self, wish: Reserve) -> ReservationInfo:
        """Keep seats for players."""

    async def release(self, wish: Release) -> None:
        """Give reserved seats back."""

    async def kick(self, room_id: str, player_id: str, message: str) -> None:
        """Free a player's seat."""

    # Sessions and players

    def list_sessions(self, *, player: str, limit: int, cursor: str) -> SessionPage:
        """The sessions of a player, or all if that is empty."""

    def get_session(self, session_id: str) -> SessionInfo:
        """One session."""

    async def end_session(self, session_id: str, reason: str) -> None:
        """End a session for good."""

    def list_players(self, *, limit: int, cursor: str) -> PlayerPage:
        """Who is here."""

    def get_player(self, player_id: str) -> PlayerInfo:
        """One player."""

    # Placements

    def list_queues(self) -> list[QueueInfo]:
        """Where placements can be started."""

    async def start_placement(self, wish: StartPlacement) -> PlacementInfo:
        """Have a room made on the best node."""

    def list_placements(self) -> list[PlacementInfo]:
        """Those that are pending, and those that ended a short while ago."""

    def get_placement(self, placement_id: str) -> PlacementInfo:
        """How far one is."""

    async def stop_placement(self, placement_id: str) -> PlacementInfo:
        """Give one up that is still pending."""

    # The node

    def node(self) -> NodeInfo:
        """How this node is: whether it takes new rooms, and why not."""

    def events(self, after: int | None) -> AsyncIterator[EventInfo]:
        """What happens from now on, or after the event with this id as far as it is kept. Ends with the node."""


class Api(Protocol):
    """A door for operators and backends, as a server is given one: `holdfast.http.api.HttpApi`."""

    async def open(self, backend: Backend) -> tuple[str, int]:
        """Answer from now on; where."""

    async def close(self) -> None:
        """Answer nobody any more."""
