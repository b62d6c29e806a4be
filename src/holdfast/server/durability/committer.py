"""Group commit: everything durable that changed on this server is saved in one call of the store, one call at a time.

    a turn ends → `turn_ended` marks the room → `_cut` takes a snapshot of every marked room between two turns, with its
    staged messages and acknowledgements, and of every changed session → the store writes all of them → `_committed`
    releases the outlets, which wake the connections

When little happens a commit begins at once; under load it waits a few milliseconds for more changes. Messages and
acknowledgements leave once their commit has succeeded, and not before (R3).
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from holdfast.core.errors import NotFound, Refused
from holdfast.core.messages import SeatLeft
from holdfast.core.reasons import Reason
from holdfast.core.records import room_key
from holdfast.core.session import Session
from holdfast.logs import get_logger
from holdfast.observability.metrics import Metrics
from holdfast.schemas.events import RoomReleased
from holdfast.server.context import Context
from holdfast.server.durability.gated_turns import CurrentTurn
from holdfast.server.durability.room_writer import RoomWriter, SavedSend, settle
from holdfast.server.durability.session_writers import SessionWriter, SessionWriters, linked
from holdfast.server.sessions import SessionLifecycle
from holdfast.stores.port import ABSENT, Broken, Entry, RevisionConflict, Store, Unavailable, Unknown, Write

log = get_logger("holdfast.server")

# The weight of the last pause between two commits in the moving average, and the longest pause that counts.
_PAUSE_GAIN = 0.25
_PAUSE_MAX_S = 1.0
# Batches without a clear outcome that are looked for in the store at the same time.
_READ_BACK_MAX = 32
# Messages that are deleted in one batch.
_DISCARDED_MAX = 500


class PendingBatch:
    """A room and its sessions, or one session alone: written whole, or not at all.

    Several rooms if a session has moved in more than one: it left a seat in one, and a spectator's place in another.
    """

    __slots__ = ("rooms", "sessions", "writes")

    def __init__(self) -> None:
        self.rooms: dict[RoomWriter, int] = {}
        """Each with the number of its writes, which come before those of the sessions."""
        self.writes: list[Write] = []
        self.sessions: dict[SessionWriter, int] = {}

    @property
    def size(self) -> int:
        return sum(len(write.value) for write in self.writes if write.value is not None)

    def add_room(self, room: RoomWriter, writes: list[Write]) -> None:
        self.writes += writes
        self.rooms[room] = len(writes)

    def add(self, session: SessionWriter) -> None:
        writes = session.cut()
        self.writes += writes
        self.sessions[session] = len(writes)

    def committed(self, revisions: list[int]) -> None:
        """The store has it all. The room first: its messages and the replies to its sessions are flushed together."""
        position = 0
        for room, count in self.rooms.items():
            room.committed(revisions[position : position + count])
            position += count
        for session, count in self.sessions.items():
            session.committed(revisions[position] if count else ABSENT)
            position += count

    def fenced(self, found: list[int]) -> set[RoomWriter | SessionWriter]:
        """The rooms and sessions that another server has written, given the revisions that the store has now."""
        is_foreign = [revision != write.revision for revision, write in zip(found, self.writes, strict=True)]
        fenced: set[RoomWriter | SessionWriter] = set()
        position = 0
        counts: list[tuple[RoomWriter | SessionWriter, int]] = [*self.rooms.items(), *self.sessions.items()]
        for each, count in counts:
            if any(is_foreign[position : position + count]):
                fenced.add(each)
            position += count
        return fenced


@dataclass(frozen=True, slots=True)
class FencedRoom:
    """A room that this server has lost, because another one has written it or one of its sessions."""

    id: str
    is_elsewhere: bool
    """Another server has the room. If not, it is to be read again: only what was not saved is lost."""
    sessions: list[str]
    """The sessions that were lost with it and are not known to be elsewhere."""


class Committer:
    """Collects what changed, and saves it."""

    def __init__(  # noqa: PLR0915 - its state
        self,
        context: Context,
        store: Store,
        *,
        lifecycle: SessionLifecycle,
        metrics: Metrics,
        fatal: Callable[[Exception], None],
    ) -> None:
        """`fatal` is called when this process must not continue."""
        self._loop = context.clock.loop
        self._now = context.clock.now
        self._limits = limits = context.limits
        self._metrics = metrics
        self._counters = context.counters
        self._faults = context.faults
        self._publish = context.publish
        self._fatal = fatal
        self.store = store
        self.sessions = SessionWriters(
            context.clock, lifecycle, store_patience_s=limits.store_patience_s, save=self._save_session
        )
        self.current_turn = CurrentTurn()
        self._discarded: list[SavedSend] = []
        """Messages to sessions that nobody needs in the store any more."""
        self.is_failing = False
        """The store has refused for so long that durable rooms stand still."""
        self._rooms: dict[RoomWriter, None] = {}
        self._dirty_rooms: dict[RoomWriter, None] = {}
        self._paused: list[RoomWriter] = []
        self._checkpoints: dict[RoomWriter, asyncio.TimerHandle] = {}
        self._turns = 0
        self._cut_at = 0.0
        self._pause_s = _PAUSE_MAX_S
        self._next_cut: asyncio.TimerHandle | asyncio.Handle | None = None
        self._in_flight: asyncio.Task[None] | None = None
        self._writing: frozenset[SessionWriter | RoomWriter] = frozenset()
        """What is in the commit that is in flight."""
        self._settling: list[asyncio.Future[None]] = []
        self._is_refused = False
        self._has_begun = False
        self._is_final = False
        self._all_saved: asyncio.Future[None] | None = None
        self._watch: asyncio.Task[None] | None = None

        self.on_cut: list[Callable[[list[str]], None]] = []
        """A commit begins with the changes of these rooms."""
        self.on_committed: list[Callable[[str], None]] = []
        """The store has the changes of this room, which are about to leave."""
        self.on_removed: list[Callable[[str], None]] = []
        """This room is not saved here any more."""
        self.on_foreign: list[Callable[[list[Entry]], None]] = []
        """Another server has written these rooms after this one had saved them."""
        self.on_session_lost: Callable[[Session], None] = lambda _: None
        """Another server has written this session."""
        self.on_rooms_lost: Callable[[list[FencedRoom]], None] = lambda _: None
        """Another server has written one of these rooms, or one of their sessions: they were to be saved together."""

    # Rooms

    def add(self, room: RoomWriter) -> None:
        self._rooms[room] = None
        if self.is_failing:
            room.turns.freeze()

    def remove(self, room: RoomWriter) -> None:
        """Save the room no more: another server has it, or it has ended."""
        self._rooms.pop(room, None)
        self._dirty_rooms.pop(room, None)
        if (timer := self._checkpoints.pop(room, None)) is not None:
            timer.cancel()
        for heard in self.on_removed:
            heard(room.room_id)
        room.removed()

    @property
    def room_ids(self) -> set[str]:
        """The rooms that are saved here, also those that are only just being created."""
        return {room.room_id for room in self._rooms}

    def is_claimed(self, room_id: str) -> bool:
        """Whether the store has a record of this room that was written here."""
        return any(room.room_id == room_id and room.is_claimed for room in self._rooms)

    def turn_ended(self, room: RoomWriter) -> None:
        """A room took a turn: save it with the next commit, or with its next checkpoint."""
        self._turns += 1
        if room.is_dirty or room.checkpoint_s is None:
            self.mark(room)
        elif room not in self._checkpoints:
            self._checkpoints[room] = self._loop.call_later(room.checkpoint_s, self._checkpoint, room)

    def _checkpoint(self, room: RoomWriter) -> None:
        self._checkpoints.pop(room, None)
        self.mark(room)

    def mark(self, room: RoomWriter) -> None:
        """Save a room with the next commit."""
        if not room.is_dirty:
            if room not in self._rooms:
                return
            room.is_dirty = True
            self._dirty_rooms[room] = None
        # Also for one that is marked: the last cut may have skipped it in the middle of a turn.
        if self._in_flight is None and self._next_cut is None:
            self._schedule()

    def _save_session(self, home: RoomWriter | None) -> None:
        if home is not None:
            self.mark(home)
        self._schedule()

    def consumed(self, session: Session, send: SavedSend) -> None:
        """The session has these messages: its record will have them, and they are deleted in the same batch."""
        if not self.sessions.consumed(session, send):
            self.discard(send)

    def discard(self, send: SavedSend) -> None:
        """Delete messages to a session that is gone, or does not outlive this process."""
        self._discarded.append(send)
        self._schedule()

    def confirm_rooms(self) -> None:
        """Save every room once more: those that another server has taken over, unnoticed, are lost now."""
        for room in list(self._rooms):
            self.mark(room)

    def saved(self, room: RoomWriter) -> asyncio.Future[None]:
        """Save a room as it is; done when the store has it."""
        done = self._loop.create_future()
        room.waiters.append(done)
        if room in self._rooms:
            self.mark(room)
        else:
            room.removed()
        return done

    async def saved_without(self, session: Session) -> None:
        """Wait until the rooms that the session has just left are saved without it."""
        writer = self.sessions.of(session)
        for home in writer.left() if writer is not None else ():
            if home in self._rooms:
                with contextlib.suppress(Refused):
                    await self.saved(home)

    async def settled(self, session: Session) -> int:
        """Wait until nothing of the session is on its way to the store; the revision of its record, or `ABSENT`."""
        while (writer := self.sessions.of(session)) is not None:
            if writer not in self.sessions.dirty and writer not in self._writing:
                return writer.revision
            waiter = self._loop.create_future()
            self._settling.append(waiter)
            self._schedule()
            await waiter
        return ABSENT

    async def at_rest(self, room: RoomWriter) -> None:
        """Wait until nothing of the room is on its way to the store."""
        while room in self._dirty_rooms or room in self._writing:
            waiter = self._loop.create_future()
            self._settling.append(waiter)
            self._schedule()
            await waiter

    def seal(self, sessions: Iterable[Session]) -> None:
        """Write these sessions no more for the moment: another node is about to have them."""
        for session in sessions:
            if (writer := self.sessions.of(session)) is not None:
                self.sessions.sealed.add(writer)

    def unseal(self, sessions: Iterable[Session]) -> None:
        """They stay here: write them again, at once."""
        for session in sessions:
            if (writer := self.sessions.of(session)) is not None:
                self.sessions.sealed.discard(writer)
                self.sessions.changed(session)
        self._schedule()

    # A commit

    def begin(self) -> None:
        """Write from now on."""
        self._has_begun = True
        self._watch = self._loop.create_task(self._watch_for_failure())
        self._schedule()

    def _schedule(self) -> None:
        if not self._has_begun or self._in_flight is not None or self._next_cut is not None:
            return
        wait_s = 0.0
        # At once, unless recent commits came so quickly that it pays to wait for more changes.
        if self._pause_s < 2 * self._limits.commit_s and self._turns < self._limits.commit_turns_max:
            wait_s = self._cut_at + self._limits.commit_s - self._now()
        cut = self._cut
        self._next_cut = self._loop.call_later(wait_s, cut) if wait_s > 0 else self._loop.call_soon(cut)

    def _cut(self) -> None:
        self._next_cut = None
        batches = self._cut_batches()
        if not batches:
            self._check_all_saved()
        else:
            now = self._now()
            self._pause_s += _PAUSE_GAIN * (min(now - self._cut_at, _PAUSE_MAX_S) - self._pause_s)
            self._cut_at = now
            self._turns = 0
            for heard in self.on_cut:
                heard([room.room_id for batch in batches for room in batch.rooms])
            self._writing = frozenset().union(
                *(batch.sessions for batch in batches), *(batch.rooms for batch in batches)
            )
            self._in_flight = self._loop.create_task(self._commit(batches))
        # Only once the commit is in flight: the turns that have waited belong to the next one.
        paused, self._paused = self._paused, []
        for room in paused if not self.is_failing and not self._is_final else ():
            room.unpause()

    def _cut_batches(self) -> list[PendingBatch]:
        """Snapshots of what can be saved now. A room in the middle of a turn is saved after it."""
        batches: list[PendingBatch] = []
        of_room: dict[RoomWriter, PendingBatch] = {}
        size = 0
        # In batches of some size: a store may have a limit for one.
        for start in range(0, len(self._discarded), _DISCARDED_MAX):
            batch = PendingBatch()
            sends = self._discarded[start : start + _DISCARDED_MAX]
            batch.writes += [Write(send.key, None, send.revision) for send in sends]
            batches.append(batch)
        self._discarded.clear()
        links = self.sessions.links()
        for room in list(self._dirty_rooms):
            if room not in self._dirty_rooms:
                # It was cut together with another.
                continue
            if room.is_sealed:
                continue
            together = [each for each in linked(room, links) if each in self._rooms] if links else [room]
            if not all(each.is_at_rest and not each.is_sealed for each in together):
                # Otherwise turn could follow turn without any of them being saved.
                for each in together:
                    each.pause()
                continue
            if len(batches) >= self._limits.commit_batches_max or size >= self._limits.commit_bytes_max:
                break
            batch = PendingBatch()
            for each in together:
                self._cut_room(each, batch)
            of_room |= dict.fromkeys(batch.rooms, batch)
            if batch.rooms:
                batches.append(batch)
                size += batch.size
        self._cut_sessions(batches, of_room)
        return batches

    def _cut_sessions(self, batches: list[PendingBatch], of_room: dict[RoomWriter, PendingBatch]) -> None:
        """Add the sessions: to the batch of a room that they moved in, have their seat in or watch, or to their own."""
        for session in list(self.sessions.dirty):
            if session in self.sessions.sealed:
                continue
            # A session is claimed together with its rooms: what its client is told is read of them.
            unclaimed = [room for room in (session.home, session.watched) if room is not None and not room.is_claimed]
            needed = [room for room in (*session.moved, *unclaimed) if room in self._rooms]
            homes = [room for room in (*needed, session.home, session.watched) if room in of_room]
            if any(room not in of_room for room in needed):
                if self._is_final:
                    # They take no turn any more that would have them saved.
                    for room in [each for each in needed if not each.is_dirty and not each.is_unsavable]:
                        self.mark(room)
                continue
            if not homes and len(batches) >= self._limits.commit_batches_max:
                continue
            if not homes:
                batches.append(PendingBatch())
            del self.sessions.dirty[session]
            (of_room[homes[0]] if homes else batches[-1]).add(session)

    def _cut_room(self, room: RoomWriter, batch: PendingBatch) -> None:
        self._dirty_rooms.pop(room, None)
        room.is_dirty = False
        self._paused.append(room)
        try:
            batch.add_room(room, room.cut(is_final=self._is_final or room.is_leaving))
        except Exception as error:  # noqa: BLE001 - the game's state, which cannot be saved as it is
            room.cannot_be_saved(error)

    async def _commit(self, batches: list[PendingBatch]) -> None:
        patience = self._loop.call_later(self._limits.store_patience_s, self._stall)
        began_at, count = self._now(), len(batches)
        try:
            await self._write(batches)
        except Broken as error:
            self.broken(error)
            return
        except Exception as error:  # noqa: BLE001 - our bug; to continue would be worse than to stop
            self._faults.report("commit", error)
            self._fatal(error)
            return
        finally:
            patience.cancel()
        self._metrics.commit.observe(self._now() - began_at)
        self._metrics.commit_batches.observe(count)
        self._in_flight = None
        self._writing = frozenset()
        settling, self._settling = self._settling, []
        for waiter in settling:
            settle(waiter, None)
        if self._dirty_rooms or self.sessions.dirty or self._discarded:
            self._schedule()
        self._check_all_saved()

    async def _write(self, batches: list[PendingBatch]) -> None:
        """Write batches until each is committed or fenced (R4)."""
        while batches:
            unclear: list[PendingBatch] = []
            try:
                async with asyncio.timeout(self._limits.commit_timeout_s):
                    results = await self.store.commit([batch.writes for batch in batches])
            except Unavailable as error:
                self._refused(error)
            except (Unknown, TimeoutError) as error:
                self._refused(error)
                unclear = batches
            else:
                self._accepted()
                for batch, result in zip(batches, results, strict=True):
                    if isinstance(result, RevisionConflict):
                        # Perhaps with an earlier attempt that had no answer.
                        unclear.append(batch)
                    else:
                        self._committed(batch, result)
                batches = []
            if unclear:
                batches = await self._read_back_all(unclear)
                if not batches:
                    self._accepted()
            if batches:
                await asyncio.sleep(self._limits.store_retry_s)

    async def _read_back_all(self, batches: list[PendingBatch]) -> list[PendingBatch]:
        """Those that were not written. Many at a time: after a failure of the store there may be hundreds."""
        limit = asyncio.Semaphore(_READ_BACK_MAX)

        async def read_back(batch: PendingBatch) -> bool:
            async with limit:
                return await self._read_back(batch)

        tasks = [self._loop.create_task(read_back(batch)) for batch in batches]
        try:
            found = await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise
        return [batch for batch, is_settled in zip(batches, found, strict=True) if not is_settled]

    async def _read_back(self, batch: PendingBatch) -> bool:
        """Find out what became of a batch, and act on it; False if it was not written."""
        before: list[int] | None = None
        while True:
            entries = await self._read_all(batch)
            values = [entry.value if entry is not None else None for entry in entries]
            revisions = [entry.revision if entry is not None else ABSENT for entry in entries]
            if values == [write.value for write in batch.writes]:
                self._committed(batch, revisions)
                return True
            if revisions == [write.revision for write in batch.writes]:
                return False
            if any(ABSENT < found < write.revision for found, write in zip(revisions, batch.writes, strict=True)):
                # Revisions only grow: this was read from a server that is cut off from the others, and proves nothing.
                self._refused(Unavailable("it has something older than it acknowledged"))
                await asyncio.sleep(self._limits.store_retry_s)
                continue
            if revisions == before:
                claimed = {room_key(room.room_id) for room in batch.rooms if room.is_claimed}
                for heard in self.on_foreign:
                    heard([entry for entry in entries if entry is not None and entry.key in claimed])
                self._fenced(batch, revisions)
                return True
            # A store may still have carried it out while it was read. What stays as it is, is another server's.
            before = revisions

    async def _read_all(self, batch: PendingBatch) -> list[Entry | None]:
        """What the store has for each write of the batch, one after the other."""
        entries: list[Entry | None] = []
        while len(entries) < len(batch.writes):
            try:
                async with asyncio.timeout(self._limits.commit_timeout_s):
                    entries.append(await self.store.get(batch.writes[len(entries)].key))
            except (Unavailable, Unknown, TimeoutError) as error:
                self._refused(error)
                # From the beginning: what was read before may have changed.
                entries.clear()
                await asyncio.sleep(self._limits.store_retry_s)
        return entries

    # Its outcome

    def _committed(self, batch: PendingBatch, revisions: list[int]) -> None:
        for room in batch.rooms:
            for heard in self.on_committed:
                heard(room.room_id)
        batch.committed(revisions)
        for session in batch.sessions:
            for send in self.sessions.committed(session):
                self.discard(send)
        for room in batch.rooms:
            if room.is_gone:
                self.remove(room)

    def _fenced(self, batch: PendingBatch, found: list[int]) -> None:
        """Another server has written something of the batch: what has not left this server never happened."""
        fenced = batch.fenced(found)
        lost = dict.fromkeys(batch.sessions)
        for room in batch.rooms:
            self.remove(room)
            lost |= dict.fromkeys(self.sessions.at(room))
        # The seat of a spectator is in a room that is still ours: only what they watch is lost.
        stay = [each for each in lost if each not in fenced and each.home in self._rooms]
        for session in lost:
            if session not in stay:
                self.on_session_lost(session.session)
                self.sessions.forget(session.session)
                session.end_known(NotFound("another server has this session"))
        for room in batch.rooms:
            self._release(room)
        for session in stay:
            session.not_saved()
            self.sessions.changed(session.session)
        lost_rooms: list[FencedRoom] = []
        for room in batch.rooms:
            # If it is not claimed, its former server wrote once more after this one had read it (R8).
            ids = [str(each.session.id) for each in lost if not room.is_claimed or each not in {*stay, *fenced}]
            lost_rooms.append(FencedRoom(room.room_id, room.is_claimed and room in fenced, ids))
        self.on_rooms_lost(lost_rooms)

    def _release(self, room: RoomWriter) -> None:
        """Another server has the room: nothing that waits may leave, and nothing more is written."""
        runner = room.runner
        log.error("the room was taken over by another server", room=room.room_id, kind=runner.room.kind)
        self._counters.rooms_fenced += 1
        info = runner.entry.public_info()
        self._publish(RoomReleased(room=room.room_id, reason=Reason.MOVED, info=info))
        for seat in runner.seats.occupied:
            self.on_session_lost(seat.session)
            if seat.outlet.record() is None:
                # An agent has no connection that would tell it.
                seat.outlet.finish(SeatLeft(Reason.MOVED, "another server has this room"))
        runner.let_go()
        if runner.context.spectators:
            runner.spectators.let_go()

    def _refused(self, error: Exception) -> None:
        if not self._is_refused:
            self._is_refused = True
            self._counters.commits_refused += 1
            log.warning("the store refuses to save; trying again", error=str(error) or "it does not answer")

    def _stall(self) -> None:
        """A commit takes longer than anybody should wait."""
        self.is_failing = True
        log.error("the store does not save: durable rooms stand still", after_s=self._limits.store_patience_s)
        for room in self._rooms:
            room.turns.freeze()
        self.sessions.stall()

    def _accepted(self) -> None:
        """The store works: if durable rooms stood still, they continue."""
        self._counters.commits += 1
        self._is_refused = False
        if self.is_failing and not self._is_final:
            self.is_failing = False
            log.warning("the store saves again: durable rooms go on")
            self.sessions.proceed()
            for room in list(self._rooms):
                if not room.is_leaving:
                    room.turns.thaw()

    def broken(self, error: Broken) -> None:
        """What was saved may be lost: this process must not continue."""
        log.critical("the store cannot be trusted any more", error=error)
        self._fatal(error)

    async def _watch_for_failure(self) -> None:
        """Even while nothing is written: the next player should not be the one to find out."""
        self.broken(await self.store.failure())

    # The end

    async def stop(self, within_s: float) -> None:
        """Save every room one last time, if there is time."""
        if not self._has_begun:
            return
        self._is_final = True
        for timer in self._checkpoints.values():
            timer.cancel()
        for room in list(self._rooms):
            room.stop()
            self.mark(room)
        if self._is_behind:
            # A room in the middle of a turn is saved at its end.
            self._all_saved = self._loop.create_future()
            await asyncio.wait([self._all_saved], timeout=within_s)
        if self._is_behind:
            rooms, sessions = len(self._dirty_rooms), len(self.sessions.dirty)
            log.error("not everything could be saved before the end", rooms=rooms, sessions=sessions)
        self._has_begun = False
        if self._watch is not None:
            self._watch.cancel()
        if self._next_cut is not None:
            self._next_cut.cancel()
        if self._in_flight is not None:
            self._in_flight.cancel()
            await asyncio.wait([self._in_flight])

    @property
    def _is_behind(self) -> bool:
        return bool(self._dirty_rooms or self.sessions.dirty or self._discarded or self._in_flight)

    @property
    def _is_idle(self) -> bool:
        """Nothing will be written: a session that moved into a room that cannot be saved is not saved either."""
        return not (self._dirty_rooms or self._discarded or self._in_flight or self._next_cut)

    def _check_all_saved(self) -> None:
        is_over = not self._is_behind or (self._is_final and self._is_idle)
        if self._all_saved is not None and not self._all_saved.done() and is_over:
            self._all_saved.set_result(None)
