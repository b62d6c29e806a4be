"""A place that holds one store, for each adapter, and the handles that a test opens on it."""

import secrets
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from holdfast.stores import ABSENT, MemoryData, MemoryStore, NatsStore, SqliteStore, Store
from holdfast.testing import Disk, FaultyStore
from tests.nats_server import shared_server

ADAPTERS: Mapping[str, Callable[[Path], Callable[[], Store]]] = {
    "memory": lambda _: partial(MemoryStore, MemoryData()),
    "faulty": lambda _: partial(FaultyStore, Disk(), latency_s=0.0005),
    "nats": lambda _: partial(NatsStore, f"{shared_server().url}/{secrets.token_hex(8)}"),
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
