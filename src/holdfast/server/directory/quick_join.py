"""`join_or_create` without races: players who arrive while a suitable room is being created get a seat in that one."""

from contextlib import aclosing
from functools import partial

from holdfast.core.errors import Invalid, NotAllowed, Refused
from holdfast.core.join_options import checked_options
from holdfast.core.listed_room import check_open, check_role
from holdfast.core.registry import SessionRegistry
from holdfast.core.session import PlayerId, Session
from holdfast.schemas.projection import project
from holdfast.schemas.requests import Create, JoinOrCreate
from holdfast.schemas.shared import Newcomer
from holdfast.search import Query, conflict, parse_query
from holdfast.server.context import Clock
from holdfast.server.directory.directory import Directory
from holdfast.server.directory.rooms_to_be import RoomsToBe
from holdfast.server.rooms.runner import RoomRunner


class QuickJoin:
    """Finds a room for a player, or creates one."""

    def __init__(self, clock: Clock, rooms: Directory, sessions: SessionRegistry, *, options_bytes_max: int) -> None:
        self._options_bytes_max = options_bytes_max
        self._clock = clock
        self._rooms = rooms
        self._sessions = sessions
        self._to_be: RoomsToBe[RoomRunner] = RoomsToBe(clock, self._seat_all)

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
        guest = Newcomer(session.player_id, sorted(session.roles))
        seats = request.max_players or self._rooms.kind_for(request).max_players
        while True:
            found = await self._found(session, request.kind, wanted)
            if found is not None:
                return found
            # There was no `await` since the search: no seat is open anywhere at this moment.
            making = self._to_be.suitable(wanted)
            if making is None:
                # Now, not once it is created: others who did not create it may wait for it by then.
                self._rooms.check_creator(guest.player, session.address)
                self._rooms.check_role(request.kind, session.roles)
                making = self._to_be.begin(guest.player, request, seats, partial(self._make, request, session))
            runner = await self._to_be.join(making, guest, request)
            if runner is not None:
                return runner, False

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

    async def _make(self, request: JoinOrCreate, session: Session) -> RoomRunner:
        create = project(request, Create, message_version="")
        return await self._rooms.create(create, session.player_id, address=session.address)

    async def _seat_all(self, runner: RoomRunner, guests: list[Newcomer]) -> dict[str, Refused]:
        refusals: dict[str, Refused] = {}
        for guest in guests:
            try:
                if not self._sessions.of_player(guest.player):
                    raise NotAllowed("the session has ended")
                runner.reservations.reserve_own(PlayerId(guest.player))
            except Refused as refusal:
                refusals[guest.player] = refusal
        return refusals


def is_own(runner: RoomRunner, player_id: PlayerId) -> bool:
    """Whether the player has a seat to return to, or has reserved one: not only others for them."""
    return runner.reservations.keeps_own(player_id) or _has_own(runner, player_id)


def _has_own(runner: RoomRunner, player_id: PlayerId) -> bool:
    """Whether a player has a seat to return to; where a player may have several seats, they want another one."""
    return runner.room.duplicate != "allow" and runner.seats.of(player_id) is not None
