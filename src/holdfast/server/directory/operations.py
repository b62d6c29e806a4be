"""The requests of a session to the directory: create, search, join … Each is a method, and a row of `table`."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from holdfast.core.errors import (
    AlreadySeated,
    AlreadySpectating,
    NotAllowed,
    NotFound,
    NotSeated,
    Refused,
    RoomFull,
    Throttled,
    WrongPassword,
)
from holdfast.core.join_options import packed_options
from holdfast.core.listed_room import check_open
from holdfast.core.reasons import Reason
from holdfast.core.registry import SessionRegistry
from holdfast.core.session import PlayerId, Seat, Session
from holdfast.schemas.events import Renamed
from holdfast.schemas.player import ReservationInfo, WaitInfo
from holdfast.schemas.requests import (
    Create,
    Join,
    JoinOrCreate,
    Leave,
    Mine,
    Release,
    Rename,
    Reserve,
    Search,
    Spectate,
    StopWaiting,
    Unspectate,
    Unwatch,
    Update,
    Wait,
    Watch,
    WholeView,
)
from holdfast.schemas.room import RoomInfo, RoomPage
from holdfast.schemas.session import NameInfo
from holdfast.search import Query
from holdfast.server.context import Context
from holdfast.server.directory.directory import Directory
from holdfast.server.directory.other_nodes import OtherNodes
from holdfast.server.directory.quick_join import QuickJoin
from holdfast.server.directory.room_passwords import CODES, Guesses
from holdfast.server.display_names import DisplayNames
from holdfast.server.rooms.persistence import Persistence
from holdfast.server.rooms.runner import RoomRunner
from holdfast.server.sessions import StoredSessions

# A game may close each room as somebody joins: after this many, that error is returned instead of another new room.
_TRIES_MAX = 3

Operation = Callable[[Session, Any], Awaitable[Any]]
"""Carries out a session's request, of the type that `REQUESTS` has under its name."""


class DirectoryOperations:
    """Carries out the directory requests of players; every refusal has a code."""

    def __init__(
        self,
        context: Context,
        rooms: Directory,
        *,
        sessions: SessionRegistry,
        stored: StoredSessions,
        names: DisplayNames,
    ) -> None:
        self._context = context
        self._names = names
        self._rooms = rooms
        self._stored = stored
        self._quick = QuickJoin(context.clock, rooms, sessions, options_bytes_max=context.limits.options_bytes_max)
        # Sessions whose request takes or frees a seat, each with the room.
        self._doors: dict[Session, RoomRunner] = {}
        self.guesses = Guesses(context.limits)
        self.on_wrong_code: Callable[[str], None] = lambda _: None
        """In a cluster: tells the other nodes that a code was guessed wrong at this address."""
        self.is_stopped = False
        self.others: OtherNodes | None = None
        """In a cluster: the other nodes."""

    def settle(self, session: Session) -> None:
        """The answer to the session's request is complete."""
        runner = self._doors.pop(session, None)
        if runner is not None:
            runner.persistence.answered(session)

    # Rooms

    async def create(self, session: Session, request: Create) -> RoomInfo:
        """Create a room; joining it is a separate request."""
        self._rooms.check_role(request.kind, session.roles)
        try:
            runner = await self._rooms.create(request, session.player_id, address=session.address)
        except NotFound as missing:
            # Another node has made it, by the same key.
            shown = await self._shown_elsewhere(session, missing.room_id)
            if shown is None:
                raise
            return shown
        return self._shown(session, runner)

    async def _shown_elsewhere(self, session: Session, room_id: str) -> RoomInfo | None:
        if self.others is None or not room_id:
            return None
        return await self.others.show(session.player_id, room_id)

    async def search(self, session: Session, request: Search) -> RoomPage:
        index = self._rooms.index
        return await index.search(request, index.visible_to(session.player_id))

    async def watch(self, session: Session, request: Watch) -> RoomPage:
        """Begin a search whose changes the client is notified of."""
        return await self._rooms.index.watch(session, request)

    async def unwatch(self, session: Session, request: Unwatch) -> None:
        self._rooms.index.watches.end(session, request.id)

    async def mine(self, session: Session, request: Mine) -> list[RoomInfo]:
        """The rooms in which this player has a seat."""
        player_id = session.player_id
        elsewhere = await self.others.seats(player_id) if self.others is not None else []
        runners = self._rooms.rooms_of(player_id)
        if request.seated:
            runners = [runner for runner in runners if runner.seats.of(player_id) is not None]
        here = [self._shown(session, runner) for runner in runners]
        return here + [seat.room for seat in elsewhere if seat.is_seated or not request.seated]

    async def update(self, session: Session, request: Update) -> RoomInfo:
        """Change a room's listing: allowed to its creator and its host."""
        runner = self._rooms.runner(request.room)
        context = runner.context
        is_member = session.room_id == runner.room.id
        if is_member:
            # The answer is saved together with the change: repeated after a crash, the request is not carried out
            # twice.
            self._doors[session] = runner

        def check() -> None:
            if session.player_id not in {context.listing.creator, context.host.id if context.host is not None else ""}:
                raise NotAllowed("only the creator of the room and its host may change it")

        def update() -> None:
            check()
            runner.apply_update(request, password)
            if is_member:
                runner.persistence.changing(session)

        password = None
        if request.password:
            # Hashing takes a while, so it happens before the turn; and only for those who may change the room.
            check()
            password = await self._rooms.passwords.keep(request.password)
        async with self._rooms.renaming(runner, request.name):
            await runner.call(update)
        if not is_member:
            await runner.persistence.saved()
        return self._shown(session, runner)

    async def rename(self, session: Session, request: Rename) -> NameInfo:
        """Change the player's display name; their room hears of it."""
        name, old = self._names.of_session(request.name, session), session.name
        if name == old:
            return NameInfo(name)
        if session.seat is None:
            session.name = name
        else:
            # The answer is saved together with what the room makes of it.
            runner = self._doors[session] = self._rooms.runner(session.seat.room.id)
            try:
                await runner.call(runner.rename, session, name)
            except NotFound:
                # The room has ended, and the session goes on.
                session.name = name
        if session.place is not None:
            # As above: the watched room may end before it has heard of the name.
            with suppress(NotFound):
                watched = self._rooms.runner(session.place.room.id)
                await watched.call(watched.spectators.renamed, session)
        self._context.publish(
            Renamed(session=session.id, player=session.player_id, player_name=name, old_name=old, new_name=name)
        )
        return NameInfo(name)

    # Seats

    async def join(self, session: Session, request: Join) -> RoomInfo:
        self._check_free(session)
        try:
            runner = await self._entered(session, request.room, request.code, request.password)
        except NotFound as missing:
            if self.others is not None and session.place is not None and (missing.room_id or missing.room_code):
                # The session goes to that room, if it has a seat there.
                await self.others.enter(session, request, missing)
                self._stop_watching(session)
            raise
        self._rooms.message_versions.check(type(runner.room), request.message_version)
        return await self._join(session, runner, request.options)

    async def enter(self, session: Session, request: Join) -> None:
        """Keep a seat for a player who is about to come from another node."""
        runner = await self._entered(session, request.room, request.code, request.password)
        self._rooms.message_versions.check(type(runner.room), request.message_version)
        player_id = session.player_id
        if runner.seats.of(player_id) is None:
            check_open(runner.room, player_id)
            runner.reservations.reserve_own(player_id)

    def _stop_watching(self, session: Session) -> None:
        """The session is about to go where its new seat is: it can watch no room of this node any more."""
        place = session.place
        if place is not None:
            watched = self._rooms.runner(place.room.id)
            watched.spectators.free(place, Reason.MOVED, "your seat is on another node than this room")

    async def join_or_create(self, session: Session, request: JoinOrCreate) -> RoomInfo:
        """Take a seat in the oldest open room of a kind, or in a new one."""
        self._check_free(session)
        if self.others is not None and self._quick.own(session, request.kind) is None:
            own = await self.others.own_seat(session.player_id, request.kind)
            if own:
                self._stop_watching(session)
                raise NotFound(f"room {own!r} is on another node", room_id=own)
        wanted = self._quick.check(session, request)
        tries = _TRIES_MAX
        while True:
            tries -= 1
            runner, was_kept = await self._find(session, request, wanted)
            try:
                return await self._join(session, runner, request.options)
            except BaseException as error:
                if not was_kept:
                    # The player did not take the seat: they left, or the room refused them.
                    runner.reservations.release([session.player_id])
                is_gone = isinstance(error, Refused) and runner.context.is_closing
                # In a cluster, time passes between the search and the join: what was kept may have expired.
                is_late = isinstance(error, RoomFull) and self.others is not None
                if tries == 0 or not (is_gone or is_late):
                    raise

    async def _find(self, session: Session, request: JoinOrCreate, wanted: Query) -> tuple[RoomRunner, bool]:
        """A room with a seat for the player, and whether they had it before."""
        if self.others is None:
            return await self._quick.find(session, request, wanted)
        if (own := self._quick.own(session, request.kind)) is not None:
            runner, was_kept = own
            # A session that has come for this request has had a seat kept for it by the node where it was.
            return runner, was_kept and not self.others.has_come(session)
        room_id = await self.others.find_seat(session, request)
        try:
            return self._rooms.runner(room_id), False
        except NotFound:
            self._stop_watching(session)
            raise

    async def leave(self, session: Session, request: Leave) -> None:
        """Free the seat."""
        seat = session.seat
        if seat is None:
            raise NotSeated("this session has no seat to leave")
        runner = self._doors[session] = self._rooms.runner(seat.room.id)
        runner.delivery.let_finish(seat)
        await runner.call(_give_back, session, seat, runner.free, runner.persistence)

    # Spectators

    async def spectate(self, session: Session, request: Spectate) -> RoomInfo:
        """Watch a room without a seat."""
        self._check_not_spectating(session)
        # The role is for seats: who may watch is the game's to say, in `on_spectate`.
        runner = await self._entered(session, request.room, request.code, request.password, role_needed=False)
        self._rooms.message_versions.check(type(runner.room), request.message_version)
        self._check_not_spectating(session)
        # As for a seat: changes in the room that it has just left are saved first.
        await self._stored.saved_without(session)
        self._doors[session] = runner
        await runner.spectate(session)
        return self._shown(session, runner)

    def _check_not_spectating(self, session: Session) -> None:
        if session.place is not None:
            room = session.place.room
            raise AlreadySpectating(f"this session already watches room {room.id} ({room.kind}); leave it first")
        if self.is_stopped:
            raise Throttled("this node is stopping")

    async def view(self, session: Session, request: WholeView) -> None:
        """Send the whole view of what the room shares, in its stream."""
        seat = session.seat if request.purpose == "seat" else session.place
        if seat is None:
            raise NotSeated(f"this session has no {request.purpose} whose room could send its state")
        sharing = self._rooms.runner(seat.room.id).sharing
        if sharing is not None:
            sharing.show_again(seat)

    async def unspectate(self, session: Session, request: Unspectate) -> None:
        """Watch no more."""
        place = session.place
        if place is None:
            raise NotSeated("this session watches no room")
        runner = self._doors[session] = self._rooms.runner(place.room.id)
        runner.spectators.delivery.let_finish(place)
        await runner.call(_give_back, session, place, runner.spectators.free, runner.persistence)

    async def reserve(self, session: Session, request: Reserve) -> ReservationInfo:
        """Reserve seats for oneself or a party."""
        runner = await self._entered(session, request.room, request.code, request.password)
        players = [PlayerId(each) for each in request.players] or [session.player_id]
        options = packed_options(type(runner.room), request.options, self._context.limits.options_bytes_max)
        reserved: ReservationInfo = await runner.call(
            runner.reservations.reserve, players, request.ttl_s, session.player_id, dict.fromkeys(players, options)
        )
        await runner.persistence.saved()
        return reserved

    async def release(self, session: Session, request: Release) -> None:
        """Free reserved seats: one's own, and those one has reserved for others."""
        runner = self._rooms.runner(request.room)
        players = [PlayerId(each) for each in request.players] or [session.player_id]
        await runner.call(runner.reservations.release, players, session.player_id)
        await runner.persistence.saved()

    async def wait(self, session: Session, request: Wait) -> WaitInfo:
        """Join the waitlist of a room."""
        runner = await self._entered(session, request.room, "", request.password)
        place: WaitInfo = await runner.call(runner.reservations.wait, session.player_id, session.address)
        if place.position == 0:
            await runner.persistence.saved()
        return place

    async def stop_waiting(self, session: Session, request: StopWaiting) -> None:
        """Leave the waitlist of a room."""
        runner = self._rooms.runner(request.room)
        await runner.call(runner.reservations.stop_waiting, session.player_id)
        await runner.persistence.saved()

    async def _entered(
        self, session: Session, room_id: str, code: str, password: str, *, role_needed: bool = True
    ) -> RoomRunner:
        """The requested room, if the session may enter it: by its password, or by a seat that it already has."""
        if code:
            await self._take_guess(session, CODES)
            await self._check_code(session, code)
        runner = self._rooms.find(room_id, code)
        if not self._is_known(session, runner):
            await self._check_password(session, runner, password)
            # The room may have ended during the check.
            runner = self._rooms.find(runner.room.id, "")
        if role_needed:
            runner.check_role(session)
        return runner

    async def _check_code(self, session: Session, code: str) -> None:
        """A code that a room has, on whichever node, is no wrong guess."""
        try:
            is_right = self._rooms.names.coded(code) is not None or (
                self.others is not None and await self.others.has_code(code)
            )
        except Throttled:
            self.guesses.right(session, CODES)
            raise
        if is_right:
            self.guesses.right(session, CODES)
        else:
            self.on_wrong_code(session.address)

    def _is_known(self, session: Session, runner: RoomRunner) -> bool:
        seats, player_id = runner.seats, session.player_id
        is_expected = seats.of(player_id) is not None or player_id in seats.reservations
        return is_expected or runner.context.listing.password is None

    async def _check_password(self, session: Session, runner: RoomRunner, password: str) -> None:
        if not password:
            raise WrongPassword("this room has a password: send it with the request")
        room = runner.room
        await self._take_guess(session, room.id)
        try:
            is_right = await self._rooms.passwords.is_right(runner.context.listing, password)
        except Throttled:
            self.guesses.right(session, room.id)
            raise
        if not is_right:
            raise WrongPassword("wrong password")
        self.guesses.right(session, room.id)

    async def _take_guess(self, session: Session, room_id: str) -> None:
        """Wait until this session's guess may be checked."""
        wait_s = self.guesses.wait_s(session, room_id, self._context.clock.now())
        if wait_s is None:
            if session.wrong_guesses >= self._context.limits.wrong_guesses_max:
                raise Throttled("too many wrong codes or passwords: sign in again later")
            self._context.alarms.report("guesses_per_address_per_s", "refused", address=session.address)
            raise Throttled("too many wrong codes or passwords: try again in a minute")
        if wait_s:
            await asyncio.sleep(wait_s)

    def _check_free(self, session: Session) -> None:
        if session.seat is not None:
            room = session.seat.room
            raise AlreadySeated(f"this session already has a seat in room {room.id} ({room.kind}); leave it first")
        if self.is_stopped:
            raise Throttled("this node is stopping")

    async def _join(self, session: Session, runner: RoomRunner, options: Any) -> RoomInfo:
        self._check_free(session)
        # Changes in the room that it has just left must be saved before those in this one.
        await self._stored.saved_without(session)
        self._doors[session] = runner
        await runner.join(session, runner.wire_outlet, options)
        return self._shown(session, runner)

    def _shown(self, session: Session, runner: RoomRunner) -> RoomInfo:
        return self._rooms.index.visible_to(session.player_id).show(runner)

    def table(self) -> dict[str, Operation]:
        return {
            "create": self.create,
            "join": self.join,
            "join_or_create": self.join_or_create,
            "leave": self.leave,
            "mine": self.mine,
            "release": self.release,
            "rename": self.rename,
            "reserve": self.reserve,
            "search": self.search,
            "spectate": self.spectate,
            "stop_waiting": self.stop_waiting,
            "unspectate": self.unspectate,
            "view": self.view,
            "unwatch": self.unwatch,
            "update": self.update,
            "wait": self.wait,
            "watch": self.watch,
        }


def _give_back(session: Session, seat: Seat, free: Callable[[Seat, Reason], None], persistence: Persistence) -> None:
    """The turn in which somebody leaves. If the seat is not theirs any more, after a kick say, nothing waits for the
    answer: the room may have to be saved before this turn.
    """
    if seat in (session.seat, session.place):
        persistence.leaving(session, seat)
        free(seat, Reason.LEFT)
