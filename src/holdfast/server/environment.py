"""What a server takes from outside: randomness, clocks, the hashing of passwords, the end of its process.

`Server` has it as a private argument, `holdfast.testing` replaces it: then a run depends on its seed and nothing else.
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
    """What was saved may be lost: end at once, so that nothing more is promised. The next start reads what there is."""
    log.critical("this process ends: what was saved may be lost", error=error)
    logging.shutdown()
    os._exit(74)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """By default that of a real process."""

    random: Random = field(default_factory=SystemRandom)
    """For ids, tokens and jitter."""
    now: Callable[[], float] = time.monotonic
    """Counts as the event loop's timers do. (uvloop's own clock ticks in milliseconds: too coarse for round trips.)"""
    wall_clock: Callable[[], float] = time.time
    """Seconds since 1970."""
    hashing: Hashing | None = None
    """For the passwords of rooms; None for argon2id."""
    fatal: Callable[[Exception], None] = end_process
    """Called when what was saved may be lost, as after a failed fsync: going on would break a promise."""
