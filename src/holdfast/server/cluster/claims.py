"""Keys and names that only one room of the cluster may have: a record each, which only one node can create.

    claim → create the record, or find out whose it is → the room of a record that nobody can have any more loses it

A durable room writes its records once more in its first batch: a node that was believed dead meanwhile, and lost them,
makes no second room.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from holdfast.cluster.membership import MemberChange, dead
from holdfast.core.errors import Conflict, Expired, NameTaken, Refused, Throttled
from holdfast.core.limits import Limits
from holdfast.logs import get_logger
from holdfast.schemas.cluster import ClaimRecord, KeyAsked
from holdfast.schemas.room import CreationKey
from holdfast.server.admission.bans import key_for
from holdfast.server.cluster.asking import Asking, Gone
from holdfast.server.cluster.finder import Unsure
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.context import Clock
from holdfast.server.directory.directory import Directory
from holdfast.server.directory.shared_claims import Claimed
from holdfast.stores.port import ABSENT, Entry, RevisionConflict, Store, StoreError, Unavailable, Unknown, Write

log = get_logger("holdfast.cluster")

_KEYS, _NAMES = "once", "name"
_MADE, _HAS = "made_with_key", "has_room"
# Records that are looked at together when a node has died.
_AT_ONCE = 16

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(ClaimRecord).decode


class StoredClaims:
    """The claims of this node's rooms, and what others have claimed."""

    def __init__(
        self,
        node: ClusterNode,
        asking: Asking,
        store: Store,
        clock: Clock,
        limits: Limits,
        *,
        rooms: Directory,
        find: Callable[[str], Awaitable[str | None]],
    ) -> None:
        """`find` returns the life of the node that has a room, or should take it now; None if there is no such room."""
        self._node = node
        self._asking = asking
        self._store = store
        self._clock = clock
        self._limits = limits
        self._rooms = rooms
        self._find = find
        self.list_room: Callable[[str, str], Awaitable[None]]
        """Lists a room of the node with this life here, before it has told of it; set where it is composed."""
        self._making: set[str] = set()
        """Rooms that are being made here, with a key or a name, or get a new name."""
        self._is_stopped = False
        self._working: set[asyncio.Task[None]] = set()
        # Keys of rooms that have ended, the oldest first: when they are forgotten.
        self._ended: dict[str, asyncio.TimerHandle] = {}
        asking.answer(_MADE, KeyAsked, self._made)
        asking.answer(_HAS, str, self._has_room)
        node.watch.on_change.append(self._member_changed)

    def start(self) -> None:
        """Forget what former nodes have left."""
        self._later(self._sweep())

    def stop(self) -> None:
        self._is_stopped = True
        for task in self._working:
            task.cancel()
        for timer in self._ended.values():
            timer.cancel()

    # `SharedClaims`

    async def claim_key(self, key: CreationKey, room_id: str) -> Claimed | str:
        path = _path_of(key)
        record = ClaimRecord(self._node.life, room_id, key.request)
        while True:
            claimed = await self._claim(path, record)
            if isinstance(claimed, Claimed):
                return claimed
            if claimed.request != key.request:
                raise Conflict(f"the key {key.key!r} was used for a different request: use a new key")
            if claimed.ended_at:
                raise Expired(f"the room created with the key {key.key!r} has ended: use a new key")
            if self._rooms.index.row(claimed.room) is not None or claimed.life == self._node.life:
                return claimed.room
            try:
                asked = KeyAsked(key.creator, key.key)
                made = await self._asking.ask(
                    claimed.life, _MADE, asked, str, within_s=self._limits.activation_s + self._limits.answer_s
                )
            except Gone:
                made = ""
            owner = claimed.life if made else await self._owner_of(claimed.room)
            if owner is not None:
                await self.list_room(owner, claimed.room)
                return claimed.room
            # It could not be made, or is lost with its node.

    async def claim_name(self, kind: str, name: str, room_id: str) -> Claimed:
        claimed = await self._claim(_name_path(kind, name), ClaimRecord(self._node.life, room_id))
        if isinstance(claimed, Claimed):
            return claimed
        raise NameTaken(f"another {kind} has the name {name!r}; choose a different one")

    def release_key(self, key: CreationKey, room_id: str) -> None:
        self._later(self._delete(_path_of(key), room_id))

    def room_ended(self, key: CreationKey, room_id: str) -> None:
        self._later(self._mark_ended(_path_of(key), room_id))

    def release_name(self, kind: str, name: str, room_id: str) -> None:
        self._later(self._delete(_name_path(kind, name), room_id))

    def settled(self, room_id: str) -> None:
        self._making.discard(room_id)

    # Claiming

    async def _claim(self, path: str, record: ClaimRecord) -> Claimed | ClaimRecord:
        """Let a room have the record, or return that of the room which has it."""
        self._making.add(record.room)
        value = _encode(record)
        revision = ABSENT
        while True:
            try:
                return Claimed(Write(path, value, await self._store.put(path, value, revision)))
            except (RevisionConflict, Unknown):
                pass
            except Unavailable:
                raise Throttled("the store cannot save at the moment; try again later") from None
            try:
                entry = await self._store.get(path)
            except (Unavailable, Unknown):
                raise Throttled("the store does not answer; try again later") from None
            if entry is None:
                revision = ABSENT
                continue
            known = _decode(entry.value)
            if known.room == record.room:
                return Claimed(Write(path, value, entry.revision))
            if not await self._is_over(known):
                return known
            revision = entry.revision

    async def _is_over(self, record: ClaimRecord) -> bool:
        """Whether the room of a record can be nowhere any more."""
        if record.ended_at:
            return self._clock.wall_clock() - record.ended_at > self._limits.ended_kept_s
        if self._has_room(record.room) or self._rooms.index.remote.get(record.room) is not None:
            return False
        if self._node.may_live(record.life):
            try:
                if await self._asking.ask(record.life, _HAS, record.room, bool, within_s=2 * self._limits.silent_s):
                    return False
            except Gone:
                pass
        return await self._owner_of(record.room) is None

    async def _owner_of(self, room_id: str) -> str | None:
        try:
            return await self._find(room_id)
        except (Unsure, StoreError):
            raise Throttled("a node of the cluster does not answer; try again in a moment") from None

    def _has_room(self, room_id: str) -> bool:
        return room_id in self._making or self._rooms.get(room_id) is not None

    async def _made(self, asked: KeyAsked) -> str:
        """Wait for the room that is made here with a key; "" if there is none."""
        return await self._rooms.names.made_with(asked.creator, asked.key)

    # Letting go

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        if self._is_stopped:
            # The store is about to close; another node sweeps what this one leaves.
            work.close()
            return
        task = self._clock.loop.create_task(self._guarded(work))
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        # A task that is cancelled before its first step has not begun the work.
        task.add_done_callback(lambda _: work.close())

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (StoreError, Refused) as error:
            # It is looked at again by whoever wants the key or the name, and when a node starts.
            log.info("a key or a name of a room could not be given back", why=repr(error))

    async def _delete(self, path: str, room_id: str) -> None:
        entry = await self._entry_of(path, room_id)
        if entry is not None:
            await self._store.delete(path, entry.revision)

    async def _mark_ended(self, path: str, room_id: str) -> None:
        entry = await self._entry_of(path, room_id)
        if entry is None:
            return
        record = msgspec.structs.replace(_decode(entry.value), ended_at=self._clock.wall_clock())
        await self._store.put(path, _encode(record), entry.revision)
        self._ended[path] = self._clock.loop.call_later(self._limits.ended_kept_s, self._forget, path, room_id)
        if len(self._ended) > self._limits.ended_kept_max:
            oldest = next(iter(self._ended))
            self._ended[oldest].cancel()
            self._forget(oldest, "")

    def _forget(self, path: str, room_id: str) -> None:
        del self._ended[path]
        self._later(self._delete(path, room_id))

    async def _entry_of(self, path: str, room_id: str) -> Entry | None:
        """The record, if it is still that of this room, or of one that has ended if no room is named."""
        entry = await self._store.get(path)
        if entry is None:
            return None
        known = _decode(entry.value)
        return entry if known.room == room_id or (not room_id and known.ended_at) else None

    # What dead nodes have left

    def _member_changed(self, change: MemberChange) -> None:
        if dead([change]) and self._node.next_taker(change.life) == self._node.life:
            self._later(self._sweep(self._limits.recovering_s))

    async def _sweep(self, after_s: float = 0.0) -> None:
        """Delete the records of rooms that nobody can have any more."""
        # First whoever takes them over has to be heard.
        await asyncio.sleep(after_s)
        entries = [*await self._store.list(_KEYS), *await self._store.list(_NAMES)]
        for start in range(0, len(entries), _AT_ONCE):
            await asyncio.gather(*(self._sweep_one(entry) for entry in entries[start : start + _AT_ONCE]))

    async def _sweep_one(self, entry: Entry) -> None:
        record = _decode(entry.value)
        if record.life == self._node.life or self._node.may_live(record.life):
            return
        try:
            if await self._is_over(record):
                await self._store.delete(entry.key, entry.revision)
        except (RevisionConflict, Throttled):
            return


def _path_of(key: CreationKey) -> str:
    return key_for(f"{_KEYS}/", f"{key.creator}\0{key.key}")


def _name_path(kind: str, name: str) -> str:
    return key_for(f"{_NAMES}/", f"{kind}\0{name}")
