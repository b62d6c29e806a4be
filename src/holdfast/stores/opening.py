"""From a setting to a store."""

from holdfast.stores.memory import MemoryStore
from holdfast.stores.port import Store
from holdfast.stores.sqlite import SqliteStore


def open_store(url: str | Store) -> Store:
    """The store that a setting names, yet to be opened: "sqlite:game.db", "sqlite:/var/lib/game.db" or "memory:"."""
    if not isinstance(url, str):
        return url
    match url.partition(":"):
        case "memory", ":", "":
            return MemoryStore()
        case "sqlite", ":", path if path:
            return SqliteStore(path)
        case _:
            raise ValueError(f'{url!r} names no store: there are "memory:" and "sqlite:game.db" (any path)')
