"""What every part of a server may use: a clock, limits, random numbers, and where to report."""

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
    """The event loop for timers, a monotonic clock for durations, and a wall clock for stored times."""

    loop: asyncio.AbstractEventLoop
    now: Callable[[], float]
    """On the same clock as the timers of `loop`."""
    wall_clock: Callable[[], float]
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """For parts that use several of these; a part that needs one or two is given those instead."""

    clock: Clock
    limits: Limits
    random: Random
    publish: Callable[[Event], None]
    """Publishes an event to all subscribers."""
    counters: Counters
    faults: Faults
    """For internal errors."""
    alarms: Alarms
    """For limits that were reached."""
