"""How late the event loop is: a timer that rings a few times a second, and measures how long after its time it does.

Whatever keeps the loop busy in one piece, a slow handler, a large room, a collection of garbage, keeps everybody on the
node waiting for as long: this is what shows it, whoever's fault it is.
"""

import asyncio
from collections.abc import Callable

from holdfast.core.histogram import Histogram

SAMPLE_S = 0.25
"""Between two looks: often enough to meet a loop that hangs for a moment, seldom enough to cost nothing."""


class LoopLag:
    """Writes into a histogram while it runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], float], seconds: Histogram) -> None:
        self._loop = loop
        self._now = now
        self._seconds = seconds
        self._due_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to look."""
        self._due_at = self._now() + SAMPLE_S
        self._timer = self._loop.call_later(SAMPLE_S, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._seconds.add(self._now() - self._due_at)
        self.start()
