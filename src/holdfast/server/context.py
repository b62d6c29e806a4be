"""What every part of a server may use: a clock, limits, random numbers, and whom to tell."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from holdfast.core.limits import Limits
from holdfast.observability.metrics import Counters
from holdfast.schemas.events import Event
from holdfast.server.alarms import Alarms
from holdfast.server.faults import Faults


@dataclass(slots=True)
class Clock:
    """The event loop for timers, a monotonic clock for durations, and a wall clock for what outlives the process."""

    loop: asyncio.AbstractEventLoop
    now: Callable[[], float]
    """Counts as the timers of `loop` do."""
    wall_clock: Callable[[], float]
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Handed to the parts that use several of these; a part that needs one or two is handed those."""

    clock: Clock
    limits: Limits
    random: Random
    publish: Callable[[Event], None]
    """Tell whoever subscribed to events."""
    counters: Counters
    faults: Faults
    """Where errors are reported that should not happen."""
    alarms: Alarms
    """Where it is reported that somebody reached a limit."""
