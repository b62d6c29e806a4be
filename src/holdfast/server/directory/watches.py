"""Watched searches: the client is notified of rooms that enter the results, change, or leave them.

Changes are sent every `watch_s`, in rounds: each goes through the rooms that changed since the last round, in slices,
and notifies every watch that they concern. Changes during a round are sent in the next one.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from holdfast.core.addresses import AddressQuota, AddressShares
from holdfast.core.codec import JSON, MSGPACK
from holdfast.core.errors import NotFound, Throttled
from holdfast.core.limits import KIB
from holdfast.core.session import PlayerId, Session
from holdfast.schemas.frames import FRAME_HEAD_BYTES
from holdfast.schemas.room import RoomInfo
from holdfast.search import Query
from holdfast.server.context import Context
from holdfast.server.directory.remote_rows import RemoteRows
from holdfast.server.rooms.runner import RoomRunner

TellRooms = Callable[[Session, str, list[RoomInfo], list[str]], None]
"""Notifies the client of a watch, by its id, of the rooms that changed and of those that are gone."""

# Rooms of a round that are checked together.
_ROOMS_AT_ONCE = 32
# Sending one room costs as much as checking this many.
_TELLING_COSTS = 10
# How much longer these may be in protobuf than in JSON: the name of a property, a float, another value.
_PROPERTY_BYTES, _FLOAT_BYTES, _VALUE_BYTES = 6, 7, 2
# The size of a notice without the changed rooms: the ids of removed rooms, at most `_ROOMS_AT_ONCE`.
_REMOVED_BYTES = 2 * KIB


class Slices:
    """Long work, cut into slices: one in each iteration of the event loop, shared by all tasks that use it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_going = False

    def add(self, work: Callable[[], None]) -> None:
        """Run one slice when its turn comes."""
        self._waiting.append(work)
        if not self._is_going:
            self._is_going = True
            self._loop.call_soon(self._next)

    async def turn(self) -> None:
        """Wait for a turn; the slice is the code up to the next `await`."""
        turn: asyncio.Future[None] = self._loop.create_future()
        self.add(lambda: None if turn.done() else turn.set_result(None))
        await turn

    def _next(self) -> None:
        self._is_going = bool(self._waiting)
        if self._is_going:
            # Before the work, which may raise.
            self._loop.call_soon(self._next)
            self._waiting.popleft()()


class Viewer:
    """What one player may find: public rooms, and those they created or have a seat in."""

    __slots__ = ("_player_id", "_remote", "_runners")

    def __init__(self, runners: dict[str, RoomRunner], remote: RemoteRows, player_id: PlayerId) -> None:
        self._runners = runners
        self._remote = remote
        self._player_id = player_id

    def __call__(self, row: RoomInfo) -> bool:
        runner = self._runners.get(row.id)
        if runner is None:
            remote = self._remote.get(row.id)
            return remote is not None and (row.visibility == "public" or remote.knows(self._player_id))
        return runner.context.listing.visibility == "public" or self._knows(runner)

    def _knows(self, runner: RoomRunner) -> bool:
        """Whether the room is one of theirs: then its code is shown, too."""
        return (
            self._player_id == runner.context.listing.creator
            or runner.seats.of(self._player_id) is not None
            or self._player_id in runner.seats.reservations
        )

    def show_listed(self, room_id: str) -> RoomInfo:
        """A room of the index as the player sees it."""
        runner, remote = self._runners.get(room_id), self._remote.get(room_id)
        if runner is not None:
            return self.show(runner)
        assert remote is not None
        return remote.shown(sees_code=remote.knows(self._player_id))

    def show(self, runner: RoomRunner) -> RoomInfo:
        """The room as the player sees it, also when it has just ended."""
        return runner.entry.info(sees_code=self._knows(runner))


@dataclass(slots=True, eq=False)
class Watching:
    """A watched search, and the rooms that its client knows."""

    query: Query
    viewer: Viewer
    known: set[str] = field(default_factory=set)
    missed: dict[str, None] | None = field(default_factory=dict)
    """Rooms that changed while the first page is still being collected."""


class Watches:
    """The watched searches of one node."""

    def __init__(
        self,
        context: Context,
        shares: AddressShares,
        row: Callable[[str], RoomInfo | None],
        slices: Slices,
        tell_rooms: TellRooms,
    ) -> None:
        """`row` returns the current row of a room, by its id."""
        self._context = context
        self._row = row
        self._slices = slices
        self._tell_rooms = tell_rooms
        self._loop = context.clock.loop
        self._limits = context.limits
        self._notice_bytes_max = context.limits.payload_bytes_max - FRAME_HEAD_BYTES - _REMOVED_BYTES
        self._of: dict[Session, dict[str, Watching]] = {}
        self._count = 0
        self._quota: AddressQuota[tuple[Session, str]] = AddressQuota(shares)
        # Rooms that changed since the last round began.
        self._news: dict[str, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._round: Iterator[None] | None = None

    # Beginning and ending

    def begin(self, session: Session, watch_id: str, query: Query, viewer: Viewer) -> Watching:
        """Record changes from now on; `found` must follow."""
        mine = self._of.get(session, {})
        if watch_id not in mine:
            if len(mine) >= self._limits.watches_per_session_max:
                raise Throttled(f"this session watches {len(mine)} searches already: end one first")
            if self._count >= self._limits.watches_max:
                raise Throttled("this node watches too many searches; try again later")
            if self._quota.is_full(session.address, self._limits.watches_max):
                self._context.alarms.report(
                    *("address_share", "refused"),
                    session=session.id,
                    player=session.player_id,
                    player_name=session.name,
                    address=session.address,
                )
                raise Throttled("too many searches are watched from your address: end one first")
        watch = Watching(query, viewer)
        if session.connection is not None:
            # Otherwise the session has dropped, and watches again when it returns.
            self._count += watch_id not in mine
            self._quota.take((session, watch_id), session.address)
            mine[watch_id] = watch
            self._of[session] = mine
        return watch

    def found(self, watch: Watching, rooms: list[RoomInfo]) -> None:
        """The first results, as sent to the client."""
        watch.known.update(info.id for info in rooms)
        missed, watch.missed = watch.missed, None
        for room_id in missed or ():
            self.changed(room_id)

    def end(self, session: Session, watch_id: str) -> None:
        mine = self._of.get(session, {})
        if mine.pop(watch_id, None) is None:
            raise NotFound(f"this session watches no search with the id {watch_id!r}")
        self._count -= 1
        self._quota.give_back((session, watch_id))
        if not mine:
            del self._of[session]

    def has(self, session: Session) -> bool:
        """Whether the session watches a search."""
        return session in self._of

    def dropped(self, session: Session) -> None:
        """End all watches of a session."""
        mine = self._of.pop(session, {})
        self._count -= len(mine)
        for watch_id in mine:
            self._quota.give_back((session, watch_id))

    # Notifying

    def changed(self, room_id: str) -> None:
        """A room may have changed."""
        if self._of:
            self._news[room_id] = None
            if self._timer is None and self._round is None:
                self._timer = self._loop.call_later(self._limits.watch_s, self._begin_round)

    def _begin_round(self) -> None:
        self._timer = None
        news, self._news = list(self._news), {}
        self._round = self._notify_all(news)
        self._slices.add(self._continue_round)

    def _continue_round(self) -> None:
        assert self._round is not None
        try:
            next(self._round)
        except StopIteration:
            pass
        except Exception as error:  # noqa: BLE001 - our bug: logged, counted, contained in this round
            self._context.faults.report("notifying watches", error)
        else:
            self._slices.add(self._continue_round)
            return
        self._round = None
        news, self._news = self._news, {}
        for room_id in news:
            self.changed(room_id)

    def _notify_all(self, news: list[str]) -> Iterator[None]:
        """Notify all watches; each `yield` ends a slice."""
        for start in range(0, len(news), _ROOMS_AT_ONCE):
            room_ids = news[start : start + _ROOMS_AT_ONCE]
            rows = self._rows(room_ids)
            left = self._limits.search_slice_max
            all_watches = [(session, *each) for session, mine in self._of.items() for each in mine.items()]
            for session, watch_id, watch in all_watches:
                if left <= 0:
                    yield
                    rows = self._rows(room_ids)
                    left = self._limits.search_slice_max
                if self._of.get(session, {}).get(watch_id) is watch:
                    told = self._notify(session, watch_id, watch, rows)
                    left -= watch.query.cost * len(rows) + _TELLING_COSTS * told
            yield

    def _rows(self, room_ids: list[str]) -> dict[str, RoomInfo | None]:
        return {room_id: self._row(room_id) for room_id in room_ids}

    def _notify(self, session: Session, watch_id: str, watch: Watching, rows: dict[str, RoomInfo | None]) -> int:
        """Notify one watch; returns the number of rooms sent."""
        if watch.missed is not None:
            watch.missed.update(dict.fromkeys(rows))
            return 0
        now = self._context.clock.wall_clock()
        changed: list[RoomInfo] = []
        removed: list[str] = []
        for room_id, row in rows.items():
            is_known = room_id in watch.known
            if not is_known and len(watch.known) >= self._limits.watch_rooms_max:
                continue
            if row is not None and watch.query.matches(row, now) and watch.viewer(row):
                watch.known.add(room_id)
                changed.append(watch.viewer.show_listed(room_id))
            elif is_known:
                watch.known.discard(room_id)
                removed.append(room_id)
        self._send(session, watch_id, changed, removed)
        return len(changed) + len(removed)

    def _send(self, session: Session, watch_id: str, changed: list[RoomInfo], removed: list[str]) -> None:
        part: list[RoomInfo] = []
        bytes_left = self._notice_bytes_max
        for info in changed:
            size = size_of(info)
            if size > bytes_left and part:
                self._tell_rooms(session, watch_id, part, [])
                part, bytes_left = [], self._notice_bytes_max
            part.append(info)
            bytes_left -= size
        if part or removed:
            self._tell_rooms(session, watch_id, part, removed)


def size_of(info: RoomInfo) -> int:
    """The size of a room in an answer or a notice, in the largest of the codecs."""
    # Protobuf has no names of fields; only the properties, which it does not know, may be longer than in JSON.
    protobuf = len(JSON.encode(info))
    for value in info.properties.values():
        values = value if isinstance(value, list) else (value,)
        protobuf += _PROPERTY_BYTES + sum(_FLOAT_BYTES if isinstance(each, float) else _VALUE_BYTES for each in values)
    return max(protobuf, len(MSGPACK.encode(info))) + 1
