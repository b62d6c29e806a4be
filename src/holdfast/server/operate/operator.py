"""A node, for those who operate it: what the HTTP API is handed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from holdfast.core.errors import NotFound, Throttled
from holdfast.core.player import Player, SeatState
from holdfast.core.reasons import Reason
from holdfast.core.session import PlayerId, Session
from holdfast.schemas.node import EventInfo, NodeInfo, PacketTarget
from holdfast.schemas.placement import PlacementInfo, QueueInfo
from holdfast.schemas.player import PlayerInfo, PlayerPage, ReservationInfo, SeatInfo
from holdfast.schemas.requests import Create, Release, Reserve, Search, StartPlacement, Update
from holdfast.schemas.room import RoomInfo, RoomPage
from holdfast.schemas.session import SessionInfo, SessionPage
from holdfast.server.operate.access import AccessOperator
from holdfast.server.operate.accounts import AccountOperator
from holdfast.server.operate.inside import InsideOperator
from holdfast.server.operate.overview import OverviewOperator, SharedLook
from holdfast.server.operate.timeline import TimelineOperator
from holdfast.server.pages import page_of

if TYPE_CHECKING:
    from holdfast.server.admission.doors import Doors
    from holdfast.server.node import Node
    from holdfast.server.rooms.runner import RoomRunner


class Operator(AccessOperator, AccountOperator, TimelineOperator, OverviewOperator, InsideOperator):
    """See `holdfast.http.port.Backend`: it sees everything."""

    def __init__(self, node: "Node", doors: "Doors | None" = None) -> None:
        super().__init__(node)
        self._doors = doors
        self._started_at = node.wall_clock()
        self._rests = WeakKeyDictionary()
        self._shared_look = SharedLook()

    # Rooms

    async def create_room(self, request: Create) -> RoomInfo:
        """Make a room."""
        return self._info(await self._node.rooms.create(request))

    async def search_rooms(self, request: Search) -> RoomPage:
        """Find rooms, private ones too."""
        return await self._node.rooms.listings.search(request, None)

    def get_room(self, room_id: str) -> RoomInfo:
        """One room; also one that ended a short while ago."""
        ended = self._node.rooms.entries.ended(room_id)
        return ended if ended is not None else self._info(self._node.rooms.runner(room_id))

    async def update_room(self, request: Update) -> RoomInfo:
        """Change a room's entry."""
        runner = self._node.rooms.runner(request.room)
        password = await self._node.rooms.passwords.keep(request.password or "")
        await runner.call(runner.apply_update, request, password)
        await runner.persistence.saved()
        return self._info(runner)

    async def end_room(self, room_id: str, reason: str) -> RoomInfo:
        """End a room: everybody leaves, then it is gone. One that lasts is gone when a crash cannot bring it back."""
        runner = self._node.rooms.runner(room_id)
        runner.end(reason or "ended_by_operator")
        await self._saved(runner.persistence.forgotten())
        return self._info(runner)

    def _info(self, runner: "RoomRunner") -> RoomInfo:
        return runner.entry.info(sees_code=True)

    # Seats

    def seats_of(self, room_id: str) -> list[SeatInfo]:
        """Who has a seat in a room."""
        room = self._node.rooms.runner(room_id).room
        reserved = [
            SeatInfo(player_id, SeatState.RESERVED.value, expires_in_s=self._seconds_until(kept.until))
            for player_id, kept in room.reservations
            if room.reservations.is_waiting(player_id)
        ]
        return [*(self._seat(seat, is_host=seat is room.host) for seat in room.seats), *reserved]

    def _seat(self, player: Player[Any], *, is_host: bool) -> SeatInfo:
        return SeatInfo(
            player.id,
            player.seat.value,
            player.session.id,
            round(player.latency_ms, 3),
            self._seconds_until(player.session.expires_at),
            is_host,
        )

    async def reserve(self, request: Reserve) -> ReservationInfo:
        """Keep seats for players."""
        runner = self._node.rooms.find(request.room, request.code)
        players = [PlayerId(each) for each in request.players]
        reserved: ReservationInfo = await runner.call(runner.reservations.reserve, players, request.ttl_s)
        await runner.persistence.saved()
        return reserved

    async def release(self, request: Release) -> None:
        """Give reserved seats back."""
        runner = self._node.rooms.runner(request.room)
        for player_id in request.players:
            if PlayerId(player_id) not in runner.room.reservations:
                raise NotFound(f"no seat is reserved for player {player_id}")
        await runner.call(runner.reservations.release, [PlayerId(each) for each in request.players])
        await runner.persistence.saved()

    async def kick(self, room_id: str, player_id: str, message: str) -> None:
        """Free a player's seat."""
        runner = self._node.rooms.runner(room_id)
        player = runner.room.player(player_id)
        if player is None:
            raise NotFound(f"player {player_id} has no seat in this room")
        await runner.call(runner.free, player, Reason.KICKED, message)
        await runner.persistence.saved()

    # Sessions and players

    def list_sessions(self, *, player: str, limit: int, cursor: str, search: str = "", status: str = "") -> SessionPage:
        """The sessions of a player, or all if that is empty; by id, so that a page can go on where another ended."""
        registry = self._node.sessions
        sessions: Iterable[Session] = registry.of_player(player) if player else registry
        if status:
            sessions = (each for each in sessions if each.state.value == status)
        if search:
            sessions = (each for each in sessions if _is_found(each, search))
        page, more = page_of((each.id for each in sessions), limit, cursor)
        found = [session for each in page if (session := registry.get(each)) is not None]
        return SessionPage([self._session(session) for session in found], more)

    def get_session(self, session_id: str) -> SessionInfo:
        """One session."""
        return self._session(self._find_session(session_id))

    async def end_session(self, session_id: str, reason: str) -> None:
        """End a session for good: its token is dead also after a crash."""
        session = self._find_session(session_id)
        self._node.end_session(session, Reason.KICKED, reason)
        keep = self._node.committer.keep_of(session) if self._node.committer is not None else None
        if keep is not None:
            await self._saved(keep.ended())

    async def _saved(self, end: Awaitable[None]) -> None:
        """Wait until the store has heard of an end."""
        limits = self._node.limits
        try:
            # It is not saved before the room's present turn is over.
            async with asyncio.timeout(limits.turn_s + limits.commit_timeout_s):
                await end
        except TimeoutError:
            raise Throttled("it ends, but the store does not save that at the moment") from None

    def _find_session(self, session_id: str) -> Session:
        if self._node.recovery is not None:
            self._node.recovery.restore_session(session_id)
        session = self._node.sessions.get(session_id)
        if session is None:
            raise NotFound(f"there is no session {session_id!r}; it may have ended")
        return session

    def _session(self, session: Session) -> SessionInfo:
        now = self._node.now()
        connection = session.connection
        return SessionInfo(
            id=session.id,
            player=session.player_id,
            status=session.state.value,
            room=session.room.id if session.room is not None else "",
            transport=connection.transport_kind if connection is not None else "",
            latency_ms=round(session.latency.smoothed_ms, 3),
            age_s=round(now - session.created_at, 3),
            idle_s=round(now - session.last_active_at, 3),
            drops=session.drops,
            resumes=session.resumes,
            expires_in_s=self._seconds_until(session.expires_at),
            flags=[str(flag.name).lower() for flag in session.flags],
        )

    def list_players(self, *, limit: int, cursor: str, search: str = "") -> PlayerPage:
        """Who is here, by id."""
        with_session = (session.player_id for session in self._node.sessions)
        here = (each for each in chain(with_session, self._node.rooms.players()) if search in each)
        page, more = page_of(here, limit, cursor)
        return PlayerPage([self._player(each) for each in page], more)

    def get_player(self, player_id: str) -> PlayerInfo:
        """One player."""
        info = self._player(player_id)
        if not info.sessions and not info.rooms:
            raise NotFound(f"player {player_id!r} is not here")
        return info

    def _player(self, player_id: str) -> PlayerInfo:
        sessions = [str(session.id) for session in self._node.sessions.of_player(player_id)]
        return PlayerInfo(player_id, sessions, [runner.room.id for runner in self._node.rooms.rooms_of(player_id)])

    def _seconds_until(self, when: float | None) -> float:
        return 0.0 if when is None else round(max(0.0, when - self._node.now()), 3)

    # Placements

    def list_queues(self) -> list[QueueInfo]:
        """Where placements can be started."""
        return self._node.placements.queues()

    async def start_placement(self, request: StartPlacement) -> PlacementInfo:
        """Have a room made on the best node."""
        return self._node.placements.start(request)

    def list_placements(self) -> list[PlacementInfo]:
        """Those that are pending, and those that ended a short while ago."""
        return self._node.placements.list()

    def get_placement(self, placement_id: str) -> PlacementInfo:
        """How far one is."""
        return self._node.placements.get(placement_id)

    async def stop_placement(self, placement_id: str) -> PlacementInfo:
        """Give one up that is still pending."""
        return self._node.placements.stop(placement_id)

    # The node

    def node(self) -> NodeInfo:
        """How this node is."""
        return self._node.health.info()

    async def metrics(self, *, sessions_max: int) -> bytes:
        """What it has counted and measured."""
        return await self._node.exposition.text(sessions_max=sessions_max)

    def list_packet_targets(self) -> list[PacketTarget]:
        """Whose packets are logged."""
        return self._node.packets.targets()

    def log_packets(self, target: str, for_s: float | None) -> PacketTarget:
        """Log the packets of a session, an address or a range of addresses, for a while."""
        return self._node.packets.follow(target, for_s)

    def stop_logging_packets(self, target: str) -> None:
        """Log them no more."""
        self._node.packets.leave(target)

    def events(self, after: int | None) -> AsyncIterator[EventInfo]:
        """What happens on it."""
        return self._node.events.read(after)


def _is_found(session: Session, search: str) -> bool:
    room = session.room
    return search in session.id or search in session.player_id or (room is not None and search in room.id)
