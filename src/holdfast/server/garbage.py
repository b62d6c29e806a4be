"""Python's garbage collector, which stops everybody while it looks at objects: kept short for a process that serves.

A session is some forty objects, and a full collection looks at all that there are: with ten thousand sessions, for a
fifth of a second. But what ends in a server is freed with its last reference, because it is in no cycle any more. So
whatever has survived a full collection is excluded from the next ones (`gc.freeze`), and each looks at what is new.

Only cycles that a game makes itself could stay. When there are twice as many objects as the sessions explain, one
collection looks at everything, and the log says what it found.
"""

import asyncio
import gc
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

from holdfast.logs import get_logger

log = get_logger("holdfast.server")

# So many new objects, such collections, and those: a full one looks at some 20,000 objects, which takes milliseconds.
# Python's own (700, 10, 10) looks at all objects again and again while players return at once.
COLLECT_AFTER = (1_000, 5, 2)
_FULL = 2
# Excluded objects are counted, which takes a millisecond for 100,000, once in this time.
_COUNT_S = 60.0
# A generous number: some forty of our own, and those of the game.
_OBJECTS_PER_SESSION = 100


class GarbageTuning:
    """What `tune_gc` does, until `restore`."""

    def __init__(self, sessions: Callable[[], int]) -> None:
        self._sessions = sessions
        self._loop = asyncio.get_running_loop()
        self._thresholds = gc.get_threshold()
        self._counted_at = monotonic()
        self._is_looking = False
        gc.collect()
        gc.freeze()
        # Once more, for it compares what is new with what it has looked at last.
        gc.collect()
        self._at_start = self._known = gc.get_freeze_count()
        gc.set_threshold(*COLLECT_AFTER)
        gc.callbacks.append(self._collected)

    def restore(self) -> None:
        """Put everything back as it was."""
        with suppress(ValueError):
            gc.callbacks.remove(self._collected)
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()

    def _collected(self, phase: str, info: dict[str, Any]) -> None:
        """Called by the collector, in whichever thread it runs."""
        if phase != "stop" or info["generation"] != _FULL or self._is_looking:
            return
        gc.freeze()
        if monotonic() - self._counted_at < _COUNT_S:
            return
        self._counted_at = monotonic()
        if gc.get_freeze_count() > 2 * max(self._known, self._at_start + self._sessions() * _OBJECTS_PER_SESSION):
            # Not from within the collector.
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._look_at_everything)

    def _look_at_everything(self) -> None:
        began_at = monotonic()
        self._is_looking = True
        try:
            gc.unfreeze()
            freed = gc.collect()
            gc.freeze()
        finally:
            self._is_looking = False
        self._known = gc.get_freeze_count()
        log.info(
            "all objects of the process were searched for garbage, because they had doubled",
            freed=freed,
            objects=self._known,
            took_s=round(monotonic() - began_at, 3),
        )


def tune_gc(sessions: Callable[[], int] = lambda: 0) -> Callable[[], None]:
    """Keep the pauses of Python's garbage collector short: what survives a collection is excluded from later ones.

    It affects the whole process, so a program that embeds a `Server` decides for itself: call this once, after
    `await server.start()`; the returned function restores the previous settings. `sessions` returns how many there are,
    as `lambda: len(server.sessions)` does: when the objects of the process have doubled and sessions do not explain it,
    all of them are looked at once.
    """
    return GarbageTuning(sessions).restore
