"""The ledger: one group commit for everything on this node that has to last, one in flight, the rest in the next.

When little happens a commit begins at once; under load it waits a few milliseconds for company. What a commit holds is
let out when it has succeeded, and not before (R3). How it gets into the store, see `Commits`.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.logs import get_logger
from holdfast.server.durability.bundles import Bundle, SessionWriter
from holdfast.server.durability.commits import Commits
from holdfast.server.durability.room_writer import RoomWriter
from holdfast.server.durability.session_book import SessionBook
from holdfast.stores.port import Broken, Store

if TYPE_CHECKING:
    from holdfast.server.node import Node

log = get_logger("holdfast.server")

# How much the last pause between two commits counts towards the usual one, and the longest that counts.
_NEWS = 0.25
_PAUSE_MAX_S = 1.0


class Committer(SessionBook):
    """What changed, and its way into the store. `fatal` is told when this process must not go on."""

    def __init__(
        self, node: "Node", loop: asyncio.AbstractEventLoop, store: Store, *, fatal: Callable[[Exception], None]
    ) -> None:
        super().__init__(node)
        self._loop = loop
        self._limits = node.limits
        self._fatal = fatal
        self.store = store
        self._commits = Commits(store, node.limits, self)
        self.is_failing = False
        """The store has refused for so long that durable rooms stand still."""
        self._keepers: dict[RoomWriter, None] = {}
        self._dirty_rooms: dict[RoomWriter, None] = {}
        self._paused: list[RoomWriter] = []
        self._turns = 0
        self._cut_at = 0.0
        self._pause_s = _PAUSE_MAX_S
        self._next_cut: asyncio.TimerHandle | asyncio.Handle | None = None
        self._in_flight: asyncio.Task[None] | None = None
        self._is_refused = False
        self._has_begun = False
        self._is_final = False
        self._all_saved: asyncio.Future[None] | None = None
        self._checkpoints: dict[RoomWriter, asyncio.TimerHandle] = {}
        self._failing: asyncio.Task[None] | None = None

    # Rooms

    def add(self, writer: RoomWriter) -> None:
        """Keep a room from now on."""
        self._keepers[writer] = None
        if self.is_failing:
            writer.freeze()

    def remove(self, writer: RoomWriter) -> None:
        """The room is not ours any more, or was never saved."""
        self._keepers.pop(writer, None)
        self._dirty_rooms.pop(writer, None)
        if (timer := self._checkpoints.pop(writer, None)) is not None:
            timer.cancel()
        if self._node.tracing is not None:
            self._node.tracing.forget(writer.room_id)
        writer.removed()

    @property
    def room_ids(self) -> set[str]:
        """The rooms that are kept, also those that are only just being made."""
        return {writer.room_id for writer in self._keepers}

    def turn_ended(self, writer: RoomWriter) -> None:
        """A room took a turn: save it with the next commit, or with its next checkpoint."""
        self._turns += 1
        if writer.is_dirty or writer.checkpoint_s is None:
            self.mark(writer)
        elif writer not in self._checkpoints:
            self._checkpoints[writer] = self._loop.call_later(writer.checkpoint_s, self._checkpoint, writer)

    def _checkpoint(self, writer: RoomWriter) -> None:
        self._checkpoints.pop(writer, None)
        self.mark(writer)

    def mark(self, writer: RoomWriter) -> None:
        """Save a room with the next commit."""
        if not writer.is_dirty:
            if writer not in self._keepers:
                return
            writer.is_dirty = True
            self._dirty_rooms[writer] = None
        # Also for one that is marked: the last cut may have passed it over in the middle of a turn.
        if self._in_flight is None and self._next_cut is None:
            self._schedule()

    async def saved(self, writer: RoomWriter) -> None:
        """Save a room as it is, and wait until the store has it."""
        await self._next_commit(writer)

    def once_saved(self, writer: RoomWriter, then: Callable[[], None]) -> None:
        """The same, for somebody who cannot wait: `then` is called, unless the room cannot be saved."""
        self._next_commit(writer).add_done_callback(lambda done: then() if done.exception() is None else None)

    def _next_commit(self, writer: RoomWriter) -> asyncio.Future[None]:
        done = self._loop.create_future()
        writer.waiters.append(done)
        if writer in self._keepers:
            self.mark(writer)
        else:
            writer.removed()
        return done

    def _has(self, writer: RoomWriter) -> bool:
        return writer in self._keepers

    # When

    def begin(self) -> None:
        """Write from now on."""
        self._has_begun = True
        self._failing = self._loop.create_task(self._wait_for_failure())
        self._schedule()

    def _schedule(self) -> None:
        if not self._has_begun or self._in_flight is not None or self._next_cut is not None:
            return
        wait_s = 0.0
        # At once, unless commits have come so quickly of late that it pays to wait for company.
        if self._pause_s < 2 * self._limits.commit_s and self._turns < self._limits.commit_turns_max:
            wait_s = self._cut_at + self._limits.commit_s - self._node.now()
        if wait_s > 0:
            self._next_cut = self._loop.call_later(wait_s, self._cut)
        else:
            self._next_cut = self._loop.call_soon(self._cut)

    # What

    def _cut(self) -> None:
        self._next_cut = None
        bundles = self._bundles()
        if not bundles:
            self._check_all_saved()
        else:
            now = self._node.now()
            self._pause_s += _NEWS * (min(now - self._cut_at, _PAUSE_MAX_S) - self._pause_s)
            self._cut_at = now
            self._turns = 0
            if self._node.tracing is not None:
                self._node.tracing.cut([bundle.writer.room_id for bundle in bundles if bundle.writer is not None])
            self._in_flight = self._loop.create_task(self._commit(bundles))
        # Not before the commit is in flight: the turns that have waited belong to the next one.
        paused, self._paused = self._paused, []
        for writer in paused if not self.is_failing and not self._is_final else ():
            writer.unpause()

    def _bundles(self) -> list[Bundle]:
        """What can be saved now. A room in the middle of a turn waits for its end, which calls again."""
        bundles: list[Bundle] = []
        of_room: dict[RoomWriter, Bundle] = {}
        size = 0
        for writer in list(self._dirty_rooms):
            if not writer.is_at_rest:
                # Or turn would follow upon turn, and none of them be saved.
                writer.pause()
                continue
            if len(bundles) >= self._limits.commit_batches_max or size >= self._limits.commit_bytes_max:
                break
            del self._dirty_rooms[writer]
            writer.is_dirty = False
            self._paused.append(writer)
            try:
                writes = writer.cut(is_final=self._is_final)
            except Exception as error:  # noqa: BLE001 - the game's state, which cannot be saved as it is
                writer.cannot_be_saved(error)
                continue
            bundle = of_room[writer] = Bundle(writer, writes)
            bundles.append(bundle)
            size += bundle.size
        for keep in list(self._dirty_sessions):
            with_room = of_room.get(keep.home) if keep.home is not None else None
            if with_room is None:
                must_wait = keep.is_moved and keep.home is not None and keep.home in self._keepers
                if must_wait or len(bundles) >= self._limits.commit_batches_max:
                    continue
                bundles.append(Bundle(None, []))
            del self._dirty_sessions[keep]
            (with_room or bundles[-1]).add(keep)
        return bundles

    # How

    async def _commit(self, bundles: list[Bundle]) -> None:
        patience = self._loop.call_later(self._limits.store_patience_s, self._stand_still)
        metrics, began_at = self._node.metrics, self._node.now()
        try:
            await self._commits.write(bundles)
        except Broken as error:
            self.broken(error)
            return
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - our bug; going on would be worse than stopping
            self._node.internal_error("commit", error)
            self._fatal(error)
            return
        finally:
            patience.cancel()
        metrics.commit.observe(self._node.now() - began_at)
        metrics.commit_batches.observe(len(bundles))
        self._in_flight = None
        if self._dirty_rooms or self._dirty_sessions:
            self._schedule()
        self._check_all_saved()

    def _check_all_saved(self) -> None:
        if self._all_saved is not None and not self._all_saved.done() and not self._is_behind:
            self._all_saved.set_result(None)

    # `Fates`: what became of bundles

    def committed(self, bundle: Bundle, revisions: list[int]) -> None:
        """The store has it: let it out."""
        if self._node.tracing is not None and bundle.writer is not None:
            self._node.tracing.committed(bundle.writer.room_id)
        bundle.committed(revisions)
        for keep, _ in bundle.sessions:
            if keep.is_gone and keep.is_ended:
                self._keeps.pop(keep.session, None)
        if bundle.writer is not None and bundle.writer.is_gone:
            self.remove(bundle.writer)

    def fenced(self, bundle: Bundle, elsewhere: list[SessionWriter], *, has_room: bool) -> None:
        """Somebody else has written: what was not let out never happened here."""
        lost = [keep for keep, _ in bundle.sessions]
        writer = bundle.writer
        if writer is not None:
            self.remove(writer)
            lost += [keep for keep in self._keeps.values() if keep.home is writer and keep not in lost]
        for keep in lost:
            self._lose(keep)
        if writer is None:
            return
        writer.fenced()
        if self._node.recovery is None:
            return
        if self._node.elsewhere is not None and writer.is_claimed and not has_room:
            self._node.elsewhere.add(writer.room_id)
        if not writer.is_claimed:
            # Its former server wrote once more after we had read it: read again (R8).
            self._node.recovery.read_again(writer.room_id, [str(keep.session.id) for keep in lost])
        elif has_room:
            # It is nobody else's: only what was not saved yet is lost with the session that went elsewhere.
            here = [str(keep.session.id) for keep in lost if keep not in elsewhere]
            self._node.recovery.read_again(writer.room_id, here)

    def _lose(self, keep: SessionWriter) -> None:
        self._node.lost_to_another(keep.session)
        self._keeps.pop(keep.session, None)
        self._dirty_sessions.pop(keep, None)
        keep.lost()

    def refused(self, error: Exception) -> None:
        """Nothing is lost: it is tried again."""
        if not self._is_refused:
            self._is_refused = True
            self._node.counters.commits_refused += 1
            log.warning("the store refuses to save; trying again", error=error)

    def _stand_still(self) -> None:
        """A commit takes longer than anybody should wait."""
        self.is_failing = True
        log.error("the store does not save: durable rooms stand still", after_s=self._limits.store_patience_s)
        for writer in self._keepers:
            writer.freeze()
        for keep in list(self._keeps.values()):
            connection = self._node.connection_of(keep.session)
            if connection is not None:
                self._node.turn_away(connection)

    def accepted(self) -> None:
        """If durable rooms stood still, they go on."""
        self._node.counters.commits += 1
        self._is_refused = False
        if self.is_failing and not self._is_final:
            self.is_failing = False
            log.warning("the store saves again: durable rooms go on")
            for keep in self._keeps.values():
                # They could not come back, and that is not theirs to pay for.
                self._node.graces.renew(keep.session)
            for writer in list(self._keepers):
                writer.thaw()

    def broken(self, error: Broken) -> None:
        """What was saved may be lost: this process must not go on."""
        log.critical("the store cannot be trusted any more", error=error)
        self._fatal(error)

    async def _wait_for_failure(self) -> None:
        """Also if nobody writes: a store that is gone must not be found out by the next player."""
        self.broken(await self.store.failure())

    # The end

    async def stop(self, within_s: float) -> None:
        """Save every room one last time, as far as time allows."""
        if not self._has_begun:
            return
        self._is_final = True
        for timer in self._checkpoints.values():
            timer.cancel()
        for writer in list(self._keepers):
            writer.freeze()
            self.mark(writer)
        if self._is_behind:
            # A room in the middle of a turn is saved at its end.
            self._all_saved = self._loop.create_future()
            await asyncio.wait([self._all_saved], timeout=within_s)
        if self._is_behind:
            rooms, sessions = self._backlog
            log.error("not everything could be saved before the end", rooms=rooms, sessions=sessions)
        self._has_begun = False
        if self._failing is not None:
            self._failing.cancel()
        if self._next_cut is not None:
            self._next_cut.cancel()
        if self._in_flight is not None:
            self._in_flight.cancel()
            await asyncio.wait([self._in_flight])

    @property
    def _is_behind(self) -> bool:
        return bool(self._dirty_rooms or self._dirty_sessions or self._in_flight)

    @property
    def _backlog(self) -> tuple[int, int]:
        return len(self._dirty_rooms), len(self._dirty_sessions)
