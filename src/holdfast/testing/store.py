"""A store in memory whose commits take time, fail when told to, and are torn when their process dies.

    disk = Disk()
    server = MemoryServer([Arena], store=FaultyStore(disk, latency_s=0.01))

What was written stays on the disk, for the next server with a store on it. With no fault switched on it is a store like
any other.
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
    check_batches,
    check_key,
    check_prefix,
)

Outcomes = list[Outcome]


class Disk(MemoryData):
    """What outlives every process. `on_written` hears of each batch, in order, the moment that it is there for good."""

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
    """A commit on its way to the disk."""

    batches: Sequence[Batch]
    answer: asyncio.Future[Outcomes]
    failure: _Failure | None


class FaultyStore(MemoryStore):
    """One process's handle of a disk, with its faults. Equal seeds give equal faults."""

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
        """Whether nothing can be written: every commit is `Unavailable`."""
        self.calls = 0
        """How often anything was asked for."""
        self._random = random or Random(0)
        self._is_dead = False
        self._busy_until = 0.0
        self._failures: dict[int, _Failure] = {}
        self._flights: dict[_Flight, None] = {}
        self._broken: asyncio.Future[Broken] | None = None

    @property
    def is_writing(self) -> bool:
        """Whether a commit is on its way to the disk."""
        return bool(self._flights)

    def fail(self, error: StoreError, *, call: int = 1, is_written: bool | None = None) -> None:
        """Let a call to come fail, 1 being the next. `Unavailable` writes nothing.

        With any other error `is_written` says whether the commit reaches the disk all the same; None leaves it to
        chance, batch by batch.
        """
        self._failures[self.calls + call] = _Failure(error, is_written)

    def crash(self) -> None:
        """The process dies: each batch on its way is written or lost, whole and by itself. `open` begins anew."""
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
        return await super().get(key)

    async def list(self, prefix: str) -> list[Entry]:
        check_prefix(prefix)
        await self._read()
        return await super().list(prefix)

    async def commit(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        check_batches(batches)
        failure = await self._called()
        if self.is_full:
            raise Unavailable("the disk is full")
        if failure is not None and isinstance(failure.error, Unavailable):
            raise failure.error
        loop = asyncio.get_running_loop()
        flight = _Flight(batches, loop.create_future(), failure)
        self._flights[flight] = None
        # One after the other, also if somebody has no patience and asks again.
        self._busy_until = max(self._busy_until, loop.time() + self._delay_s())
        if self._busy_until > loop.time():
            # Not in the caller's context: the disk goes on when the caller's machine is paused.
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
            # Nobody waits for it any more.
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
            # Whoever asks is dead, too, and gets no answer.
            await asyncio.get_running_loop().create_future()
        self._check_open()
        self.calls += 1
        return self._failures.pop(self.calls, None)

    def _delay_s(self) -> float:
        return self.latency_s + self.jitter_s * self._random.random() if self.latency_s or self.jitter_s else 0.0
