"""Creates the store of a setting."""

from holdfast.core.limits import NatsLimits
from holdfast.stores.memory import MemoryStore
from holdfast.stores.nats import NatsStore
from holdfast.stores.nats.address import SCHEMES, parse_address
from holdfast.stores.port import Store
from holdfast.stores.sqlite import SqliteStore


def open_store(url: str | Store, limits: NatsLimits | None = None) -> Store:
    """The store of a setting, not opened yet: "sqlite:game.db", "nats://127.0.0.1:4222/game" or "memory:"."""
    if not isinstance(url, str):
        return url
    match url.partition(":"):
        case "memory", ":", "":
            return MemoryStore()
        case "sqlite", ":", path if path:
            return SqliteStore(path)
        case _ if is_on_nats(url):
            return NatsStore(url, limits=limits)
        case _:
            raise ValueError(
                f'unknown store {url!r}: use "memory:", "sqlite:" and a path, as in "sqlite:game.db", or the address of'
                ' a NATS server, as in "nats://127.0.0.1:4222"'
            )


def is_on_nats(url: str) -> bool:
    """Whether this is the address of a store on NATS."""
    return url.startswith(tuple(f"{scheme}://" for scheme in SCHEMES))


def shown_store(url: str) -> str:
    """The setting without the secrets that it may have."""
    return str(parse_address(url)) if is_on_nats(url) else url
