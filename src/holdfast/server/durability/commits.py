"""How bundles get into the store, whatever it answers: each is written, or turns out to be somebody else's (R4)."""

import asyncio
from typing import Protocol

from holdfast.core.limits import Limits
from holdfast.server.durability.bundles import Bundle, SessionWriter
from holdfast.stores.port import ABSENT, Entry, RevisionConflict, Store, Unavailable, Unknown


class Fates(Protocol):
    """Who is told what became of bundles: the ledger."""

    def committed(self, bundle: Bundle, revisions: list[int]) -> None:
        """The store has it."""

    def fenced(self, bundle: Bundle, elsewhere: list[SessionWriter], *, has_room: bool) -> None:
        """Somebody else has written a part of it: these sessions, or the room."""

    def refused(self, error: Exception) -> None:
        """The store does not take it at the moment."""

    def accepted(self) -> None:
        """The store works."""


class Commits:
    """Writes bundles until each has its fate."""

    def __init__(self, store: Store, limits: Limits, fates: Fates) -> None:
        self._store = store
        self._limits = limits
        self._fates = fates

    async def write(self, bundles: list[Bundle]) -> None:
        """Write them all; `Broken` if what was written before may be lost."""
        while bundles:
            bundles = await self._try(bundles)

    async def _try(self, bundles: list[Bundle]) -> list[Bundle]:
        """Write the bundles; those whose fate is to be tried again, with the same words."""
        try:
            async with asyncio.timeout(self._limits.commit_timeout_s):
                results = await self._store.commit([bundle.writes for bundle in bundles])
        except Unavailable as error:
            self._fates.refused(error)
            await asyncio.sleep(self._limits.store_retry_s)
            return bundles
        except (Unknown, TimeoutError) as error:
            self._no_answer(error)
            return await self._read_back(bundles)
        self._fates.accepted()
        fenced: list[Bundle] = []
        for bundle, result in zip(bundles, results, strict=True):
            if isinstance(result, RevisionConflict):
                fenced.append(bundle)
            else:
                self._fates.committed(bundle, result)
        # One that was tried before with no answer may have been written after all.
        return await self._read_back(fenced)

    async def _read_back(self, bundles: list[Bundle]) -> list[Bundle]:
        """Look what became of bundles whose commit gave no answer: written, not written, or somebody else's."""
        again: list[Bundle] = []
        if not bundles:
            return again
        for bundle in bundles:
            entries = [await self._get(write.key) for write in bundle.writes]
            values = [entry.value if entry is not None else None for entry in entries]
            revisions = [entry.revision if entry is not None else ABSENT for entry in entries]
            if values == [write.value for write in bundle.writes]:
                self._fates.committed(bundle, revisions)
            elif revisions == [write.revision for write in bundle.writes]:
                again.append(bundle)
            else:
                self._fates.fenced(bundle, bundle.lost_sessions(revisions), has_room=bundle.has_room(revisions))
        if again:
            await asyncio.sleep(self._limits.store_retry_s)
        else:
            self._fates.accepted()
        return again

    async def _get(self, key: str) -> Entry | None:
        while True:
            try:
                async with asyncio.timeout(self._limits.commit_timeout_s):
                    return await self._store.get(key)
            except (Unavailable, Unknown, TimeoutError) as error:
                self._no_answer(error)
                await asyncio.sleep(self._limits.store_retry_s)

    def _no_answer(self, error: Exception) -> None:
        self._fates.refused(Unknown("it does not answer") if isinstance(error, TimeoutError) else error)
