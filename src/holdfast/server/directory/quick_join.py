"""`join_or_create` without races: players who arrive while a suitable room is being created get a seat in that one."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field

from msgspec import structs

from holdfast.core.errors import Invalid, NotAllowed, Refused
from holdfast.core.join_options import checked_options
from holdfast.core.listed_room import check_open, check_role
from holdfast.core.registry import SessionRegistry
from holdfast.core.session import PlayerId, Session
from holdfast.schemas.projection import project
from holdfast.schemas.requests import Create, JoinOrCreate, fingerprint
from holdfast.schemas.room import RoomInfo
from holdfast.search import Query, conflict, parse_query
from holdfast.server.context import Clock
from holdfast.server.directory.directory import Directory
from holdfast.server.rooms.runner import RoomRunner


@dataclass(slots=True, eq=False)
class _PendingRoom:
    """A room being created, and the players who will get a seat in it; the first of them is its creator."""

    request: JoinOrCreate
    key: bytes
    row: RoomInfo
    guests: list[PlayerId] = field(default_factory=list)
    refusals: dict[PlayerId, Refused] = field(default_factory=dict)
    """Players who did not get a seat after all."""
    task: asyncio.Task[RoomRunner] = field(init=False)

    def suits(self, query: Query, now: float) -> bool:
        """Whether another player whose search this is may have a seat in it."""
        seats, most = len(self.guests), self.row.max_players
        if seats >= most or self.request.visibility != "public" or self.request.password:
            return False
        return query.matches(structs.replace(self.row, players=seats, open_seats=most - seats), now)


class QuickJoin:
    """Finds a room for a player, or creates one."""

    def __init__(self, clock: Clock, rooms: Directory, sessions: SessionRegistry, *, options_bytes_max: int) -> None:
        self._options_bytes_max = options_bytes_max
        self._clock = clock
        self._rooms = rooms
        self._sessions = sessions
        # In the order of their creation.
        self._making: dict[_PendingRoom, None] = {}

    def check(self, session: Session, request: JoinOrCreate) -> Query:
        """The search of a request; an impossible request, or one this player may not make, is refused before
        searching."""
        room_type = self._rooms.kind_for(request)
        check_role(room_type.join_role, session.roles, f"a seat in rooms of the kind {request.kind!r}")
        # Now: no room must be created for a player who cannot join it.
        if request.options is not None or not self._has_options(session, request.kind):
            checked_options(room_type, request.options, self._options_bytes_max)
        query = parse_query(request.where, (), kind=request.kind)
        # Of the properties of other rooms this would be a hint; these are the player's own.
        if mistake := conflict(query.where, request.properties):
            raise Invalid(f"where: {mistake} in the properties of the new room, which nobody would find with it")
        return query

    def _has_options(self, session: Session, kind: str) -> bool:
        """Whether a seat is reserved for the player, or theirs, in a room of this kind: with options to join with."""
        return any(runner.room.kind == kind for runner in self._rooms.rooms_of(session.player_id))

    async def find(self, session: Session, request: JoinOrCreate, wanted: Query) -> tuple[RoomRunner, bool]:
        """A room with a seat taken by or reserved for this player, and whether the player had it before."""
        player_id = session.player_id
        while True:
            found = await self._found(session, request.kind, wanted)
            if found is not None:
                return found
            # There was no `await` since the search: no seat is open anywhere at this moment.
            now = self._clock.wall_clock()
            making = next((each for each in self._making if each.suits(wanted, now)), None)
            if making is None:
                # Now, not once it is created: others who did not create it may wait for it by then.
                self._rooms.check_creator(player_id, session.address)
                making = self._make(request, session)
            making.guests.append(player_id)
            try:
                # A player who leaves must not cancel the room of the others.
                runner = await asyncio.shield(making.task)
            except Refused:
                if making.key == key_of(request):
                    raise
                # The request of another player failed, not this one.
                continue
            refusal = making.refusals.get(player_id)
            if refusal is None:
                return runner, False
            if making.guests[0] == player_id:
                # Its game has locked it, for example: another new room would be no better.
                raise refusal
            # It has fewer seats than expected: search again. Each new room ends at least one search, so all of them
            # end.

    def own(self, session: Session, kind: str) -> tuple[RoomRunner, bool] | None:
        """A room of this kind in which the player has a seat, or has reserved one, and whether it is reserved."""
        player_id = session.player_id
        for runner in self._rooms.rooms_of(player_id):
            was_kept = player_id in runner.seats.reservations
            if runner.room.kind == kind and is_own(runner, player_id) and self._has_seat(runner, session):
                return runner, was_kept
        return None

    async def _found(self, session: Session, kind: str, wanted: Query) -> tuple[RoomRunner, bool] | None:
        player_id = session.player_id
        if (own := self.own(session, kind)) is not None:
            return own
        async with aclosing(self._rooms.index.openings(wanted)) as openings:
            async for runner in openings:
                was_kept = player_id in runner.seats.reservations
                if self._has_seat(runner, session):
                    return runner, was_kept
        return None

    @staticmethod
    def _has_seat(runner: RoomRunner, session: Session) -> bool:
        player_id = session.player_id
        if _has_own(runner, player_id):
            return True
        try:
            runner.check_role(session)
            check_open(runner.room, player_id)
            runner.reservations.reserve_own(player_id)
        except Refused:
            return False
        return True

    def _make(self, request: JoinOrCreate, session: Session) -> _PendingRoom:
        self._rooms.check_role(request.kind, session.roles)
        seats = request.max_players or self._rooms.kind_for(request).max_players
        row = RoomInfo(
            id="",
            players=0,
            kind=request.kind,
            name=request.name,
            max_players=seats,
            open_seats=seats,
            created_at=self._clock.wall_clock(),
            phase="lobby",
            properties=request.properties,
            creator=session.player_id,
        )
        making = _PendingRoom(request, key_of(request), row)
        making.task = self._clock.loop.create_task(self._made(making, session.player_id, session.address))
        # If nobody waits for it any more, nobody needs its error.
        making.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        self._making[making] = None
        return making

    async def _made(self, making: _PendingRoom, creator: PlayerId, address: str) -> RoomRunner:
        try:
            runner = await self._rooms.create(
                project(making.request, Create, message_version=""), creator, address=address
            )
        finally:
            del self._making[making]
        # At once: players who find the room now must not take the seats of those who waited for it.
        for player_id in making.guests:
            try:
                if not self._sessions.of_player(player_id):
                    raise NotAllowed("the session has ended")
                runner.reservations.reserve_own(player_id)
            except Refused as refusal:
                making.refusals[player_id] = refusal
        return runner


def key_of(request: JoinOrCreate) -> bytes:
    """Equal for requests for the same room, whatever their players join it with."""
    return fingerprint(structs.replace(request, options=None))


def is_own(runner: RoomRunner, player_id: PlayerId) -> bool:
    """Whether the player has a seat to return to, or has reserved one: not only others for them."""
    return runner.reservations.keeps_own(player_id) or _has_own(runner, player_id)


def _has_own(runner: RoomRunner, player_id: PlayerId) -> bool:
    """Whether a player has a seat to return to; where a player may have several seats, they want another one."""
    return runner.room.duplicate != "allow" and runner.seats.of(player_id) is not None
