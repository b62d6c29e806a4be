"""A store that writes down what it has committed: the trail by which the chain of each room's records is checked."""

import asyncio
from collections.abc import Callable, Sequence

from holdfast.core.records import decode_room, digest
from holdfast.stores import Batch, Broken, Claim, Entry, Outcome, RevisionConflict, Store, Unavailable
from tests.storm.history import Writer

_PREFIX = "room/"


def room_of(key: str) -> str | None:
    """Whose record the key is; None for everything else, also for what lies beside a record."""
    room = key.removeprefix(_PREFIX)
    return room if room != key and "/" not in room else None


def brief(digest: bytes) -> str:
    """As much of a hash as tells records apart."""
    return digest[:8].hex()


class AuditStore:
    """Another store, with a trail. `say` is told of each room that somebody else has taken, and of each refusal."""

    def __init__(self, store: Store, trail: Writer, *, say: Callable[[str], None]) -> None:
        self._store = store
        self._trail = trail
        self._say = say
        self.delay_s = 0.0
        """How much longer than it does each commit takes, as on a slow disk."""
        self._unclear: dict[str, bytes] = {}
        """Records that may have been written: the committer reads them back."""

    async def commit(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        try:
            outcomes = await self._store.commit(batches)
        except Unavailable:
            self._say("refused")
            raise
        except BaseException:
            self._say("refused")
            self._unclear |= {key: value for batch in batches for key, value, _ in batch if value is not None}
            raise
        for batch, outcome in zip(batches, outcomes, strict=True):
            for key, value, _ in batch:
                room = room_of(key)
                if room is None:
                    continue
                if isinstance(outcome, RevisionConflict):
                    if key in self._unclear:
                        # Perhaps with itself.
                        continue
                    self._trail.note("fenced", room)
                    self._say(f"fenced {room}")
                elif value is not None:
                    self._note(room, value)
                    self._unclear.pop(key, None)
        return outcomes

    def _note(self, room: str, value: bytes) -> None:
        record = decode_room(value)
        hashes = (brief(record.previous), brief(digest(value)))
        self._trail.note("record", room, record.epoch, record.index, *hashes, record.node)

    # As it is

    async def open(self, claim: Claim = "shared") -> None:
        await self._store.open(claim)

    async def reclaim(self) -> bool:
        return await self._store.reclaim()

    async def close(self) -> None:
        await self._store.close()

    async def failure(self) -> Broken:
        return await self._store.failure()

    async def get(self, key: str) -> Entry | None:
        entry = await self._store.get(key)
        room = room_of(key)
        if entry is not None and room is not None and self._unclear.get(key) == entry.value:
            del self._unclear[key]
            self._note(room, entry.value)
        return entry

    async def list(self, path: str) -> list[Entry]:
        return await self._store.list(path)

    async def put(self, key: str, value: bytes, revision: int) -> int:
        return await self._store.put(key, value, revision)

    async def delete(self, key: str, revision: int) -> None:
        await self._store.delete(key, revision)
