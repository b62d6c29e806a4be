"""How often the log says the same: whoever can make a node log a line must not be able to fill its disk."""

import asyncio
from collections import Counter
from collections.abc import Callable

_WINDOW_S = 1.0


class LineLimit:
    """At most so many lines of a kind in a second; then `tell` is called with how many more there were."""

    def __init__(self, loop: asyncio.AbstractEventLoop, per_s: int, tell: Callable[[str, int], None]) -> None:
        self._loop = loop
        self._per_s = per_s
        self._tell = tell
        self._counts: Counter[str] = Counter()
        self._end: asyncio.TimerHandle | None = None

    def allow(self, kind: str) -> bool:
        """Whether one more line of this kind may be written. Kinds are ours to name, never a client's."""
        if self._end is None:
            self._end = self._loop.call_later(_WINDOW_S, self.close)
        self._counts[kind] += 1
        return self._counts[kind] <= self._per_s

    def is_full(self, kind: str) -> bool:
        """Whether no more lines of this kind may be written in this second."""
        return self._counts[kind] >= self._per_s

    def close(self) -> None:
        """The second is over: tell what was left out."""
        if self._end is not None:
            self._end.cancel()
            self._end = None
        counts, self._counts = self._counts, Counter()
        for kind, count in counts.items():
            if count > self._per_s:
                self._tell(kind, count - self._per_s)
