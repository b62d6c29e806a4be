"""What can be found: the index of a node's rooms, kept up to date and searched."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from itertools import islice, takewhile

from holdfast.core.address_quota import AddressShares
from holdfast.core.errors import NotFound
from holdfast.core.session import PlayerId, Session
from holdfast.schemas.frames import FRAME_HEAD_BYTES
from holdfast.schemas.requests import Search, Watch
from holdfast.schemas.room import RoomInfo, RoomPage
from holdfast.search import Index, Query, parse_query
from holdfast.search.ast import Comparison, Operator, Term, conjunction
from holdfast.server.context import Context
from holdfast.server.directory.slices import Slices
from holdfast.server.directory.viewer import Viewer
from holdfast.server.directory.watches import TellRooms, Watches, size_of
from holdfast.server.rooms.runner import RoomRunner

# Rooms whose row is brought up to date in one go: about two milliseconds.
_REFRESHED_AT_ONCE = 32
# What a page has beside its rooms: a cursor, which is as long as a search takes one, and a few words.
_PAGE_HEAD_BYTES = 1024 + 64
# What a newcomer looks for.
_OPEN = (Comparison(Term("open_seats"), Operator.GT, 0), Comparison(Term("has_password"), Operator.EQ, value=False))
_OPENINGS_AT_ONCE = 8


class RoomIndex:
    """The searchable side of the rooms."""

    def __init__(self, context: Context, shares: AddressShares, tell_rooms: TellRooms) -> None:
        self._limits = context.limits
        self._wall_clock = context.clock.wall_clock
        self._faults = context.faults
        self._index = Index(columns_max=self._limits.indexed_properties_max)
        self._runners: dict[str, RoomRunner] = {}
        # Those whose row is out of date, longest first.
        self._stale: dict[RoomRunner, None] = {}
        # At which touch each has changed last, in that order: what changes while somebody looks for an opening.
        self._touched: dict[RoomRunner, int] = {}
        self._touches = 0
        self._is_catching_up = False
        self._slices = Slices(context.clock.loop)
        self._watches = Watches(context, shares, self.row, self._slices, tell_rooms)
        self._page_bytes_max = self._limits.payload_bytes_max - FRAME_HEAD_BYTES - _PAGE_HEAD_BYTES

    # Rooms

    def add(self, runner: RoomRunner) -> None:
        """A room can be found from now on."""
        self._runners[runner.room.id] = runner
        self.touch(runner)

    def touch(self, runner: RoomRunner) -> None:
        """What is shown of a room has changed; looked at when somebody asks, or there are many of them."""
        if self._runners.get(runner.room.id) is not runner:
            return
        self._stale[runner] = None
        self._touches += 1
        self._touched.pop(runner, None)
        self._touched[runner] = self._touches
        self._watches.changed(runner.room.id)
        if len(self._stale) > _REFRESHED_AT_ONCE and not self._is_catching_up:
            self._is_catching_up = True
            self._slices.add(self._catch_up)

    def remove(self, runner: RoomRunner) -> None:
        """A room cannot be found any more."""
        if self._runners.get(runner.room.id) is runner:
            del self._runners[runner.room.id]
            self._stale.pop(runner, None)
            self._touched.pop(runner, None)
            self._index.remove(runner.room.id)
            self._watches.changed(runner.room.id)

    def row(self, room_id: str) -> RoomInfo | None:
        """What can be searched of a room, as it is now."""
        runner = self._runners.get(room_id)
        if runner is not None and runner in self._stale:
            self._refresh(runner)
        return self._index.row(room_id)

    # Keeping up

    def _refresh(self, runner: RoomRunner) -> None:
        del self._stale[runner]
        try:
            self._index.put(runner.entry.row())
        except Exception as error:  # noqa: BLE001 - a game has spoiled its room: it is not found, others are
            self._index.remove(runner.room.id)
            self._faults.report("the entry of a room", error, room=runner.room.id, kind=runner.room.kind)

    def _refresh_some(self, count: int) -> None:
        for runner in list(islice(self._stale, count)):
            self._refresh(runner)

    def _catch_up(self) -> None:
        """Nobody is waiting for it: so that whoever searches need not wait long."""
        self._refresh_some(_REFRESHED_AT_ONCE)
        self._is_catching_up = len(self._stale) > _REFRESHED_AT_ONCE
        if self._is_catching_up:
            self._slices.add(self._catch_up)

    async def _caught_up(self) -> int:
        """Wait until it is one's turn to search, and all that has changed can be found: until which touch."""
        await self._slices.turn()
        behind, touches = len(self._stale), self._touches
        while behind > _REFRESHED_AT_ONCE:
            self._refresh_some(_REFRESHED_AT_ONCE)
            behind -= _REFRESHED_AT_ONCE
            await self._slices.turn()
        self._refresh_some(behind)
        return touches

    # Searching

    def visible_to(self, player_id: PlayerId) -> Viewer:
        """What this player may find."""
        return Viewer(self._runners, player_id)

    async def search(self, request: Search, viewer: Viewer | None) -> RoomPage:
        """Look in slices, so that no search keeps the games waiting. Without a viewer, everything is seen."""
        query = parse_query(request.where, request.order_by, kind=request.kind)
        rooms: list[RoomInfo] = []
        last: RoomInfo | None = None
        cursor, looked, bytes_left = request.cursor, 0, self._page_bytes_max
        while True:
            await self._caught_up()
            found = self._index.search(
                query,
                now=self._wall_clock(),
                limit=request.limit - len(rooms),
                cursor=cursor,
                budget=self._limits.search_slice_max,
                visible=viewer,
            )
            for row in found.rows:
                runner = self._runners[row.id]
                info = runner.entry.info(sees_code=True) if viewer is None else viewer.show(runner)
                bytes_left -= size_of(info)
                if bytes_left < 0 and last is not None:
                    # As many as an answer can carry.
                    return RoomPage(rooms, query.cursor_after(last))
                rooms.append(info)
                last = row
            cursor, looked = found.cursor, looked + found.looked
            if len(rooms) >= request.limit or not cursor or looked >= self._limits.search_looked_max:
                return RoomPage(rooms, cursor)

    async def openings(self, wanted: Query) -> AsyncGenerator[RoomRunner]:
        """Rooms that a newcomer might join without a password, oldest first; last, those that changed meanwhile.

        Each is open when it is told of, and at the end there is no other: whoever goes on from there without an
        `await` may rely on it.
        """
        query = Query(conjunction(*_OPEN, wanted.where), wanted.order, b"")
        cursor, looked = "", 0
        since = await self._caught_up()
        while True:
            found = self._index.search(
                query,
                now=self._wall_clock(),
                limit=_OPENINGS_AT_ONCE,
                cursor=cursor,
                budget=self._limits.search_slice_max,
                visible=self._is_public,
            )
            for row in found.rows:
                yield self._runners[row.id]
            cursor, looked = found.cursor, looked + found.looked
            if not cursor or looked >= self._limits.search_looked_max:
                break
            await self._caught_up()
        async with aclosing(self._opened_since(since, query)) as opened:
            async for runner in opened:
                yield runner

    async def _opened_since(self, since: int, query: Query) -> AsyncGenerator[RoomRunner]:
        looked = 0
        while looked < self._limits.search_looked_max:
            changed = list(islice(self._open_and_touched(since), self._limits.search_slice_max))
            since, looked = self._touches, looked + len(changed)
            for number, runner in enumerate(changed, 1):
                row = self.row(runner.room.id)
                if row is not None and self._is_public(row) and query.matches(row, self._wall_clock()):
                    yield runner
                if number % _REFRESHED_AT_ONCE == 0:
                    await self._slices.turn()
            if len(changed) < _REFRESHED_AT_ONCE:
                # Nothing can have changed since.
                return

    def _open_and_touched(self, since: int) -> Iterator[RoomRunner]:
        touched = takewhile(lambda each: each[1] > since, reversed(self._touched.items()))
        return (runner for runner, _ in touched if runner.entry.open_seats > 0)

    def _is_public(self, row: RoomInfo) -> bool:
        return self._runners[row.id].context.listing.visibility == "public"

    # Watching

    async def watch(self, session: Session, request: Watch) -> RoomPage:
        """Begin a search that goes on; what it finds now."""
        viewer = self.visible_to(session.player_id)
        watch = self._watches.begin(session, request.id, parse_query(request.where, (), kind=request.kind), viewer)
        try:
            page = await self.search(Search(request.kind, request.where, [], request.limit), viewer)
        except BaseException:
            with suppress(NotFound):
                self.unwatch(session, request.id)
            raise
        self._watches.found(watch, page.rooms)
        return page

    def unwatch(self, session: Session, watch_id: str) -> None:
        """End one."""
        self._watches.end(session, watch_id)

    def dropped(self, session: Session) -> None:
        """Who is not there cannot be told: they begin again when they are back."""
        self._watches.dropped(session)
