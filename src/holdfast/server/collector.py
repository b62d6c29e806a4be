"""Tuning of Python's garbage collector for a server with many players. It affects the whole process, so it happens only
on request: `holdfast.run` and `holdfast serve` do it, a program that embeds a `Server` may."""

import gc
from collections.abc import Callable

# Python's default is (700, 10, 10). A thousand players who return at once create many objects and hardly any garbage,
# and were scanned a hundred times. Garbage is still collected before memory has grown by a quarter.
_COLLECT_AFTER = (10_000, 10, 10)


def tune_gc() -> Callable[[], None]:
    """Make this process collect garbage less often, and exclude all present objects from collection.

    A full collection scans every object while all players wait, and most of them are code: a tenth of a second on a
    small machine. Call this once, after `await server.start()`; the returned function restores the previous settings.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)

    def restore() -> None:
        gc.set_threshold(*before)
        gc.unfreeze()

    return restore
