"""A place that holds one store, for each adapter, and the handles that a test opens on it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from pathlib import Path

from holdfast.stores import ABSENT, Change, MemoryData, MemoryStore, SqliteStore, Store
from holdfast.testing import Disk, FaultyStore
from tests.deadlines import DEADLINE_S

ADAPTERS: Mapping[str, Callable[[Path], Callable[[], Store]]] = {
    "memory": lambda _: partial(MemoryStore, MemoryData()),
    "faulty": lambda _: partial(FaultyStore, Disk(), latency_s=0.0005),
    "sqlite": lambda folder: partial(SqliteStore, folder / "store.db"),
}

NEVER = 2**40
"""A revision that no test gets as far as."""


class Place:
    """Handles opened here are handles of one store; what was written stays when all of them are closed."""

    def __init__(self, adapter: str, folder: Path) -> None:
        self._make = ADAPTERS[adapter](folder)
        self._opened: list[Store] = []

    async def open(self) -> Store:
        store = self._make()
        await store.open()
        self._opened.append(store)
        return store

    async def close(self) -> None:
        for store in self._opened:
            await store.close()


async def fill(store: Store, *keys: str) -> dict[str, int]:
    """Make the keys, each with its name as its value; their revisions."""
    return {key: await store.put(key, key.encode(), ABSENT) for key in keys}


async def contents(store: Store) -> dict[str, bytes]:
    return {entry.key: entry.value for entry in await store.list("")}


async def take(watch: AsyncIterator[Change], count: int) -> list[Change]:
    async with asyncio.timeout(DEADLINE_S):
        return [await anext(watch) for _ in range(count)]


async def rest(watch: AsyncIterator[Change]) -> list[Change]:
    async with asyncio.timeout(DEADLINE_S):
        return [change async for change in watch]
