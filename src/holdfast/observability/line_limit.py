"""How often the log says the same: whoever can make a node log a line must not be able to fill its disk."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

_WINDOW_S = 1.0


class LineLimit:
    """At most so many lines of a kind in a second; then `tell` is called with how many more there were."""

    def __init__(self, loop: asyncio.AbstractEventLoop, per_s: int, tell: Callable[[str, int], None]) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._per_s = per_s
        self._tell = tell
        self._counts: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self._end: asyncio.TimerHandle | None = None

    @property
    def is_over(self) -> bool:
        """Whether the loop is closed, and nothing can be counted any more."""
        return self._loop.is_closed()

    def allow(self, kind: str, per_s: int | None = None) -> bool:
        """Whether one more line of this kind may be written. Kinds are ours to name, never a client's."""
        if self._end is not None and self._loop.time() > self._end.when() + _WINDOW_S:
            self.close()  # its timer was lost: that of a simulated machine that crashed
        if self._end is None:
            self._open_window()
        self._counts[kind] += 1
        if self._counts[kind] <= (self._per_s if per_s is None else per_s):
            return True
        self._left_out[kind] += 1
        return False

    def _open_window(self) -> None:
        if threading.get_ident() == self._thread:
            self._end = self._loop.call_later(_WINDOW_S, self.close)
        else:
            with suppress(RuntimeError):  # the loop is closed, and nobody can cause lines any more
                self._loop.call_soon_threadsafe(self.allow, "")

    def is_full(self, kind: str) -> bool:
        """Whether no more lines of this kind may be written in this second."""
        return self._counts[kind] >= self._per_s

    def close(self) -> None:
        """The second is over: tell what was left out."""
        if self._end is not None:
            self._end.cancel()
            self._end = None
        left_out, self._left_out = self._left_out, Counter()
        self._counts.clear()
        for kind, lines in left_out.items():
            self._tell(kind, lines)
