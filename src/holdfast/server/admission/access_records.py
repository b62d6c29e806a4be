"""Bans and sign-outs in the store: each record as it was last set, tried until the store has it.

They do not go through the committer, which waits for the turns of rooms: a handler in the middle of a turn may wait for
a ban to be saved.
"""

import asyncio
from collections.abc import Callable

from holdfast.logs import get_logger
from holdfast.server.context import Context
from holdfast.stores.port import ABSENT, Broken, Entry, RevisionConflict, Store, StoreError, Write

log = get_logger("holdfast.server")


class AccessRecords:
    """What the store is to have under some keys. Without a store nothing is written."""

    def __init__(self, context: Context, store: Store | None, fatal: Callable[[Broken], None]) -> None:
        self._loop = context.clock.loop
        self._limits = context.limits
        self._faults = context.faults
        self._store = store
        self._fatal = fatal
        self._revisions: dict[str, int] = {}
        self._wanted: dict[str, bytes | None] = {}
        self._begun = 0
        # Who waits until the write with this number, or a later one, has succeeded.
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._is_refused = False

    async def read(self, prefix: str) -> list[Entry]:
        """What the store has."""
        if self._store is None:
            return []
        entries = await self._store.list(prefix)
        self._revisions.update((entry.key, entry.revision) for entry in entries)
        return entries

    def want(self, key: str, value: bytes | None) -> None:
        """Have the store keep this from now on, or nothing; it is written by and by."""
        if self._store is None:
            return
        self._wanted[key] = value
        if self._writing is None:
            self._writing = self._loop.create_task(self._write_all(self._store))

    async def saved(self) -> None:
        """Wait until the store has everything that is wanted now."""
        if self._writing is not None:
            waiter = self._loop.create_future()
            # What is wanted goes with the next write; if nothing is, all of it is on its way.
            self._waiters.append((self._begun + bool(self._wanted), waiter))
            await waiter

    async def stop(self, within_s: float) -> None:
        """Write what is wanted, as far as time allows."""
        if self._writing is not None:
            await asyncio.wait([self._writing], timeout=within_s)
        if self._writing is not None:
            log.error("bans and sign-outs could not be saved before the end", count=len(self._wanted))
            self._writing.cancel()
            await asyncio.wait([self._writing])

    async def _write_all(self, store: Store) -> None:
        try:
            while self._wanted:
                await self._write(store)
        except Broken as error:
            self._fatal(error)
        except Exception as error:  # noqa: BLE001 - logged, counted, contained; who waits for it is told
            self._faults.report("saving a ban or a sign-out", error)
        finally:
            self._writing = None

    async def _write(self, store: Store) -> None:
        wanted, self._wanted = self._wanted, {}
        self._begun += 1
        known = [Write(key, value, self._revisions.get(key, ABSENT)) for key, value in wanted.items()]
        writes = [write for write in known if write.value is not None or write.revision != ABSENT]
        try:
            async with asyncio.timeout(self._limits.commit_timeout_s):
                [outcome] = await store.commit([writes])
            if isinstance(outcome, RevisionConflict):
                raise outcome
        except Broken:
            raise
        except (StoreError, TimeoutError) as error:
            # What was wanted since counts more.
            self._wanted = wanted | self._wanted
            await self._try_later(store, error)
            return
        self._is_refused = False
        self._revisions.update((write.key, revision) for write, revision in zip(writes, outcome, strict=True))
        for key in [key for key, value in wanted.items() if value is None]:
            self._revisions.pop(key, None)
        for number, waiter in self._waiters:
            if number <= self._begun and not waiter.done():
                waiter.set_result(None)
        self._waiters = [(number, waiter) for number, waiter in self._waiters if number > self._begun]

    async def _try_later(self, store: Store, error: Exception) -> None:
        if not self._is_refused:
            self._is_refused = True
            log.warning("bans and sign-outs are in force, but the store does not save them; trying again", error=error)
        await asyncio.sleep(self._limits.store_retry_s)
        # It may have been written after all, or another has written: the word of who operates this node is newer.
        for key in list(self._wanted):
            try:
                async with asyncio.timeout(self._limits.commit_timeout_s):
                    entry = await store.get(key)
            except Broken:
                raise
            except (StoreError, TimeoutError):
                return
            self._revisions[key] = entry.revision if entry is not None else ABSENT
