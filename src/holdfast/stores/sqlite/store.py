"""A store in one SQLite file: durable when a commit returns, and shared with other processes that open the file.

Several processes may have the file open: the one server that has its lock, and tools that read it; or a server and the
former one whose rooms it took over: revisions decide which may write. One thread writes and one reads, each with its
own connection.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, TypeVar

from holdfast.stores.port import (
    Batch,
    Broken,
    Claim,
    Entry,
    Outcome,
    StoreError,
    Unavailable,
    Unknown,
    Write,
    check_batches,
    check_key,
    check_path,
    commit_one,
)
from holdfast.stores.sqlite.connections import Reader, Writer

T = TypeVar("T")
_Job = tuple[Callable[[], Any], asyncio.Future[Any]]


class _Worker:
    """A thread that runs jobs one after the other and returns each result to the event loop that created it."""

    def __init__(
        self,
        name: str,
        *,
        timeout_s: float,
        broken: Callable[[Broken], None],
        check: Callable[[], None] | None = None,
        check_s: float | None = None,
    ) -> None:
        """`broken` is called on the event loop when a job or `check` raises `Broken`; `check` runs every `check_s`."""
        self._broken = broken
        self._loop = asyncio.get_running_loop()
        self._timeout_s = timeout_s
        self._check = check
        self._check_s = check_s
        self._jobs: SimpleQueue[_Job | tuple[()] | None] = SimpleQueue()
        # A program that ends without closing its store must not hang; what was acknowledged is on the disk.
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[], T], *, late: type[StoreError]) -> T:
        """Return or raise what `work` does in the thread, or raise `late` if it takes too long; it is not stopped."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((work, future))
        timer = self._loop.call_later(self._timeout_s, self._give_up, future, late)
        try:
            return await future
        finally:
            timer.cancel()

    async def end(self, last: Callable[[], None]) -> None:
        """Let the thread finish its jobs, run `last`, and end."""
        try:
            await self.run(last, late=Unknown)
        finally:
            self._jobs.put(None)

    def _work(self) -> None:
        checked_at = monotonic()
        while True:
            try:
                job = self._jobs.get(timeout=self._check_s)
            except Empty:
                job = ()
            if job is None:
                return
            if job:
                self._do(*job)
            del job  # and its data, before the wait for the next one
            if self._check is not None and self._check_s is not None and monotonic() >= checked_at + self._check_s:
                try:
                    self._check()
                except Broken as error:
                    self._call(self._broken, error)
                checked_at = monotonic()

    def _do(self, work: Callable[[], T], future: asyncio.Future[T]) -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as raised:  # noqa: BLE001 - raised where the result is awaited
            error = raised
        self._call(self._finish, future, result, error)

    def _call(self, call: Callable[..., None], *args: Any) -> None:
        with suppress(RuntimeError):  # the loop has been closed: nothing waits for the result
            self._loop.call_soon_threadsafe(call, *args)

    def _finish(self, future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
        if isinstance(error, Broken):
            self._broken(error)
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def _give_up(self, future: asyncio.Future[Any], late: type[StoreError]) -> None:
        if not future.done():
            future.set_exception(late(f"the disk has not responded for {self._timeout_s:g} s"))


@dataclass(frozen=True, slots=True)
class _Open:
    """What exists from `open` to `close`."""

    writing: _Worker
    reading: _Worker
    failure: asyncio.Future[Broken]


class SqliteStore:
    """A handle of the store in this file, which is created if it does not exist."""

    def __init__(self, path: str | Path, *, timeout_s: float = 30.0, busy_s: float = 5.0, look_s: float = 0.3) -> None:
        """`timeout_s` limits the wait for the disk, `busy_s` for another process that has locked the file.

        Every `look_s` it checks that the file is still the one that was opened.
        """
        self._timeout_s = timeout_s
        self._look_s = look_s
        self._writer = Writer(Path(path), busy_s=busy_s)
        self._reader = Reader(Path(path), busy_s=busy_s)
        self._opened: _Open | None = None

    async def open(self, claim: Claim = "shared") -> None:
        if self._opened is not None:
            raise ValueError("the store is already open")
        failure: asyncio.Future[Broken] = asyncio.get_running_loop().create_future()
        broken = partial(_set, failure)
        start = partial(_Worker, timeout_s=self._timeout_s, broken=broken)
        opened = _Open(
            writing=start("holdfast-store-writer", check=self._writer.look, check_s=self._look_s),
            reading=start("holdfast-store-reader"),
            failure=failure,
        )
        try:
            await opened.writing.run(partial(self._writer.open, claim), late=Unavailable)
            await opened.reading.run(self._reader.open, late=Unavailable)
        except BaseException:
            with suppress(Unknown):  # a disk that does not respond: the first error is enough
                await self._end(opened)
            raise
        self._opened = opened

    async def reclaim(self) -> bool:
        return await self._check_open().writing.run(self._writer.reclaim, late=Unavailable)

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await self._end(opened)

    async def _end(self, opened: _Open) -> None:
        await asyncio.gather(opened.reading.end(self._reader.close), opened.writing.end(self._writer.close))

    async def get(self, key: str) -> Entry | None:
        check_key(key)
        entry = await self._check_open().reading.run(partial(self._reader.get, key), late=Unavailable)
        self._check_file()
        return entry

    async def list(self, path: str) -> list[Entry]:
        check_path(path)
        entries = await self._check_open().reading.run(partial(self._reader.list, path), late=Unavailable)
        self._check_file()
        return entries

    async def put(self, key: str, value: bytes, revision: int) -> int:
        [written] = await commit_one(self, [Write(key, value, revision)])
        return written

    async def delete(self, key: str, revision: int) -> None:
        await commit_one(self, [Write(key, None, revision)])

    async def commit(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        check_batches(batches)
        opened = self._check_open()
        if not any(batches):
            return [[] for _ in batches]
        outcomes = await opened.writing.run(partial(self._writer.write, batches), late=Unknown)
        # Here and not in the thread, which would have to wait once more for the GIL.
        self._check_file()
        return outcomes

    async def failure(self) -> Broken:
        return await asyncio.shield(self._check_open().failure)

    def _check_file(self) -> None:
        try:
            self._writer.guard.check()
        except Broken as error:
            self._writer.failed(error)
            if self._opened is not None:
                _set(self._opened.failure, error)
            raise

    def _check_open(self) -> _Open:
        if self._opened is None:
            raise ValueError("the store is not open")
        return self._opened


def _set(failure: asyncio.Future[Broken], error: Broken) -> None:
    if not failure.done():
        failure.set_result(error)
