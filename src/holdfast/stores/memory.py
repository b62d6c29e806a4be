"""A store in the memory of one process: for tests, and for games that may forget everything when they stop.

Every call completes in one step, without a thread or a timer, so it also works on an event loop with virtual time.
"""

import asyncio
from collections.abc import Sequence

from holdfast.stores.port import (
    ABSENT,
    Batch,
    Broken,
    Claim,
    Entry,
    Full,
    Outcome,
    RevisionConflict,
    Write,
    check_batches,
    check_key,
    check_path,
    commit_one,
    is_at,
)


class MemoryData:
    """The contents of a memory store. Handles that share one `MemoryData` are handles of the same store."""

    def __init__(self, *, entries_max: int | None = None) -> None:
        self.entries: dict[str, Entry] = {}
        self._entries_max = entries_max
        self._revision = 0

    def write(self, batch: Batch) -> Outcome:
        """Write a batch whole, or change nothing."""
        return self._conflict_of(batch) or [self._apply(write) for write in batch]

    def check_space(self, batches: Sequence[Batch]) -> None:
        """Raise `Full` unless every batch without a conflict finds space."""
        if self._entries_max is None:
            return
        accepted = [batch for batch in batches if self._conflict_of(batch) is None]
        added = sum(write.revision == ABSENT and write.value is not None for batch in accepted for write in batch)
        if added and len(self.entries) + added > self._entries_max:
            raise Full(f"at most {self._entries_max} records are kept in memory; give the server a store")

    def _conflict_of(self, batch: Batch) -> RevisionConflict | None:
        for key, _, expected in batch:
            found = self.entries[key].revision if key in self.entries else ABSENT
            if found != expected:
                return RevisionConflict(key, expected, found)
        return None

    def _apply(self, write: Write) -> int:
        key, value, _ = write
        if value is None and key not in self.entries:
            return ABSENT
        self._revision += 1
        if value is None:
            del self.entries[key]
            return ABSENT
        self.entries[key] = Entry(key, value, self._revision)
        return self._revision


class MemoryStore:
    """A handle of a memory store: of its own data, or of the `data` given."""

    def __init__(self, data: MemoryData | None = None, *, is_open: bool = False) -> None:
        """`is_open` is for callers that cannot await `open`."""
        self._data = data or MemoryData()
        self._is_open = is_open

    async def open(self, claim: Claim = "shared") -> None:
        if self._is_open:
            raise ValueError("the store is already open")
        self._is_open = True

    async def reclaim(self) -> bool:
        # Other handles of the same data cannot be distinguished from servers.
        return False

    async def close(self) -> None:
        self._is_open = False

    async def get(self, key: str) -> Entry | None:
        check_key(key)
        self._check_open()
        return self._data.entries.get(key)

    async def list(self, path: str) -> list[Entry]:
        check_path(path)
        self._check_open()
        entries = self._data.entries
        return [entries[key] for key in sorted(entries) if is_at(path, key)]

    async def put(self, key: str, value: bytes, revision: int) -> int:
        [written] = await commit_one(self, [Write(key, value, revision)])
        return written

    async def delete(self, key: str, revision: int) -> None:
        await commit_one(self, [Write(key, None, revision)])

    async def commit(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        check_batches(batches)
        self._check_open()
        self._data.check_space(batches)
        return [self._data.write(batch) for batch in batches]

    async def failure(self) -> Broken:
        # Memory does not break.
        never: asyncio.Future[Broken] = asyncio.get_running_loop().create_future()
        return await never

    def _check_open(self) -> None:
        if not self._is_open:
            raise ValueError("the store is not open")
