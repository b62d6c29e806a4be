"""A store in the memory of one process: for tests, and for games that may forget everything when they stop.

It works in one step, without a thread and without time, so a loop with virtual time will do.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from holdfast.stores.batches import check_batches, check_key, check_prefix, revision_of_one
from holdfast.stores.port import ABSENT, Batch, Broken, Change, Claim, Conflict, Entry, Outcome, Write
from holdfast.stores.watching import Watchers


class MemoryData:
    """What a memory store holds; handles that are given the same data are handles of one store."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.watchers: list[Watchers] = []
        self._revision = 0

    def write(self, batch: Batch) -> Outcome:
        """Write a batch whole, or leave everything as it is."""
        for key, _, expected in batch:
            found = self.entries[key].revision if key in self.entries else ABSENT
            if found != expected:
                return Conflict(key, expected, found)
        return [self._apply(write) for write in batch]

    def _apply(self, write: Write) -> int:
        key, value, _ = write
        if value is None and key not in self.entries:
            return ABSENT
        self._revision += 1
        if value is None:
            del self.entries[key]
        else:
            self.entries[key] = Entry(key, value, self._revision)
        for watchers in self.watchers:
            watchers.tell(Change(key, value, self._revision))
        return ABSENT if value is None else self._revision


class MemoryStore:
    """A handle of a memory store: of its own, or of the one that `data` is."""

    def __init__(self, data: MemoryData | None = None) -> None:
        self._data = data or MemoryData()
        self._watchers: Watchers | None = None

    async def open(self, claim: Claim = "shared") -> None:
        """See the port."""
        if self._watchers is not None:
            raise ValueError("the store is open already")
        self._watchers = Watchers()
        self._data.watchers.append(self._watchers)

    async def reclaim(self) -> bool:
        """See the port: other handles of the same data cannot be told from servers."""
        return False

    async def close(self) -> None:
        """See the port."""
        if self._watchers is not None:
            self._data.watchers.remove(self._watchers)
            self._watchers.close()
            self._watchers = None

    async def get(self, key: str) -> Entry | None:
        """See the port."""
        check_key(key)
        self._check_open()
        return self._data.entries.get(key)

    async def list(self, prefix: str) -> list[Entry]:
        """See the port."""
        check_prefix(prefix)
        self._check_open()
        entries = self._data.entries
        return [entries[key] for key in sorted(entries) if key.startswith(prefix)]

    async def put(self, key: str, value: bytes, revision: int) -> int:
        """See the port."""
        return revision_of_one(await self.commit([[Write(key, value, revision)]]))

    async def delete(self, key: str, revision: int) -> None:
        """See the port."""
        revision_of_one(await self.commit([[Write(key, None, revision)]]))

    async def commit(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        """See the port."""
        check_batches(batches)
        self._check_open()
        return [self._data.write(batch) for batch in batches]

    async def failure(self) -> Broken:
        """See the port: memory does not break."""
        never: asyncio.Future[Broken] = asyncio.get_running_loop().create_future()
        return await never

    def watch(self, prefix: str) -> AsyncGenerator[Change, None]:
        """See the port."""
        check_prefix(prefix)
        return self._check_open().watch(prefix, self.list)

    def _check_open(self) -> Watchers:
        if self._watchers is None:
            raise ValueError("the store is not open")
        return self._watchers
