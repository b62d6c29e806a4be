"""Takes over what no node has any more: the durable rooms of dead nodes, and sessions without a seat.

Which node takes what, all of them calculate alike; that nobody has it, is asked of every node that lives. Both may be
wrong for a moment, and nothing is lost by it: the first commit of whoever takes a room is refused if somebody else was
quicker, and nothing leaves a node before that commit. Then this node asks again who has it.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from holdfast.cluster.membership import MemberChange, MemberState, dead
from holdfast.cluster.port import BusError
from holdfast.core.errors import Refused
from holdfast.core.records import PARTS_NONE, Unreadable, decode_room, decode_session, room_key, sends_key, session_key
from holdfast.logs import get_logger
from holdfast.schemas.cluster import MoveRooms
from holdfast.server.cluster.finder import Finder, Unsure
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.context import Context
from holdfast.server.durability.recovery import Recovery
from holdfast.server.durability.saved_room import read_sessions, room_id_of
from holdfast.stores.port import Entry, Store, StoreError

log = get_logger("holdfast.cluster")

# Rooms are read from the store in so many questions at once.
_READS_MAX = 16
_CONFIRM = "confirm_rooms"


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
        confirm_rooms: Callable[[], None],
    ) -> None:
        """`is_ending` says whether a session has ended here and is in the store still; `is_claimed` whether a room has
        been saved here, so that it is the latest that was read; `confirm_rooms` saves the rooms of this node once more:
        those that another one has are lost by that.
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
        self._reads = asyncio.Semaphore(_READS_MAX)
        self._taking: dict[str, asyncio.Task[None]] = {}
        """By the room, or the session that has none."""
        self._asked: dict[str, None] = {}
        """Rooms that somebody asked for while the store was being read for all that nobody has: these come first."""
        self._reading: asyncio.Future[None] | None = None
        """Done when all that was found so is here."""
        self._sweeping: asyncio.Task[None] | None = None
        self._sweep_again = False
        self._regularly: asyncio.Task[None] | None = None
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
        self._regularly = self._loop.create_task(self._sweep_regularly())

    def stop(self) -> None:
        self._is_stopped = True
        for task in (self._regularly, self._sweeping, *self._taking.values(), *self._returned):
            if task is not None:
                task.cancel()

    # Where something is, and here if nobody has it

    async def room(self, room_id: str) -> str | None:
        """The life of the node that has a room, or should take it now; None if there is no such room."""
        if self._has_room(room_id):
            return self._node.life
        if (found := await self._finder.find("room", room_id)) is not None:
            return found.life
        entry = await self._store.get(room_key(room_id))
        if entry is None or (kind := _kind_of(entry)) is None:
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
        if self._reading is not None:
            # Hundreds ask at once for what is about to be here.
            await asyncio.wait([self._reading])
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
            return self._node.life if self._has_session(session_id) else None
        return owner

    async def _owner_of(self, room_id: str) -> str | None:
        if self._has_room(room_id):
            return self._node.life
        if (found := await self._finder.find("room", room_id)) is not None:
            return found.life
        entry = await self._store.get(room_key(room_id))
        kind = _kind_of(entry) if entry is not None else None
        return self._node.next_owner(room_id, kind) if kind is not None else None

    async def take(self, room_id: str, session_id: str = "") -> None:
        """Restore a room, or a session without one, of which nobody says that they have it."""
        if self._reading is not None:
            self._asked[room_id] = None
            await asyncio.wait([self._reading])
            if self._has_room(room_id) or self._has_session(session_id):
                return
        key = room_id or session_id
        task = self._taking.get(key)
        if task is None:
            room_ids = [room_id] if room_id else []
            task = self._begin(key, self._take(room_ids, [session_id] if session_id else []))
        await asyncio.shield(task)

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
        revisions = move.revisions if move is not None else {}
        rooms: dict[str, list[Entry]] = {}
        sessions: dict[str, Entry] = {}
        # A session is on one node, and so are the rooms that it plays in and watches.
        while room_ids or session_ids:
            read = zip(room_ids, await asyncio.gather(*map(self._read_room, room_ids)), strict=True)
            rooms |= {
                room_id: entries
                for room_id, entries in read
                if entries and (not revisions or entries[0].revision == revisions.get(room_id))
            }
            members = (each for room_id in room_ids if room_id in rooms for each in read_sessions(rooms[room_id]))
            new = [each for each in dict.fromkeys((*session_ids, *members)) if each not in sessions]
            found = zip(new, await asyncio.gather(*map(self._read_session, new)), strict=True)
            added = {each: entry for each, entry in found if entry is not None}
            sessions |= added
            others = [] if move is not None else [room for entry in added.values() for room in _rooms_of(entry)]
            room_ids = [each for each in dict.fromkeys(others) if each not in rooms and not self._has_room(each)]
            session_ids = []
        if move is not None and move.effects is not None:
            # Of the messages to its sessions each record has all.
            sends: list[Entry] = []
            effects = [entry for key in move.effects if (entry := await self._store.get(key)) is not None]
        else:
            sends = await self._list_all(sends_key(each) for each in sessions)
            effects = await self._list_all(f"effect/{room_id}" for room_id in rooms)
        following = {each.session for each in move.sessions} if move is not None else None
        await self._restore(rooms, sessions, effects, sends, following=following)

    async def _list_all(self, paths: Iterable[str]) -> list[Entry]:
        found = await asyncio.gather(*map(self._list, paths))
        return [entry for entries in found for entry in entries]

    async def _list(self, path: str) -> list[Entry]:
        async with self._reads:
            return await self._store.list(path)

    async def _read_room(self, room_id: str) -> list[Entry]:
        async with self._reads:
            entry = await self._store.get(room_key(room_id))
            if entry is None:
                return []
            with suppress(Unreadable):
                record = decode_room(entry.value)
                if record.parts == PARTS_NONE and not record.has_state_beside:
                    # Asking for all below a key takes ten times as long.
                    return [entry]
            return await self._store.list(room_key(room_id))

    async def _read_session(self, session_id: str) -> Entry | None:
        async with self._reads:
            return await self._store.get(session_key(session_id))

    async def _restore(
        self,
        rooms: dict[str, list[Entry]],
        sessions: dict[str, Entry],
        effects: list[Entry],
        sends: list[Entry],
        *,
        following: Collection[str] | None = None,
    ) -> None:
        if not self._is_stopped:
            await self._recovery.take(rooms, sessions, effects, sends, following=following)
            self.rooms_taken += len(rooms)

    # When a node is gone

    def _changed(self, change: MemberChange) -> None:
        if dead([change]):
            self.sweep()
        elif change.before is MemberState.DEAD or (change.before is None and self.rooms_taken > 0):
            # This node may have taken its rooms, unnoticed: a room in which nothing happens is not refused.
            task = self._loop.create_task(self._tell_returned(change.life))
            self._returned.add(task)
            task.add_done_callback(self._returned.discard)

    def _confirm(self, _: bool) -> bool:
        self._confirm_rooms()
        return True

    async def _tell_returned(self, life: str) -> None:
        with suppress(BusError, Refused):
            await self._node.questions.ask(life, _CONFIRM, True, bool)

    def sweep(self) -> None:
        """Look for what nobody has, now."""
        self._sweep_again = True
        if (self._sweeping is None or self._sweeping.done()) and not self._is_stopped:
            self._sweeping = self._loop.create_task(self._sweep())

    async def _sweep_regularly(self) -> None:
        while True:
            self.sweep()
            await asyncio.sleep(self._limits.sweep_s)

    async def _sweep(self) -> None:
        while self._sweep_again:
            self._sweep_again = False
            self._reading = self._loop.create_future()
            try:
                await self._take_orphans()
            except (StoreError, Unsure) as error:
                self._has_read()
                # A node that is not heard may have them; if it is dead, that is known soon.
                log.debug("not all rooms could be looked for", why=repr(error))
                await asyncio.sleep(self._limits.suspect_s)
                self._sweep_again = True
            except Exception as error:  # noqa: BLE001 - our bug: logged, counted, contained
                self._faults.report("looking for rooms that no node has", error)
            finally:
                self._has_read()

    def _has_read(self) -> None:
        if self._reading is not None:
            self._reading.set_result(None)
            self._reading = None
        self._asked.clear()

    async def _take_orphans(self) -> None:
        rooms: dict[str, list[Entry]] = {}
        # If one of the two is older than the other, the first commit of the room is refused, as always.
        saved_rooms, saved_sessions = await asyncio.gather(self._store.list("room"), self._store.list("session"))
        for entry in saved_rooms:
            rooms.setdefault(room_id_of(entry), []).append(entry)
        sessions = {
            session_id: entry
            for entry in saved_sessions
            # One that has ended here while the store failed is about to be deleted.
            if not self._is_ending(session_id := entry.key.partition("/")[2])
        }
        node = self._node
        first = _first_of_each(rooms, sessions.values())
        absent = {
            room_id: self._owner_by_record(rooms, first[room_id]) for room_id in rooms if not self._has_room(room_id)
        }
        # What this node should have, and has not.
        mine = {room_id: rooms[room_id] for room_id, owner in absent.items() if owner == node.life}
        # What nobody can have: nobody has this kind of room any more, or the record cannot be read.
        homeless = [each for each, owner in absent.items() if owner is None and node.next_taker(each) == node.life]
        roomless = {
            session_id: entry
            for session_id, entry in sessions.items()
            if not self._has_session(session_id) and _is_roomless(entry) and node.next_taker(session_id) == node.life
        }
        wanted = (*mine, *homeless, *roomless)
        places = await asyncio.gather(
            *(self._finder.find("room", each) for each in (*mine, *homeless)),
            *(self._finder.find("session", each) for each in roomless),
        )
        free = {each for each, place in zip(wanted, places, strict=True) if place is None}
        mine = {room_id: entries for room_id, entries in mine.items() if room_id in free}
        theirs = {each for entries in mine.values() for each in read_sessions(entries)}
        taken = {
            each: entry for each, entry in sessions.items() if each in theirs or (each in roomless and each in free)
        }
        if mine or taken:
            await self._take_free(mine, taken)
        self.rooms_unowned = sum(each in free and not self._has_room(each) for each in (*mine, *homeless))

    def _owner_by_record(self, rooms: dict[str, list[Entry]], room_id: str) -> str | None:
        kind = _kind_of(rooms[room_id][0])
        return self._node.next_owner(room_id, kind) if kind is not None else None

    async def _take_free(self, mine: dict[str, list[Entry]], taken: dict[str, Entry]) -> None:
        # Read after the rooms: what was written between is in a room whose first commit is refused.
        effects, sends = await asyncio.gather(self._store.list("effect"), self._store.list("send"))
        effects = [entry for entry in effects if room_id_of(entry) in mine]
        sends = [entry for entry in sends if entry.key.split("/")[1] in taken]
        mine = {room_id: mine[room_id] for room_id in (*self._asked, *mine) if room_id in mine}
        log.info("this node takes over what no node has", rooms=len(mine), sessions=len(taken))
        await self._restore(mine, taken, effects, sends)

    # When another node was quicker

    async def _again(self, room_ids: list[str], session_ids: list[str]) -> None:
        """These rooms were taken here, and their claim was refused: another node has them, or had its last word."""
        await asyncio.gather(*map(self._take_again, room_ids))
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


def _rooms_of(entry: Entry) -> list[str]:
    """The rooms in which a session has its seat, and which it watches."""
    try:
        record = decode_session(entry.value)
    except Unreadable:
        return []
    return [room_id for room_id in (record.room, record.spectating) if room_id]


def _first_of_each(room_ids: Iterable[str], sessions: Iterable[Entry]) -> dict[str, str]:
    """Of each room the first of those that one node has to take together: a session is on one node, with the room that
    it plays in and the one that it watches.
    """
    first = {room_id: room_id for room_id in room_ids}

    def first_of(room_id: str) -> str:
        while first[room_id] != room_id:
            room_id = first[room_id]
        return room_id

    for entry in sessions:
        linked = [first_of(room_id) for room_id in _rooms_of(entry) if room_id in first]
        first |= dict.fromkeys(linked, min(linked, default=""))
    return {room_id: first_of(room_id) for room_id in first}


def _kind_of(entry: Entry) -> str | None:
    try:
        return decode_room(entry.value).kind
    except Unreadable:
        return None


def _is_roomless(entry: Entry) -> bool:
    try:
        record = decode_session(entry.value)
    except Unreadable:
        return False
    return not (record.room or record.spectating)
