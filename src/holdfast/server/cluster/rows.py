"""The rooms of all nodes in the index of each: every node tells the others what changed among its own.

    a room changes → within `rows_s` it is told, with a number → the others put it into their index
    a number is missing, or a beat has a higher one → all rows of that node are asked for, in pages

Rows belong to a life and go with it; the durable rooms of a dead node stay listed for a while, without open seats,
until the node that takes them over lists them itself.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

import msgspec
from msgspec.structs import replace

from holdfast.cluster.membership import MemberChange, MemberState
from holdfast.cluster.port import Bus, BusError
from holdfast.core.errors import Refused
from holdfast.core.limits import Limits
from holdfast.logs import get_logger
from holdfast.schemas.rows import NumberedRow, RoomRow, RowsAsked, RowsPage, RowsTold
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.directory.remote_rows import RemoteRow
from holdfast.server.directory.room_index import RoomIndex
from holdfast.server.durability.persistence import StorePersistence
from holdfast.server.rooms.runner import RoomRunner

log = get_logger("holdfast.cluster")

ROWS = "rows"
"""The topic, and the name of the question."""
RECOVERING = "recovering"
"""The status of a durable room whose node is gone, until another one has it."""

# With the largest row it fits into 64 KiB, the smallest message that a store on NATS accepts.
_MESSAGE_BYTES_MAX = 32 * 1024
_ROWS_AT_ONCE = 64

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(RowsTold)


class RowTeller:
    """Tells the other nodes what changed among the rooms of this one."""

    def __init__(self, node: ClusterNode, index: RoomIndex, limits: Limits) -> None:
        self._life = node.life
        self._bus: Bus = node.bus
        self._index = index
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self.number = 0
        """Of what was told last."""
        # By room, the number with which it was told last, and a hash of what was told.
        self._told: dict[str, tuple[int, int]] = {}
        self._changed: dict[str, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._telling: asyncio.Task[None] | None = None
        self._is_stopped = False
        node.questions.answer(ROWS, RowsAsked, self._page)
        index.on_change.append(self._room_changed)

    def stop(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._telling is not None:
            self._telling.cancel()

    def _room_changed(self, room_id: str) -> None:
        self._changed[room_id] = None
        if self._timer is None and self._telling is None and not self._is_stopped:
            self._timer = self._loop.call_later(self._limits.rows_s, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._telling = self._loop.create_task(self._tell())
        self._telling.add_done_callback(self._has_told)

    def _has_told(self, task: asyncio.Task[None]) -> None:
        self._telling = None
        if not task.cancelled():
            task.result()
            if self._changed:
                self._timer = self._loop.call_later(self._limits.rows_s, self._begin)

    async def _tell(self) -> None:
        while self._changed:
            rows: list[RoomRow] = []
            removed: list[str] = []
            size = 0
            for room_id in list(islice(self._changed, _ROWS_AT_ONCE)):
                if size >= _MESSAGE_BYTES_MAX:
                    break
                del self._changed[room_id]
                row = self._row(room_id)
                if row is None:
                    if self._told.pop(room_id, None) is not None:
                        removed.append(room_id)
                        size += len(room_id)
                    continue
                encoded = _encode(row)
                if self._told.get(room_id, (0, 0))[1] != hash(encoded):
                    self._told[room_id] = (self.number + 1, hash(encoded))
                    rows.append(row)
                    size += len(encoded)
            if rows or removed:
                self.number += 1
                await self._bus.tell(f"{ROWS}.{self._life}", _encode(RowsTold(self._life, self.number, rows, removed)))
            else:
                await asyncio.sleep(0)

    def _row(self, room_id: str) -> RoomRow | None:
        runner = self._index.runner(room_id)
        info = self._index.row(room_id) if runner is not None else None
        if runner is None or info is None:
            return None
        epoch = runner.persistence.writer.epoch if isinstance(runner.persistence, StorePersistence) else 0
        return RoomRow(
            info,
            runner.context.listing.code,
            epoch,
            runner.persistence.survives_stop,
            list(islice(_members(runner), self._limits.row_members_max)) if info.visibility == "private" else [],
        )

    def row(self, room_id: str) -> NumberedRow | None:
        """A room of this node as it is now; None if it is not listed."""
        row = self._row(room_id)
        return NumberedRow(self.number, row) if row is not None else None

    def _page(self, asked: RowsAsked) -> RowsPage:
        page: list[NumberedRow] = []
        size = 0
        # Few ask for all rows: new nodes, and those that have lost their link.
        for room_id in sorted(each for each in self._told if each > asked.after):
            if size >= _MESSAGE_BYTES_MAX:
                return RowsPage(self.number, page, page[-1].row.info.id)
            row = self._row(room_id)
            if row is not None:
                page.append(NumberedRow(self._told[room_id][0], row))
                size += len(_encode(row))
        return RowsPage(self.number, page)


def _members(runner: RoomRunner) -> Iterator[str]:
    """The players to whom a private room is shown."""
    yield from (seat.player_id for seat in runner.seats if not seat.agent)
    yield from runner.seats.reservations


@dataclass(slots=True)
class _ToldBy:
    """What one other node has told."""

    number: int = 0
    rooms: set[str] = field(default_factory=set)
    has_hole: bool = True
    """Something that it told was missed: its rows are to be asked for."""
    reading: asyncio.Task[None] | None = None
    seen: set[str] = field(default_factory=set)
    """While its rows are read: those that it has."""
    removed: dict[str, int] = field(default_factory=dict)
    """While its rows are read: what it has removed meanwhile, and with which number."""
    was_ahead: bool = False
    """Its last beat had a higher number than what was heard: a beat may overtake what is told."""
    forgetting: asyncio.TimerHandle | None = None
    """It is gone; then its durable rooms are listed no more."""


class RowListener:
    """Lists the rooms of the other nodes here."""

    def __init__(self, node: ClusterNode, index: RoomIndex, limits: Limits) -> None:
        self._node = node
        self._index = index
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._lives: dict[str, _ToldBy] = {}
        self._looking: asyncio.Task[None] | None = None
        self._is_full = False
        self.on_row: list[Callable[[RemoteRow], None]] = []
        """Another node lists a room, or has changed its row."""
        node.watch.on_change.append(self._member_changed)

    async def start(self) -> None:
        """Hear what the others tell. The bus is open already."""
        await self._node.bus.listen(f"{ROWS}.*", self._heard)
        self._looking = self._loop.create_task(self._look())

    def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        for life in self._lives.values():
            if life.reading is not None:
                life.reading.cancel()
            if life.forgetting is not None:
                life.forgetting.cancel()

    def is_complete(self) -> bool:
        """Whether the rows of all nodes that live are here, as far as is known."""
        members = self._node.watch.membership.members
        return not any(
            state is None or state.has_hole or state.reading is not None
            for life, member in members.items()
            if member.state is MemberState.ALIVE
            for state in [self._lives.get(life)]
        )

    def durable_rooms_of(self, life: str) -> dict[str, str] | None:
        """The durable rooms that a node has listed here, and their kinds; None if something of it was missed."""
        state = self._lives.get(life)
        member = self._node.watch.membership.members.get(life)
        if state is None or member is None or state.has_hole or state.reading is not None or self._is_full:
            return None
        if member.beat.rows > state.number:
            return None
        listed = (self._index.remote.row_of(life, room_id) for room_id in state.rooms)
        return {row.info.id: row.info.kind for row in listed if row is not None and row.row.is_durable}

    # What is told

    def _heard(self, _: str, payload: bytes) -> None:
        try:
            told = _decode.decode(payload)
        except msgspec.MsgspecError as error:
            log.warning("the rows of another node cannot be read", error=str(error))
            return
        if told.life == self._node.life or not self._node.may_live(told.life):
            return
        state = self._life(told.life)
        if told.number != state.number + 1:
            state.has_hole = True
        state.number = max(state.number, told.number)
        for row in told.rows:
            state.seen.add(row.info.id)
            self._put(told.life, state, row, told.number)
        for room_id in told.removed:
            self._remove(told.life, state, room_id)
            if state.reading is not None:
                state.removed[room_id] = told.number
        if state.has_hole:
            self._read(told.life, state)

    def _life(self, life: str) -> _ToldBy:
        state = self._lives.get(life)
        if state is None:
            state = self._lives[life] = _ToldBy()
        return state

    def _put(self, life: str, state: _ToldBy, row: RoomRow, number: int) -> None:
        room_id = row.info.id
        known = self._index.remote.row_of(life, room_id)
        if known is not None and known.number > number:
            return
        remote = RemoteRow(life, row, number)
        if self._index.list_remote(remote):
            state.rooms.add(room_id)
            for heard in self.on_row:
                heard(remote)
        elif not self._is_full:
            self._is_full = True
            log.warning("not all rooms of the other nodes can be listed here: raise Limits.remote_rooms_max")

    def _remove(self, life: str, state: _ToldBy, room_id: str) -> None:
        state.rooms.discard(room_id)
        self._index.unlist_remote(life, room_id)

    def heard_row(self, life: str, row: NumberedRow) -> None:
        """Another node has shown one of its rooms in an answer, perhaps before it has told of it."""
        if self._node.may_live(life):
            state = self._life(life)
            state.seen.add(row.row.info.id)
            self._put(life, state, row.row, row.number)

    # What was missed

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self._limits.beat_s)
            for life, member in list(self._node.watch.membership.members.items()):
                if member.state is not MemberState.ALIVE:
                    continue
                state = self._life(life)
                is_ahead = member.beat.rows > state.number
                if state.has_hole or (is_ahead and state.was_ahead):
                    self._read(life, state)
                state.was_ahead = is_ahead

    def _read(self, life: str, state: _ToldBy) -> None:
        if state.reading is None:
            state.has_hole = True
            state.reading = self._loop.create_task(self._read_all(life, state))

    async def _read_all(self, life: str, state: _ToldBy) -> None:
        """Read all rows of a node; whatever is missed meanwhile, the next look notices."""
        try:
            while state.has_hole and self._node.may_live(life):
                state.has_hole = False
                state.seen.clear()
                state.removed.clear()
                with suppress(BusError, Refused):
                    await self._read_once(life, state)
                    continue
                state.has_hole = True
                await asyncio.sleep(self._limits.beat_s)
        finally:
            state.reading = None
            state.seen.clear()
            state.removed.clear()

    async def _read_once(self, life: str, state: _ToldBy) -> None:
        after, first = "", None
        while True:
            page = await self._node.questions.ask(life, ROWS, RowsAsked(after), RowsPage)
            first = page.number if first is None else first
            for each in page.rows:
                room_id = each.row.info.id
                if state.removed.get(room_id, -1) < each.number:
                    state.seen.add(room_id)
                    self._put(life, state, each.row, each.number)
            if not page.after:
                break
            after = page.after
        state.number = max(state.number, first)
        for room_id in state.rooms - state.seen:
            self._remove(life, state, room_id)

    # When a node is gone, or is back

    def _member_changed(self, change: MemberChange) -> None:
        if change.after in {MemberState.DEAD, MemberState.LEFT}:
            self._gone(change.life)
        elif change.after is MemberState.ALIVE and change.before is not MemberState.SUSPECT:
            state = self._life(change.life)
            if state.forgetting is not None:
                state.forgetting.cancel()
                state.forgetting = None
            self._read(change.life, state)

    def _gone(self, life: str) -> None:
        state = self._lives.get(life)
        if state is None:
            return
        if state.reading is not None:
            state.reading.cancel()
        for room_id in list(state.rooms):
            known = self._index.remote.row_of(life, room_id)
            if known is not None and known.row.is_durable:
                info = replace(known.info, status=RECOVERING, open_seats=0)
                self._put(life, state, replace(known.row, info=info), known.number)
            else:
                self._remove(life, state, room_id)
        if state.forgetting is None:
            state.forgetting = self._loop.call_later(self._limits.recovering_s, self._forget, life)

    def _forget(self, life: str) -> None:
        state = self._lives.pop(life)
        for room_id in list(state.rooms):
            self._remove(life, state, room_id)
