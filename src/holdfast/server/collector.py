"""Python's garbage collector, tuned for a server with many players. It is one for the whole process, so nothing here is
done unless somebody asks: `holdfast.run` and `holdfast serve` do, a program that embeds a `Server` may."""

import gc
from collections.abc import Callable

# Instead of Python's (700, 10, 10): a thousand players who come back at once are many new objects and hardly any
# garbage, and were looked through a hundred times. Garbage still goes, at the latest with a quarter more memory.
_COLLECT_AFTER = (10_000, 10, 10)


def tune_gc() -> Callable[[], None]:
    """Have the garbage collector of this process look less often, and never again at what is there now.

    A full collection looks at everything while all players wait, and most of that is code: a tenth of a second on a
    small machine. Call it once, after `await server.start()`; what it returns puts everything back.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)

    def put_back() -> None:
        gc.set_threshold(*before)
        gc.unfreeze()

    return put_back
