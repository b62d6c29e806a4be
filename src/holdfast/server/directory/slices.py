"""Long work, cut into slices: one slice in each iteration of the event loop, shared by all tasks that use it."""

import asyncio
from collections import deque
from collections.abc import Callable


class Slices:
    """A queue of slices."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_going = False

    def add(self, work: Callable[[], None]) -> None:
        """Run one slice when its turn comes."""
        self._waiting.append(work)
        if not self._is_going:
            self._is_going = True
            self._loop.call_soon(self._next)

    async def turn(self) -> None:
        """Wait for a turn; the slice is the code up to the next `await`."""
        turn: asyncio.Future[None] = self._loop.create_future()
        self.add(lambda: None if turn.done() else turn.set_result(None))
        await turn

    def _next(self) -> None:
        self._is_going = bool(self._waiting)
        if self._is_going:
            # Before the work, which may raise.
            self._loop.call_soon(self._next)
            self._waiting.popleft()()
