"""What a server lends its authenticators when it starts: a secret, chance, clocks, limits, and a place for records."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random, SystemRandom
from typing import Protocol, runtime_checkable

from holdfast.core.limits import Limits
from holdfast.identity.shelf import MemoryShelf, Shelf


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a server lends its authenticators. The defaults are for one that stands alone, without a server."""

    secret: bytes = field(default=b"", repr=False)
    """The server's own, the same after a restart if it has a store; empty if there is no server."""
    random: Random = field(default_factory=SystemRandom)
    now: Callable[[], float] = time.monotonic
    """For waits: it never jumps."""
    wall_clock: Callable[[], float] = time.time
    """Seconds since 1970."""
    limits: Limits = field(default_factory=Limits)
    shelf: Shelf = field(default_factory=lambda: MemoryShelf(Limits().records_in_memory_max))
    """Where records are kept: in the server's store, if it has one."""


@runtime_checkable
class Preparing(Protocol):
    """An authenticator that needs something of the server."""

    async def prepare(self, ground: Ground) -> None:
        """The server starts, and lends this. Called again at each start."""
