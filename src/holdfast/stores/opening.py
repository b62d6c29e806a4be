"""Creates the store of a setting."""

from holdfast.stores.memory import MemoryStore
from holdfast.stores.port import Store
from holdfast.stores.sqlite import SqliteStore


def open_store(url: str | Store) -> Store:
    """The store of a setting, not opened yet: "sqlite:game.db", "sqlite:/var/lib/game.db" or "memory:"."""
    if not isinstance(url, str):
        return url
    match url.partition(":"):
        case "memory", ":", "":
            return MemoryStore()
        case "sqlite", ":", path if path:
            return SqliteStore(path)
        case _:
            raise ValueError(f'unknown store {url!r}: use "memory:" or "sqlite:" and a path, as in "sqlite:game.db"')
