"""A store that does as it is told: slow, full, silent, broken, or dead with the process that used it."""

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NoReturn

from holdfast.stores import (
    Batch,
    Broken,
    Entry,
    MemoryData,
    MemoryStore,
    Outcome,
    Unavailable,
    Unknown,
    Write,
)


class Fault(Enum):
    """What becomes of a commit."""

    UNAVAILABLE = "unavailable"
    UNKNOWN_WRITTEN = "unknown, but written"
    UNKNOWN_LOST = "unknown, and not written"
    BROKEN = "broken"


class Moment(Enum):
    """Where in a commit something can happen."""

    BEFORE = "before it is written"
    WRITTEN = "after it is written, before it is answered"
    ANSWERED = "what it held is on its way to the clients"
    HEARD = "the clients have heard of it"


NO_FAULT: Callable[[int], Fault | None] = lambda _: None  # noqa: E731 - the shortest way to say nothing


class FaultyStore(MemoryStore):
    """A handle of one memory store, for one server; `data` is what outlives it."""

    def __init__(self, data: MemoryData) -> None:
        super().__init__(data)
        self.data = data
        self.is_dead = False
        self.is_alone = False
        """Whether it can tell that no other server is on the store."""
        self.is_deaf = False
        """Whether questions get no answer."""
        self.latency_s = 0.0
        """How long a commit takes, half of it before it is written."""
        self.fault = NO_FAULT
        """What becomes of the commit with this number, from 1."""
        self.on_moment: Callable[[int, Moment], None] = lambda _number, _moment: None
        self.commits = 0
        """How many were begun."""
        self.in_flight_most = 0
        self.written: list[Sequence[Batch]] = []
        """Every commit that was written, whole or in part."""
        self._in_flight = 0
        self._flows = asyncio.Event()
        self._flows.set()

    def hold(self) -> None:
        """Let no further commit be written."""
        self._flows.clear()

    def release(self) -> None:
        """Let commits be written."""
        self._flows.set()

    @property
    def is_waiting(self) -> bool:
        """Whether a commit is held."""
        return self._in_flight > 0 and not self._flows.is_set()

    async def reclaim(self) -> bool:
        return self.is_alone

    async def get(self, key: str) -> Entry | None:
        if self.is_dead:
            await _never()
        while self.is_deaf:  # noqa: ASYNC110 - costs nothing in virtual time
            await asyncio.sleep(0.1)
        return await super().get(key)

    async def commit(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        if self.is_dead:
            await _never()
        self.commits += 1
        number = self.commits
        self._in_flight += 1
        self.in_flight_most = max(self.in_flight_most, self._in_flight)
        try:
            return await self._commit(number, batches)
        finally:
            self._in_flight -= 1

    async def _commit(self, number: int, batches: Sequence[Batch]) -> Sequence[Outcome]:
        await self._flows.wait()
        if self.latency_s:
            await asyncio.sleep(self.latency_s / 2)
        await self._tell(number, Moment.BEFORE)
        match self.fault(number):
            case Fault.UNAVAILABLE:
                raise Unavailable("the disk is full")
            case Fault.UNKNOWN_LOST:
                raise Unknown("no answer")
            case Fault.BROKEN:
                raise Broken("fsync failed")
            case Fault.UNKNOWN_WRITTEN:
                await super().commit(batches)
                self.written.append(batches)
                raise Unknown("no answer")
            case None:
                pass
        outcomes = await super().commit(batches)
        self.written.append(batches)
        await self._tell(number, Moment.WRITTEN)
        if self.latency_s:
            await asyncio.sleep(self.latency_s / 2)
        loop = asyncio.get_running_loop()
        loop.call_soon(self.on_moment, number, Moment.ANSWERED)
        loop.call_later(0.001, self.on_moment, number, Moment.HEARD)
        return outcomes

    async def _tell(self, number: int, moment: Moment) -> None:
        self.on_moment(number, moment)
        if self.is_dead:
            await _never()

    # What a test looks at

    @property
    def keys(self) -> list[str]:
        return sorted(self.data.entries)

    def keys_of(self, prefix: str) -> list[str]:
        return [key for key in self.keys if key.startswith(prefix)]

    def value(self, key: str) -> bytes:
        return self.data.entries[key].value

    def written_keys(self, start: int = 0) -> list[str]:
        """The keys of every write since the commit with this number."""
        return [write.key for commit in self.written[start:] for batch in commit for write in batch]

    def intrude(self, key: str) -> bytes:
        """Somebody else writes the key, with what it has: who based anything on the revision before has lost."""
        entry = self.data.entries[key]
        self.data.write([Write(key, entry.value, entry.revision)])
        return entry.value


async def _never() -> NoReturn:
    await asyncio.get_running_loop().create_future()
    raise AssertionError("nobody sets this future")
