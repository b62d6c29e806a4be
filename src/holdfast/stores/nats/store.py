"""A store on NATS JetStream, for one server or a cluster: durable when a commit returns, and on machines of its own.

All records of a store are in one stream, whose sequence numbers are the revisions.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.core.limits import Limits, NatsLimits
from holdfast.stores.nats.address import parse_address
from holdfast.stores.nats.holder import StoreHolder
from holdfast.stores.nats.link import NatsLink, check_library
from holdfast.stores.nats.reading import NatsReader
from holdfast.stores.nats.setup import prepare
from holdfast.stores.nats.subjects import Subjects
from holdfast.stores.nats.writing import NatsWriter
from holdfast.stores.port import (
    Batch,
    Broken,
    Claim,
    Entry,
    Outcome,
    StoreError,
    Write,
    check_batches,
    check_key,
    check_path,
    commit_one,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Connected:
    """What exists from `open` to `close`."""

    link: NatsLink
    reader: NatsReader
    writer: NatsWriter
    holder: StoreHolder


class NatsStore:
    """A handle of the store at an address, as in "nats://127.0.0.1:4222/arena"; it is made if it does not exist."""

    def __init__(self, address: str, *, limits: NatsLimits | None = None, must_exist: bool = False) -> None:
        """`must_exist`: do not make it."""
        self.address = parse_address(address)
        check_library()
        self._limits = limits or Limits()
        self._must_exist = must_exist
        self._subjects = Subjects(self.address.name)
        self._opened: _Connected | None = None
        self._commits: set[asyncio.Task[Any]] = set()

    async def open(self, claim: Claim = "shared") -> None:
        if self._opened is not None:
            raise ValueError("the store is already open")
        link = NatsLink(self.address, self._limits)
        await link.open()
        try:
            await prepare(link, self.address, self._limits, claim=claim, make=not self._must_exist)
            reader = NatsReader(link, self._subjects, self._limits)
            holder = StoreHolder(link, reader, self._subjects, self._limits, place=str(self.address))
            if claim == "member":
                await holder.join()
            elif claim != "shared":
                await holder.take(takeover=claim == "takeover")
        except BaseException:
            await link.close()
            raise
        writer = NatsWriter(link, reader, self._subjects, self._limits)
        self._opened = _Connected(link, reader, writer, holder)

    async def reclaim(self) -> bool:
        return await self._check_open().holder.has_it()

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is None:
            return
        if self._commits:
            await asyncio.wait(self._commits)
        with suppress(StoreError):  # then the next server finds out that nobody answers
            await opened.holder.release()
        await opened.link.close()

    async def get(self, key: str) -> Entry | None:
        check_key(key)
        opened = self._check_open()
        found = await opened.reader.get(key)
        if found is None:
            return None
        opened.writer.read(key, found[1])
        return found[0]

    async def list(self, path: str) -> list[Entry]:
        check_path(path)
        opened = self._check_open()
        found = await opened.reader.list(path)
        for entry, parts in found:
            opened.writer.read(entry.key, parts)
        return [entry for entry, _ in found]

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
        return await self._to_its_end(opened.writer.write(batches))

    async def _to_its_end(self, commit: Coroutine[Any, Any, T]) -> T:
        """A caller that gives up leaves no batch in the middle, and `close` waits for it."""
        task = asyncio.create_task(commit)
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)
        return await asyncio.shield(task)

    async def failure(self) -> Broken:
        failure = self._check_open().link.failure
        assert failure is not None
        return await asyncio.shield(failure)

    def _check_open(self) -> _Connected:
        if self._opened is None:
            raise ValueError("the store is not open")
        return self._opened
