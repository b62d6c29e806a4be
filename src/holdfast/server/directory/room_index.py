"""The search index: of a node's rooms, and in a cluster also of those that other nodes list."""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from itertools import islice, takewhile

from holdfast.core.addresses import AddressShares
from holdfast.core.errors import NotFound
from holdfast.core.session import PlayerId, Session
from holdfast.schemas.frames import FRAME_HEAD_BYTES
from holdfast.schemas.requests import Search, Watch
from holdfast.schemas.room import RoomInfo, RoomPage
from holdfast.search import Index, Query, parse_query
from holdfast.search.language import Comparison, Operator, Term, conjunction
from holdfast.server.context import Context
from holdfast.server.directory.remote_rows import RemoteRow, RemoteRows
from holdfast.server.directory.watches import Slices, TellRooms, Viewer, Watches, size_of
from holdfast.server.rooms.runner import RoomRunner

# Rows refreshed in one slice: about two milliseconds.
_REFRESHED_AT_ONCE = 32
# The size of a page without its rooms: a cursor, as long as the longest that a search accepts, and the field names.
_PAGE_HEAD_BYTES = 1024 + 64
# What a new player searches for.
_OPEN = (Comparison(Term("open_seats"), Operator.GT, 0), Comparison(Term("has_password"), Operator.EQ, value=False))
_OPENINGS_AT_ONCE = 8
# Rooms that may have changed since an opening was found, for it to be known without a search.
_CHANGED_MAX = 32


class RoomIndex:
    """Indexes rooms, searches them, and watches searches."""

    def __init__(self, context: Context, shares: AddressShares, tell_rooms: TellRooms) -> None:
        self._limits = context.limits
        self._wall_clock = context.clock.wall_clock
        self._faults = context.faults
        self._index = Index(columns_max=self._limits.indexed_properties_max)
        self._runners: dict[str, RoomRunner] = {}
        self.remote = RemoteRows(self._limits.remote_rooms_max)
        """Rooms of other nodes."""
        self.on_change: list[Callable[[str], None]] = []
        """A room of this node has changed, or is gone."""
        # Rooms whose row is outdated, the longest outdated first.
        self._stale: dict[RoomRunner, None] = {}
        # The number of each room's last change, in that order: finds rooms that changed during a search for an opening.
        self._touched: dict[RoomRunner, int] = {}
        self._touches = 0
        # By kind, the oldest room that a new player might join, and the last change when that was so.
        self._oldest_open: dict[str, tuple[RoomRunner, int]] = {}
        self._is_catching_up = False
        self._slices = Slices(context.clock.loop)
        self.watches = Watches(context, shares, self.row, self._slices, tell_rooms)
        self._page_bytes_max = self._limits.payload_bytes_max - FRAME_HEAD_BYTES - _PAGE_HEAD_BYTES

    # Rooms

    def add(self, runner: RoomRunner) -> None:
        self._runners[runner.room.id] = runner
        self.touch(runner)

    def touch(self, runner: RoomRunner) -> None:
        """A room's listing has changed; its row is refreshed at the next search, or when many are outdated."""
        if self._runners.get(runner.id) is not runner:
            return
        self._stale[runner] = None
        self._touches += 1
        self._touched.pop(runner, None)
        self._touched[runner] = self._touches
        self._changed(runner.id)
        if len(self._stale) > _REFRESHED_AT_ONCE and not self._is_catching_up:
            self._is_catching_up = True
            self._slices.add(self._catch_up)

    def remove(self, runner: RoomRunner) -> None:
        if self._runners.get(runner.id) is runner:
            if self._oldest_open.get(runner.kind, (None, 0))[0] is runner:
                # It is not kept alive.
                del self._oldest_open[runner.kind]
            del self._runners[runner.room.id]
            self._stale.pop(runner, None)
            self._touched.pop(runner, None)
            self._put_remote(runner.room.id)
            self._changed(runner.room.id)

    def _changed(self, room_id: str) -> None:
        self.watches.changed(room_id)
        for heard in self.on_change:
            heard(room_id)

    def runner(self, room_id: str) -> RoomRunner | None:
        """The room, if it is on this node and listed."""
        return self._runners.get(room_id)

    # Rooms of other nodes

    def list_remote(self, room: RemoteRow) -> bool:
        """Another node lists a room; False if there are too many."""
        is_listed = self.remote.put(room)
        self._remote_changed(room.info.id)
        return is_listed

    def unlist_remote(self, life: str, room_id: str) -> None:
        """It lists the room no more."""
        if self.remote.remove(life, room_id):
            self._remote_changed(room_id)

    def _remote_changed(self, room_id: str) -> None:
        if room_id not in self._runners:
            # If it is here, that is the truth.
            self._put_remote(room_id)
            self.watches.changed(room_id)

    def _put_remote(self, room_id: str) -> None:
        remote = self.remote.get(room_id)
        if remote is not None:
            self._index.put(remote.info)
        else:
            self._index.remove(room_id)

    def row(self, room_id: str) -> RoomInfo | None:
        """A room's current row."""
        runner = self._runners.get(room_id)
        if runner is not None and runner in self._stale:
            self._refresh(runner)
        return self._index.row(room_id)

    # Refreshing rows

    def _refresh(self, runner: RoomRunner) -> None:
        del self._stale[runner]
        try:
            self._index.put(runner.entry.row())
        except Exception as error:  # noqa: BLE001 - a game broke its room's listing: other rooms can still be found
            self._index.remove(runner.room.id)
            self._faults.report("the entry of a room", error, room=runner.room.id, kind=runner.room.kind)

    def _refresh_some(self, count: int = _REFRESHED_AT_ONCE) -> None:
        for runner in list(islice(self._stale, count)):
            self._refresh(runner)

    def _catch_up(self) -> None:
        """Refresh rows in the background, so that the next search need not wait long."""
        self._refresh_some()
        self._is_catching_up = len(self._stale) > _REFRESHED_AT_ONCE
        if self._is_catching_up:
            self._slices.add(self._catch_up)

    async def _caught_up(self) -> int:
        """Wait for a turn to search, and until all rows are current; returns the number of the last change."""
        await self._slices.turn()
        return await self._refreshed()

    async def _refreshed(self) -> int:
        behind, touches = len(self._stale), self._touches
        while behind > _REFRESHED_AT_ONCE:
            self._refresh_some()
            behind -= _REFRESHED_AT_ONCE
            await self._slices.turn()
        self._refresh_some(behind)
        return touches

    # Searching

    def visible_to(self, player_id: PlayerId) -> Viewer:
        """What this player may find."""
        return Viewer(self._runners, self.remote, player_id)

    async def search(self, request: Search, viewer: Viewer | None) -> RoomPage:
        """Search in slices, so that no search blocks the event loop. Without a viewer, all rooms are visible."""
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
                info = self._whole(row.id) if viewer is None else viewer.show_listed(row.id)
                bytes_left -= size_of(info)
                if bytes_left < 0 and last is not None:
                    # As many as fit in one answer.
                    return RoomPage(rooms, query.cursor_after(last))
                rooms.append(info)
                last = row
            cursor, looked = found.cursor, looked + found.looked
            if len(rooms) >= request.limit or not cursor or looked >= self._limits.search_examined_max:
                is_empty = not rooms and not cursor and not request.cursor
                return RoomPage(rooms, cursor, self._index.why_empty(query, viewer) if is_empty else "")

    def _whole(self, room_id: str) -> RoomInfo:
        """A listed room as operators see it."""
        runner, remote = self._runners.get(room_id), self.remote.get(room_id)
        if runner is not None:
            return runner.entry.info(sees_code=True)
        assert remote is not None
        return remote.shown(sees_code=True)

    async def open_rows(self, wanted: Query) -> AsyncGenerator[RoomInfo]:
        """Rooms of all nodes that a new player might join without a password, oldest first, as they are listed."""
        query = Query(conjunction(*_OPEN, wanted.where), wanted.order, b"")
        cursor, looked = "", 0
        while looked < self._limits.search_examined_max:
            await self._caught_up()
            found = self._index.search(
                query,
                now=self._wall_clock(),
                limit=_OPENINGS_AT_ONCE,
                cursor=cursor,
                budget=self._limits.search_slice_max,
                visible=lambda row: row.visibility == "public",
            )
            for row in found.rows:
                yield row
            cursor, looked = found.cursor, looked + found.looked
            if not cursor:
                return

    def _known_opening(self, wanted: Query) -> RoomRunner | None:
        """The oldest opening, if that is known without a search: nearly always the one of before.

        Older rooms were not open when it was found, so only those that have changed since are looked at.
        """
        room, since = self._oldest_open.get(wanted.only_kind, (None, 0))
        if room is None or not self._is_open(room):
            return None
        changed = list(islice(self._touched_since(since), _CHANGED_MAX + 1))
        if len(changed) > _CHANGED_MAX:
            return None
        room = min(room, *(each for each in changed if each.kind == room.kind and self._is_open(each)), room, key=_age)
        self._oldest_open[room.kind] = room, self._touches
        return room

    def _is_open(self, runner: RoomRunner) -> bool:
        """Whether a new player might join it without a password, as its row would say."""
        listing = runner.context.listing
        try:
            runner.entry.check_numbers()
            is_open = runner.entry.open_seats > 0 and listing.visibility == "public" and listing.password is None
        except Exception:  # noqa: BLE001 - a game broke its room's listing: a search tells what is wrong
            return False
        return is_open and self._runners.get(runner.id) is runner

    async def openings(self, wanted: Query) -> AsyncGenerator[RoomRunner]:
        """Rooms that a new player might join without a password, oldest first; then those that changed meanwhile.

        Each is open when it is yielded, and after the last one there is no other: a caller that continues without an
        `await` may rely on it.
        """
        await self._slices.turn()
        known = self._known_opening(wanted)
        if known is not None:
            yield known
        query = Query(conjunction(*_OPEN, wanted.where), wanted.order, b"")
        cursor, looked = "", 0
        since = await self._refreshed()
        while True:
            found = self._index.search(
                query,
                now=self._wall_clock(),
                limit=_OPENINGS_AT_ONCE,
                cursor=cursor,
                budget=self._limits.search_slice_max,
                visible=self._is_public,
            )
            if found.rows and not looked and wanted.only_kind:
                self._oldest_open[wanted.only_kind] = self._runners[found.rows[0].id], since
            for row in found.rows:
                yield self._runners[row.id]
            cursor, looked = found.cursor, looked + found.looked
            if not cursor or looked >= self._limits.search_examined_max:
                break
            await self._caught_up()
        looked = 0
        while looked < self._limits.search_examined_max:
            changed = list(islice(self._opened_since(since), self._limits.search_slice_max))
            since, looked = self._touches, looked + len(changed)
            for number, runner in enumerate(changed, 1):
                current = self.row(runner.room.id)
                if current is not None and self._is_public(current) and query.matches(current, self._wall_clock()):
                    yield runner
                if number % _REFRESHED_AT_ONCE == 0:
                    await self._slices.turn()
            if len(changed) < _REFRESHED_AT_ONCE:
                # Nothing can have changed since.
                return

    def _opened_since(self, since: int) -> Iterator[RoomRunner]:
        return (runner for runner in self._touched_since(since) if runner.entry.open_seats > 0)

    def _touched_since(self, since: int) -> Iterator[RoomRunner]:
        """Rooms that have changed, the last one first."""
        touched = takewhile(lambda each: each[1] > since, reversed(self._touched.items()))
        return (runner for runner, _ in touched)

    def _is_public(self, row: RoomInfo) -> bool:
        runner = self._runners.get(row.id)
        return runner is not None and runner.context.listing.visibility == "public"

    # Watching

    async def watch(self, session: Session, request: Watch) -> RoomPage:
        """Begin a search that notifies of changes; returns the first results."""
        viewer = self.visible_to(session.player_id)
        watch = self.watches.begin(session, request.id, parse_query(request.where, (), kind=request.kind), viewer)
        try:
            page = await self.search(Search(request.kind, request.where, [], request.limit), viewer)
        except BaseException:
            with suppress(NotFound):
                self.watches.end(session, request.id)
            raise
        self.watches.found(watch, page.rooms)
        return page


def _age(runner: RoomRunner) -> tuple[float, str]:
    return runner.context.listing.created_at, runner.id
