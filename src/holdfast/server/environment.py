"""What a server takes from outside: randomness, clocks, password hashing, and how to end the process.

It is a private argument of `Server`; `holdfast.testing` replaces it, so that a run depends on its seed alone.
"""

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random, SystemRandom

from holdfast.identity.hashing import Hashing
from holdfast.logs import get_logger

log = get_logger("holdfast.server")


def end_process(error: Exception) -> None:
    """Saved data may be lost: end at once, before anything else is acknowledged. The next start reads what the store
    has."""
    log.critical("ending this process: saved data may be lost", error=error)
    logging.shutdown()
    os._exit(74)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The defaults are those of a real process."""

    random: Random = field(default_factory=SystemRandom)
    """For ids, tokens and jitter."""
    now: Callable[[], float] = time.monotonic
    """On the same clock as the event loop's timers. (uvloop's own clock ticks in milliseconds: too coarse for round
    trips.)"""
    wall_clock: Callable[[], float] = time.time
    """Seconds since 1970."""
    hashing: Hashing | None = None
    """For the passwords of rooms; None for argon2id."""
    fatal: Callable[[Exception], None] = end_process
    """Called when saved data may be lost, as after a failed fsync: continuing would break a promise."""
