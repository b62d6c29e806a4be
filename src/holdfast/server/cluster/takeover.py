"""Takes over what no node has any more: the durable rooms of dead nodes, and sessions without a seat.

    a node is suspected → what it has, as it told, is read (`suspects.py`) → it is dead: this node takes its share
    a moment later, and regularly → the whole store is read for what nobody has

Which node takes what, all of them calculate alike; that nobody has it, its record says, if it was saved by a dead node,
or else every node that lives is asked. All of it may be wrong for a moment, and nothing is lost by it: the first commit
of whoever takes a room is refused if somebody else was quicker, and nothing leaves a node before that commit. Then this
node asks again who has it.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any

from holdfast.cluster.membership import MemberChange, MemberState
from holdfast.cluster.port import BusError
from holdfast.core.errors import Refused
from holdfast.core.records import Unreadable, decode_session, room_key, sends_key, session_key
from holdfast.logs import get_logger
from holdfast.schemas.cluster import MoveRooms
from holdfast.server.cluster.finder import Finder, Unsure
from holdfast.server.cluster.leftover_effects import LeftoverEffects
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.cluster.saved_rooms import SavedRoomReader, SavedRooms, is_roomless, kind_of, writer_of
from holdfast.server.cluster.suspects import SuspectRooms
from holdfast.server.context import Context
from holdfast.server.durability.recovery import Recovery
from holdfast.server.durability.saved_room import read_sessions, room_id_of
from holdfast.stores.port import Entry, Store, StoreError

log = get_logger("holdfast.cluster")

_CONFIRM = "confirm_rooms"
# After a death the whole store is read for what was not listed, when the players of what was are back.
_LEFTOVERS_S = 1.0
# For more rooms than this, one list of all is quicker than a question for each.
_LISTS_MAX = 16


class Takeover:
    """What this node takes over, and when."""

    def __init__(
        self,
        context: Context,
        node: ClusterNode,
        finder: Finder,
        store: Store,
        recovery: Recovery,
        *,
        has_room: Callable[[str], bool],
        has_session: Callable[[str], bool],
        is_ending: Callable[[str], bool],
        is_claimed: Callable[[str], bool],
        is_carried: Callable[[str], bool],
        confirm_rooms: Callable[[], None],
    ) -> None:
        """`is_ending` says whether a session has ended here and is in the store still; `is_claimed` whether a room has
        been saved here, so that it is the latest that was read; `is_carried` whether an effect is carried out here;
        `confirm_rooms` saves the rooms of this node once more: those that another one has are lost by that.
        """
        self._node = node
        self._finder = finder
        self._store = store
        self._recovery = recovery
        self._limits = context.limits
        self._faults = context.faults
        self._has_room = has_room
        self._has_session = has_session
        self._is_ending = is_ending
        self._is_claimed = is_claimed
        self._confirm_rooms = confirm_rooms
        self._loop = asyncio.get_running_loop()
        self._effects = LeftoverEffects(
            node, store, is_carried=is_carried, has_room=has_room, carry_out=recovery.carry_out
        )
        self._reader = SavedRoomReader(store, has_room)
        self.suspects = SuspectRooms(node, self._reader)
        self._taking: dict[str, asyncio.Task[None]] = {}
        """By the room, or the session that has none."""
        self._asked: dict[str, None] = {}
        """Rooms that somebody asked for while they were read with others that nobody has: these come first."""
        self._coming: set[asyncio.Future[None]] = set()
        """Each is done when all that was read with it is here: hundreds ask at once for what is about to be."""
        self._sweeping: asyncio.Task[None] | None = None
        self._sweep_again = False
        self._is_urgent = False
        """Whether somebody may be waiting for what the next look at the store finds."""
        self._regularly: asyncio.Task[None] | None = None
        self._leftovers: asyncio.TimerHandle | None = None
        self._of_the_dead: set[asyncio.Task[None]] = set()
        self._is_stopped = False
        self.rooms_taken = 0
        self.rooms_unowned = 0
        """Rooms that this node should have, or no node can, and that none had when this one last looked."""
        self._returned: set[asyncio.Task[None]] = set()
        node.watch.on_change.append(self._changed)
        node.questions.answer(_CONFIRM, bool, self._confirm)
        recovery.read_again = self._again

    def start(self) -> None:
        """Look for what nobody has."""
        self.sweep()
        self._regularly = self._loop.create_task(self._sweep_regularly())

    def stop(self) -> None:
        self._is_stopped = True
        self.suspects.stop()
        if self._leftovers is not None:
            self._leftovers.cancel()
        for task in self._tasks:
            task.cancel()

    async def stopped(self) -> None:
        """Nothing reads the store any more: it may be closed."""
        if tasks := self._tasks:
            await asyncio.wait(tasks)

    @property
    def _tasks(self) -> list[asyncio.Task[None]]:
        tasks = (self._regularly, self._sweeping, *self._taking.values(), *self._returned, *self._of_the_dead)
        return [task for task in tasks if task is not None]

    # Where something is, and here if nobody has it

    async def room(self, room_id: str) -> str | None:
        """The life of the node that has a room, or should take it now; None if there is no such room."""
        if self._has_room(room_id):
            return self._node.life
        if (found := await self._finder.find("room", room_id)) is not None:
            return found.life
        entry = await self._store.get(room_key(room_id))
        if entry is None or (kind := kind_of([entry])) is None:
            return None
        owner = self._node.next_owner(room_id, kind)
        if owner is None:
            raise Unsure
        if owner == self._node.life:
            await self.take(room_id)
            return owner if self._has_room(room_id) else None
        return owner

    async def session(self, session_id: str, *, must_take: bool = False) -> str | None:
        """The same for a session; `must_take` if another node has calculated that it is to be here."""
        if self._has_session(session_id):
            return self._node.life
        if (found := await self._finder.find("session", session_id)) is not None:
            return found.life
        if self._coming:
            await asyncio.wait(set(self._coming))
            if self._has_session(session_id):
                return self._node.life
        entry = await self._store.get(session_key(session_id))
        if entry is None or self._is_ending(session_id):
            return None
        try:
            record = decode_session(entry.value)
        except Unreadable:
            return None
        room_id = record.room or record.spectating
        owner = await self._owner_of(room_id) if room_id else self._node.next_taker(session_id)
        if room_id and self._has_room(room_id):
            # The room is here, and the session is not: it has left, or ended.
            if not self._is_claimed(room_id):
                raise Unsure
            return self._node.life if self._has_session(session_id) else None
        if owner == self._node.life or must_take or owner is None:
            await self.take(room_id, session_id)
            if self._has_session(session_id):
                return self._node.life
            is_known = session_key(session_id) in self._recovery.set_aside
            if not is_known and not (room_id and self._has_room(room_id) and self._is_claimed(room_id)):
                # What was read of the room may be older than the session: its claim is about to show that.
                raise Unsure
            return None
        return owner

    async def _owner_of(self, room_id: str) -> str | None:
        if self._has_room(room_id):
            return self._node.life
        if (found := await self._finder.find("room", room_id)) is not None:
            return found.life
        entry = await self._store.get(room_key(room_id))
        kind = kind_of([entry]) if entry is not None else None
        return self._node.next_owner(room_id, kind) if kind is not None else None

    async def take(self, room_id: str, session_id: str = "") -> None:
        """Restore a room, or a session without one, of which nobody says that they have it."""
        self._check_reach()
        if self._coming:
            self._asked[room_id] = None
            await asyncio.wait(set(self._coming))
            if self._has_room(room_id) or self._has_session(session_id):
                return
        key = room_id or session_id
        task = self._taking.get(key)
        if task is None:
            room_ids = [room_id] if room_id else []
            task = self._begin(key, self._take(room_ids, [session_id] if session_id else []))
        await asyncio.shield(task)

    def _check_reach(self) -> None:
        if not self._node.watch.membership.has_proof:
            raise Unsure

    async def take_moved(self, move: MoveRooms) -> None:
        """Restore rooms that stand still on the node that hands them over, exactly as they are there."""
        if (task := self._taking.get(move.rooms[0])) is None:
            task = self._begin(move.rooms[0], self._take(move.rooms, (), move=move))
        await asyncio.shield(task)

    def _begin(self, key: str, taking: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._taking[key] = self._loop.create_task(taking)
        task.add_done_callback(partial(self._took, key))
        return task

    def _took(self, key: str, task: asyncio.Task[None]) -> None:
        del self._taking[key]
        if not task.cancelled():
            task.exception()  # whoever waited may have gone

    async def _take(
        self, room_ids: Sequence[str], session_ids: Sequence[str], *, move: MoveRooms | None = None
    ) -> None:
        """Read and restore rooms, their sessions, and the other rooms of these; or exactly those that were moved."""
        revisions = move.revisions or None if move is not None else None
        found = await self._reader.read(room_ids, session_ids, revisions=revisions, alone=move is not None)
        if move is not None and move.effects is not None:
            # Of the messages to its sessions each record has all.
            sends: list[Entry] = []
            effects = [entry for key in move.effects if (entry := await self._store.get(key)) is not None]
        else:
            effects, sends = await self._beside(found)
        following = {each.session for each in move.sessions} if move is not None else None
        await self._restore(found, effects, sends, following=following)

    async def _beside(self, found: SavedRooms) -> tuple[list[Entry], list[Entry]]:
        """The effects of rooms, and the messages to sessions, that are saved beside them."""
        if len(found.rooms) + len(found.sessions) <= _LISTS_MAX:
            sends = await self._reader.list_all(sends_key(each) for each in found.sessions)
            return await self._reader.list_all(f"effect/{room_id}" for room_id in found.rooms), sends
        effects, sends = await asyncio.gather(self._store.list("effect"), self._store.list("send"))
        return (
            [entry for entry in effects if room_id_of(entry) in found.rooms],
            [entry for entry in sends if entry.key.split("/")[1] in found.sessions],
        )

    async def _restore(
        self,
        found: SavedRooms,
        effects: list[Entry],
        sends: list[Entry],
        *,
        following: Collection[str] | None = None,
    ) -> None:
        if not self._is_stopped:
            asked = [room_id for room_id in self._asked if room_id in found.rooms]
            rooms = {room_id: found.rooms[room_id] for room_id in (*asked, *found.rooms)}
            await self._recovery.take(rooms, found.sessions, effects, sends, following=following)
            self.rooms_taken += len(rooms)

    # When a node is gone

    def _changed(self, change: MemberChange) -> None:
        if self._is_stopped:
            return
        match change.after:
            case MemberState.SUSPECT:
                self.suspects.begin(change.life)
            case MemberState.DEAD:
                self._begin_of(self._of_the_dead, self._take_from(change.life))
            case MemberState.LEFT:
                self.suspects.forget(change.life)
                self.sweep()
            case MemberState.ALIVE:
                self.suspects.forget(change.life)
                if change.before is MemberState.DEAD or (change.before is None and self.rooms_taken > 0):
                    # This node may have taken its rooms, unnoticed: a room in which nothing happens is not refused.
                    self._begin_of(self._returned, self._tell_returned(change.life))

    def _begin_of(self, tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def _confirm(self, _: bool) -> bool:
        self._confirm_rooms()
        return True

    async def _tell_returned(self, life: str) -> None:
        with suppress(BusError, Refused):
            await self._node.questions.ask(life, _CONFIRM, True, bool)

    @contextmanager
    def _is_coming(self) -> Iterator[None]:
        """Whoever asks for something meanwhile waits."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._coming.add(done)
        try:
            yield
        finally:
            self._coming.discard(done)
            done.set_result(None)
            if not self._coming:
                self._asked.clear()

    async def _take_from(self, life: str) -> None:
        """Take this node's share of what a dead node had."""
        is_known = False
        try:
            with self._is_coming():
                found = await self.suspects.read(life)
                if found is not None:
                    is_known = True
                    await self._take_share(found)
        except StoreError as error:
            log.debug("not all rooms of a dead node could be read", node=life, why=repr(error))
            is_known = False
        except Exception as error:  # noqa: BLE001 - our bug: logged, counted, contained
            self._faults.report("taking over the rooms of a dead node", error)
        if not is_known:
            self.sweep()
        elif not self._is_stopped:
            if self._leftovers is not None:
                self._leftovers.cancel()
            self._leftovers = self._loop.call_later(_LEFTOVERS_S, partial(self.sweep, is_urgent=False))

    async def _take_share(self, found: SavedRooms) -> None:
        node, first = self._node, found.first_of_each()
        mine = {
            room_id: entries
            for room_id, entries in found.rooms.items()
            if not self._has_room(room_id)
            # Nobody has taken it since.
            and not node.may_live(writer_of(entries))
            and writer_of(entries) != node.life
            and (kind := kind_of(found.rooms[first[room_id]])) is not None
            and node.next_owner(first[room_id], kind) == node.life
        }
        await self._take_over(mine, found.sessions)

    async def _take_over(
        self, mine: dict[str, list[Entry]], sessions: dict[str, Entry], more: Iterable[str] = ()
    ) -> None:
        """Restore these rooms with their sessions, and `more` sessions."""
        theirs = {*more, *(each for entries in mine.values() for each in read_sessions(entries))}
        # One that has ended here while the store failed is about to be deleted.
        taken = SavedRooms(
            mine,
            {each: entry for each, entry in sessions.items() if each in theirs and not self._is_ending(each)},
        )
        if not (taken.rooms or taken.sessions):
            return
        # Read after the rooms: what was written between is in a room whose first commit is refused.
        effects, sends = await self._beside(taken)
        log.info("this node takes over what no node has", rooms=len(taken.rooms), sessions=len(taken.sessions))
        await self._restore(taken, effects, sends)

    def sweep(self, *, is_urgent: bool = True) -> None:
        """Look for what nobody has, now."""
        self._sweep_again = True
        self._is_urgent |= is_urgent
        if (self._sweeping is None or self._sweeping.done()) and not self._is_stopped:
            self._sweeping = self._loop.create_task(self._sweep())

    async def _sweep_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._limits.sweep_s)
            self.sweep(is_urgent=False)

    async def _sweep(self) -> None:
        while self._sweep_again:
            is_urgent, self._is_urgent = self._is_urgent, False
            self._sweep_again = False
            try:
                with self._is_coming() if is_urgent else nullcontext():
                    await self._take_orphans()
            except (StoreError, Unsure) as error:
                # A node that is not heard may have them; if it is dead, that is known soon.
                log.debug("not all rooms could be looked for", why=repr(error))
                await asyncio.sleep(self._limits.suspect_s)
                self._sweep_again = True
                self._is_urgent |= is_urgent
            except Exception as error:  # noqa: BLE001 - our bug: logged, counted, contained
                self._faults.report("looking for rooms that no node has", error)

    async def _take_orphans(self) -> None:
        self._check_reach()
        rooms: dict[str, list[Entry]] = {}
        # If one of the two is older than the other, the first commit of the room is refused, as always.
        saved_rooms, saved_sessions = await asyncio.gather(self._store.list("room"), self._store.list("session"))
        for entry in saved_rooms:
            rooms.setdefault(room_id_of(entry), []).append(entry)
        sessions = {entry.key.partition("/")[2]: entry for entry in saved_sessions}
        await self._take_free(rooms, sessions)
        await self._effects.take(rooms)

    async def _take_free(self, rooms: dict[str, list[Entry]], sessions: dict[str, Entry]) -> None:
        """Of all that the store has, what this node should have, and nobody has."""
        node = self._node
        first = SavedRooms(rooms, sessions).first_of_each()
        absent = {
            room_id: self._owner_by_record(rooms, first[room_id]) for room_id in rooms if not self._has_room(room_id)
        }
        mine = {room_id: rooms[room_id] for room_id, owner in absent.items() if owner == node.life}
        # What nobody can have: nobody has this kind of room any more, or the record cannot be read.
        homeless = [each for each, owner in absent.items() if owner is None and node.next_taker(each) == node.life]
        roomless = {
            session_id: entry
            for session_id, entry in sessions.items()
            if not self._has_session(session_id) and is_roomless(entry) and node.next_taker(session_id) == node.life
        }
        wanted = (*mine, *homeless, *roomless)
        places = await asyncio.gather(
            *(self._finder.find("room", each) for each in (*mine, *homeless)),
            *(self._finder.find("session", each) for each in roomless),
        )
        free = {each for each, place in zip(wanted, places, strict=True) if place is None}
        mine = {room_id: entries for room_id, entries in mine.items() if room_id in free}
        await self._take_over(mine, sessions, [each for each in roomless if each in free])
        self.rooms_unowned = sum(each in free and not self._has_room(each) for each in (*mine, *homeless))

    def _owner_by_record(self, rooms: dict[str, list[Entry]], room_id: str) -> str | None:
        kind = kind_of(rooms[room_id])
        return self._node.next_owner(room_id, kind) if kind is not None else None

    # When another node was quicker

    async def _again(self, room_ids: list[str], session_ids: list[str]) -> None:
        """These rooms were taken here, and their claim was refused: another node has them, or had its last word."""
        await asyncio.gather(*map(self._take_again, room_ids))
        if not room_ids:
            await asyncio.sleep(self._limits.store_retry_s)
        for session_id in session_ids:
            with suppress(StoreError, Unsure):
                await self.session(session_id)

    async def _take_again(self, room_id: str) -> None:
        while not self._is_stopped and not self._has_room(room_id):
            await asyncio.sleep(self._limits.store_retry_s)
            with suppress(StoreError, Unsure):
                # Not asked for whose it is: it was this node's, and nobody else may have looked for it.
                if await self._finder.find("room", room_id) is None:
                    await self.take(room_id)
                return
