"""A store in one SQLite file: durable when a commit returns, and shared with other processes that open the file.

Several processes may have the file open: the one server that has its lock, and tools that read it; or a server and the
former one whose rooms it took over: revisions decide which may write. One thread writes and one reads, each with its
own connection.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from holdfast.stores.port import (
    Batch,
    Broken,
    Claim,
    Entry,
    Outcome,
    Unavailable,
    Unknown,
    Write,
    check_batches,
    check_key,
    check_prefix,
    commit_one,
)
from holdfast.stores.sqlite.connections import Reader, Writer
from holdfast.stores.sqlite.worker import PeriodicCheck, Worker


@dataclass(frozen=True, slots=True)
class _Open:
    """What exists from `open` to `close`."""

    writing: Worker
    reading: Worker
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
        check = PeriodicCheck(self._writer.look, self._look_s)
        opened = _Open(
            writing=Worker("holdfast-store-writer", timeout_s=self._timeout_s, broken=broken, check=check),
            reading=Worker("holdfast-store-reader", timeout_s=self._timeout_s, broken=broken),
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

    async def list(self, prefix: str) -> list[Entry]:
        check_prefix(prefix)
        entries = await self._check_open().reading.run(partial(self._reader.list, prefix), late=Unavailable)
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
        write = partial(self._writer.write, batches)
        outcomes = await opened.writing.run(write, late=Unknown)
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
