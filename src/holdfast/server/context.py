"""The clock that every part of a server is given."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """The event loop for timers, a monotonic clock for durations, and a wall clock for what outlives the process."""

    loop: asyncio.AbstractEventLoop
    now: Callable[[], float]
    """Counts as the timers of `loop` do."""
    wall_clock: Callable[[], float]
    """Seconds since 1970."""
