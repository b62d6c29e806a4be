"""Bans, sign-outs and roles in the store: each record is written until the store has its latest value.

They bypass the committer, which waits for the turns of rooms: a handler in the middle of a turn may wait for a ban to
be saved.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from holdfast.logs import get_logger
from holdfast.schemas.shared import AccessChanged
from holdfast.server.context import Context
from holdfast.stores.port import ABSENT, Broken, Entry, RevisionConflict, Store, StoreError, Write

log = get_logger("holdfast.server")


class AccessRecords:
    """The records that the store should have. Without a store nothing is written."""

    def __init__(self, context: Context, store: Store | None, fatal: Callable[[Broken], None]) -> None:
        self._loop = context.clock.loop
        self._limits = context.limits
        self._faults = context.faults
        self._store = store
        self._fatal = fatal
        self._revisions: dict[str, int] = {}
        self._wanted: dict[str, bytes | None] = {}
        self._subjects: dict[str, str] = {}
        """Of the records that are wanted."""
        self.unsaved: dict[str, AccessChanged] = {}
        """Those that another node has told of and has not saved yet."""
        self.tell: Callable[[AccessChanged], None] | None = None
        """In a cluster: tells the other nodes what is wanted, and once more when it is saved."""
        self._begun = 0
        # Futures by the number of the write that they wait for.
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._is_refused = False
        self._dropping: set[asyncio.Task[None]] = set()

    async def read(self, path: str) -> list[Entry]:
        if self._store is None:
            return []
        entries = await self._store.list(path)
        self._revisions.update((entry.key, entry.revision) for entry in entries)
        return entries

    async def read_again(self, path: str) -> list[Entry]:
        """What the store has now; what is known of these records stays as it is."""
        return await self._store.list(path) if self._store is not None else []

    def want(self, key: str, value: bytes | None, subject: str = "", why: str = "") -> None:
        """Write this value in the background, or delete the key; the other nodes are told whose record it is."""
        if self._store is None:
            return
        self.unsaved.pop(key, None)
        if self.tell is not None:
            self.tell(AccessChanged(key, subject, value, ABSENT, why))
            self._subjects[key] = subject
        self._wanted[key] = value
        if self._writing is None:
            self._writing = self._loop.create_task(self._write_all(self._store))

    def drop(self, key: str) -> None:
        """Delete a record that is out of date, unless it was replaced: all nodes of a cluster notice that."""
        if self.tell is None:
            self.want(key, None)
        elif self._store is not None and (revision := self._revisions.pop(key, ABSENT)) != ABSENT:
            task = self._loop.create_task(self._drop(self._store, key, revision))
            self._dropping.add(task)
            task.add_done_callback(self._dropping.discard)

    @staticmethod
    async def _drop(store: Store, key: str, revision: int) -> None:
        # Another node was quicker, or it stays until the next start.
        with suppress(StoreError):
            await store.delete(key, revision)

    async def save(self, key: str, value: bytes, subject: str) -> bool:
        """Save a record for another node, which has told of it; False if somebody else has written it meanwhile."""
        if self._store is None or key in self._wanted:
            return False
        try:
            revision = await self._store.put(key, value, self._revisions.get(key, ABSENT))
        except RevisionConflict:
            return False
        self._revisions[key] = revision
        if self.tell is not None:
            self.tell(AccessChanged(key, subject, value, revision))
        return True

    def heard(self, key: str, revision: int) -> bool:
        """Another node has written this record, or will; False if there is something newer here."""
        if revision == ABSENT:
            return True
        if revision < self._revisions.get(key, ABSENT):
            return False
        self._revisions[key] = revision
        return key not in self._wanted

    def revision_of(self, key: str) -> int:
        """The last that is known."""
        return self._revisions.get(key, ABSENT)

    def is_pending(self, key: str) -> bool:
        """Whether a value of this record is on its way to the store."""
        return key in self._wanted or self._writing is not None

    async def saved(self) -> None:
        """Wait until the store has all present values."""
        if self._writing is not None:
            waiter = self._loop.create_future()
            # Pending values go with the next write; without any, the write in progress has all of them.
            self._waiters.append((self._begun + bool(self._wanted), waiter))
            await waiter

    async def stop(self, within_s: float) -> None:
        """Write pending values, as far as time allows."""
        if self._writing is not None:
            await asyncio.wait([self._writing], timeout=within_s)
        if self._writing is not None:
            log.error("bans, sign-outs and roles could not be saved before the stop", count=len(self._wanted))
            self._writing.cancel()
            await asyncio.wait([self._writing])

    async def _write_all(self, store: Store) -> None:
        try:
            while self._wanted:
                await self._write(store)
        except Broken as error:
            self._fatal(error)
        except Exception as error:  # noqa: BLE001 - logged, counted, contained; waiters give up after a while
            self._faults.report("saving a ban, a sign-out or a role", error)
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
            # A newer value has replaced it meanwhile.
            self._wanted = wanted | self._wanted
            await self._try_later(store, error)
            return
        self._is_refused = False
        self._revisions.update((write.key, revision) for write, revision in zip(writes, outcome, strict=True))
        for key in [key for key, value in wanted.items() if value is None]:
            self._revisions.pop(key, None)
        if self.tell is not None:
            for write, revision in zip(writes, outcome, strict=True):
                if write.value is not None:
                    self.tell(AccessChanged(write.key, self._subjects.get(write.key, ""), write.value, revision))
        for key in wanted.keys() - self._wanted.keys():
            self._subjects.pop(key, None)
        for number, waiter in self._waiters:
            if number <= self._begun and not waiter.done():
                waiter.set_result(None)
        self._waiters = [(number, waiter) for number, waiter in self._waiters if number > self._begun]

    async def _try_later(self, store: Store, error: Exception) -> None:
        if not self._is_refused:
            self._is_refused = True
            log.warning(
                "the store cannot save bans, sign-outs and roles, which are in force; trying again", error=error
            )
        await asyncio.sleep(self._limits.store_retry_s)
        # The write may have succeeded, or somebody else wrote: this node's value is newer.
        for key in list(self._wanted):
            try:
                async with asyncio.timeout(self._limits.commit_timeout_s):
                    entry = await store.get(key)
            except Broken:
                raise
            except (StoreError, TimeoutError):
                return
            self._revisions[key] = entry.revision if entry is not None else ABSENT
