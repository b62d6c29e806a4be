"""What the API needs of a server. Every refusal is a `holdfast.Refused` with a code; nothing else is raised."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Protocol

from holdfast.schemas.account import AccountInfo, TicketInfo
from holdfast.schemas.ban import BanInfo, BanPage
from holdfast.schemas.node import EventInfo, KindInfo, NodeInfo, OverviewInfo, PacketTarget, SettingsInfo
from holdfast.schemas.placement import PlacementInfo, QueueInfo
from holdfast.schemas.player import PlayerInfo, PlayerPage, ReservationInfo, SeatInfo
from holdfast.schemas.requests import Ban, Create, Release, Reserve, Search, StartPlacement, Update
from holdfast.schemas.room import RoomInfo, RoomPage, RoomState
from holdfast.schemas.session import SessionInfo, SessionPage, TimelineInfo


class Backend(Protocol):
    """One node, for those who operate it: they see everything, private rooms and codes too."""

    # Rooms

    async def create_room(self, request: Create) -> RoomInfo:
        """Make a room."""

    async def search_rooms(self, request: Search) -> RoomPage:
        """Find rooms, private ones too."""

    def get_room(self, room_id: str) -> RoomInfo:
        """One room; also one that ended a short while ago."""

    async def update_room(self, request: Update) -> RoomInfo:
        """Change a room's entry."""

    async def end_room(self, room_id: str, reason: str) -> RoomInfo:
        """End a room: everybody leaves, then it is gone."""

    def room_state(self, room_id: str) -> RoomState:
        """What is inside a room."""

    def room_messages(self, room_id: str) -> AsyncIterator[EventInfo]:
        """What its players and the room say to each other from now on."""

    async def broadcast(self, room_id: str, message_type: str, body: Mapping[str, Any]) -> int:
        """Say something to all players of a room; how many there are."""

    def kinds(self) -> list[KindInfo]:
        """The kinds of rooms that there can be, and what players may say in each."""

    # Seats

    def seats_of(self, room_id: str) -> list[SeatInfo]:
        """Who has a seat in a room."""

    async def reserve(self, request: Reserve) -> ReservationInfo:
        """Keep seats for players."""

    async def release(self, request: Release) -> None:
        """Give reserved seats back."""

    async def kick(self, room_id: str, player_id: str, message: str) -> None:
        """Free a player's seat."""

    # Sessions and players

    def list_sessions(self, *, player: str, limit: int, cursor: str, search: str = "", status: str = "") -> SessionPage:
        """The sessions of a player with this status in whose ids this occurs; what is empty asks for nothing."""

    def get_session(self, session_id: str) -> SessionInfo:
        """One session."""

    async def end_session(self, session_id: str, reason: str) -> None:
        """End a session for good."""

    def drop_session(self, session_id: str, reason: str) -> None:
        """Close a session's connection; the player may come back."""

    def session_timeline(self, session_id: str) -> TimelineInfo:
        """What happened to a session, and why; also to one that ended a while ago."""

    def player_timeline(self, player_id: str) -> TimelineInfo:
        """The same of a player's latest session."""

    def list_players(self, *, limit: int, cursor: str, search: str = "") -> PlayerPage:
        """Who is here, of those in whose id this occurs."""

    def get_player(self, player_id: str) -> PlayerInfo:
        """One player."""

    async def sign_out(self, player_id: str, why: str) -> None:
        """End all sessions of a player, and let credentials count that are issued from now on."""

    # Bans

    def list_bans(self, *, limit: int, cursor: str) -> BanPage:
        """Who is kept out."""

    async def ban(self, request: Ban) -> BanInfo:
        """Keep a player or a range of addresses out, and end their sessions."""

    async def unban(self, subject: str) -> None:
        """Lift a ban."""

    # Accounts and tickets

    async def create_account(self, name: str, password: str, *, player: str, roles: Iterable[str]) -> AccountInfo:
        """Make an account."""

    async def get_account(self, name: str) -> AccountInfo:
        """One account."""

    async def set_password(self, name: str, password: str) -> None:
        """Change an account's password, and sign its player out."""

    async def delete_account(self, name: str) -> None:
        """Delete an account, and sign its player out."""

    def issue_ticket(self, player: str, *, roles: Iterable[str], ttl_s: float | None) -> TicketInfo:
        """A ticket with which a player signs in."""

    # Placements

    def list_queues(self) -> list[QueueInfo]:
        """Where placements can be started."""

    async def start_placement(self, request: StartPlacement) -> PlacementInfo:
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

    async def overview(self) -> OverviewInfo:
        """The node at a glance."""

    def overviews(self) -> AsyncIterator[EventInfo]:
        """The same every second, and the newest of what happened in between."""

    def settings(self) -> SettingsInfo:
        """How it was set up."""

    async def metrics(self, *, sessions_max: int) -> bytes:
        """What it has counted and measured; of single sessions, at most so many."""

    def list_packet_targets(self) -> list[PacketTarget]:
        """Whose packets are logged."""

    def log_packets(self, target: str, for_s: float | None) -> PacketTarget:
        """Log the packets of a session, an address or a range of addresses, for a while."""

    def stop_logging_packets(self, target: str) -> None:
        """Log them no more."""

    def events(self, after: int | None) -> AsyncIterator[EventInfo]:
        """What happens from now on, or after the event with this id as far as it is kept. Ends with the node."""


class Api(Protocol):
    """A door for operators and backends, as a server is given one: `holdfast.http.api.HttpApi`."""

    @property
    def scheme(self) -> str:
        """How its URL begins: "http" or "https"."""

    async def open(self, backend: Backend) -> tuple[str, int]:
        """Answer from now on; where."""

    async def close(self) -> None:
        """Answer nobody any more."""
