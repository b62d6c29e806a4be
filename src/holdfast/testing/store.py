"""A store in memory whose commits take time, fail when told to, and are interrupted by a crash.

    disk = Disk()
    server = MemoryServer([Arena], store=FaultyStore(disk, latency_s=0.01))

The disk keeps what was written, for the next server with a store on it. Without faults it behaves like any other store.
`MemoryStorage` keeps a client's session across restarts of its process.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from random import Random

from holdfast.stores.memory import MemoryData, MemoryStore
from holdfast.stores.port import (
    Batch,
    Broken,
    Claim,
    Entry,
    Outcome,
    RevisionConflict,
    StoreError,
    Unavailable,
    Unknown,
    check_batches,
    check_key,
    check_path,
    is_at,
)

Outcomes = list[Outcome]


class Disk(MemoryData):
    """The data that outlives every process. `on_written` is called for each batch, in order, once it is durable."""

    def __init__(self) -> None:
        super().__init__()
        self.on_written: Callable[[Batch, FaultyStore], None] = lambda *_: None
        """Called with the batch and the store that wrote it."""


@dataclass(frozen=True, slots=True)
class _Failure:
    error: StoreError
    is_written: bool | None


@dataclass(slots=True, eq=False)
class _Flight:
    """A commit that is being written."""

    batches: Sequence[Batch]
    answer: asyncio.Future[Outcomes]
    failure: _Failure | None


class FaultyStore(MemoryStore):
    """One process's access to a disk, with faults. Equal seeds give equal faults."""

    def __init__(
        self,
        disk: Disk | None = None,
        *,
        latency_s: float = 0.0,
        jitter_s: float = 0.0,
        random: Random | None = None,
    ) -> None:
        """Each call takes `latency_s` and up to `jitter_s` more; both may be changed at any time."""
        self.disk = disk or Disk()
        super().__init__(self.disk)
        self.latency_s = latency_s
        self.jitter_s = jitter_s
        self.is_full = False
        """Whether the disk is full: every commit raises `Unavailable`."""
        self.silence_s: float | None = None
        """How long calls wait in vain for an answer, if the way to the disk is cut: reads raise `Unavailable` then, and
        commits `Unknown`, written or not. None: they are answered."""
        self.past: dict[str, Entry] | None = None
        """What reads find instead of what is on the disk, as from a server that is cut off and does not know it."""
        self.calls = 0
        """The number of calls so far."""
        self._random = random or Random(0)
        self._is_dead = False
        self._busy_until = 0.0
        self._failures: dict[int, _Failure] = {}
        self._flights: dict[_Flight, None] = {}
        self._broken: asyncio.Future[Broken] | None = None

    @property
    def is_writing(self) -> bool:
        return bool(self._flights)

    def fail(self, error: StoreError, *, call: int = 1, is_written: bool | None = None) -> None:
        """Let a later call fail; 1 is the next. `Unavailable` writes nothing.

        With any other error `is_written` says whether the commit is written nevertheless; None decides it at random for
        each batch.
        """
        self._failures[self.calls + call] = _Failure(error, is_written)

    def heal(self) -> None:
        """No fault from now on, not even those that were announced."""
        self.is_full, self.silence_s, self.past = False, None, None
        self._failures.clear()

    def crash(self) -> None:
        """The process dies: each batch that is being written is written or lost, at random. `open` starts over."""
        flights, self._flights = self._flights, {}
        for flight in flights:
            self._write(flight.batches, is_written=None)
        self._is_open = False
        self._is_dead = True

    async def open(self, claim: Claim = "shared") -> None:
        await super().open(claim)
        self._is_dead = False
        self._broken = asyncio.get_running_loop().create_future()

    async def close(self) -> None:
        if self._flights:
            await asyncio.wait([flight.answer for flight in self._flights])
        await super().close()

    async def get(self, key: str) -> Entry | None:
        check_key(key)
        await self._read()
        return await super().get(key) if self.past is None else self.past.get(key)

    async def list(self, path: str) -> list[Entry]:
        check_path(path)
        await self._read()
        if self.past is None:
            return await super().list(path)
        return [self.past[key] for key in sorted(self.past) if is_at(path, key)]

    async def commit(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        check_batches(batches)
        failure = await self._called()
        if self.silence_s is not None:
            # The answer is lost, or the question.
            self._write(batches, is_written=None if self.past is None else False)
            await asyncio.sleep(self.silence_s)
            raise Unknown("no answer")
        if self.is_full:
            raise Unavailable("the disk is full")
        if failure is not None and isinstance(failure.error, Unavailable):
            raise failure.error
        loop = asyncio.get_running_loop()
        flight = _Flight(batches, loop.create_future(), failure)
        self._flights[flight] = None
        # One at a time, also if a caller gives up and tries again.
        self._busy_until = max(self._busy_until, loop.time() + self._delay_s())
        if self._busy_until > loop.time():
            # Not in the caller's context: the disk works on when the caller's machine is paused.
            loop.call_at(self._busy_until, self._land, flight, context=Context())
        else:
            self._land(flight)
        return await flight.answer

    def _land(self, flight: _Flight) -> None:
        if flight not in self._flights:
            return
        del self._flights[flight]
        failure = flight.failure
        outcomes = self._write(flight.batches, is_written=True if failure is None else failure.is_written)
        if flight.answer.done():
            # The caller gave up.
            return
        if failure is None:
            flight.answer.set_result(outcomes)
        else:
            flight.answer.set_exception(self._failed(failure.error))

    def _write(self, batches: Sequence[Batch], *, is_written: bool | None) -> Outcomes:
        chances = [self._random.random() < 0.5 if is_written is None else is_written for _ in batches]  # noqa: PLR2004
        return [self._write_one(batch) for batch, is_lucky in zip(batches, chances, strict=True) if is_lucky]

    def _write_one(self, batch: Batch) -> Outcome:
        outcome = self.disk.write(batch)
        if not isinstance(outcome, RevisionConflict):
            self.disk.on_written(batch, self)
        return outcome

    async def _read(self) -> None:
        failure = await self._called()
        if failure is not None:
            raise self._failed(failure.error)
        if self.silence_s is not None and self.past is None:
            await asyncio.sleep(self.silence_s)
            raise Unavailable("no answer")
        if delay_s := self._delay_s():
            await asyncio.sleep(delay_s)

    def _failed(self, error: StoreError) -> StoreError:
        if isinstance(error, Broken) and self._broken is not None and not self._broken.done():
            self._broken.set_result(error)
        return error

    async def failure(self) -> Broken:
        self._check_open()
        assert self._broken is not None
        return await asyncio.shield(self._broken)

    async def _called(self) -> _Failure | None:
        if self._is_dead:
            # The caller has crashed too, and gets no answer.
            await asyncio.get_running_loop().create_future()
        self._check_open()
        self.calls += 1
        return self._failures.pop(self.calls, None)

    def _delay_s(self) -> float:
        return self.latency_s + self.jitter_s * self._random.random() if self.latency_s or self.jitter_s else 0.0


class MemoryStorage:
    """A saved session in memory: `connect(url, saved=storage)` in one process, and again in its successor."""

    def __init__(self, written: bytes = b"") -> None:
        self.written = written
        """What a new process would read."""

    def read(self) -> bytes:
        return self.written

    def append(self, record: bytes) -> None:
        self.written += record

    def replace(self, state: bytes) -> None:
        self.written = state

    def remove(self) -> None:
        self.written = b""

    def close(self) -> None:
        """Nothing to let go of."""
