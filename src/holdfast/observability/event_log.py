"""The last events of a node, numbered: a reader that was disconnected continues where it stopped."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from holdfast.schemas.events import Event
from holdfast.schemas.node import EventInfo

# Ids begin at the time in microseconds: more than can happen meanwhile, and small enough for JavaScript's numbers.
_IDS_PER_S = 1_000_000


class EventLog:
    """Keeps the last events, and wakes the readers that wait for the next."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, wall_clock: Callable[[], float], kept_max: int) -> None:
        self._loop = loop
        self._wall_clock = wall_clock
        self._events: deque[tuple[int, Event]] = deque(maxlen=kept_max)
        # Later than every id of an earlier start, so that a reader from before learns of the gap.
        self._last_id = int(wall_clock() * _IDS_PER_S)
        self._next_event: asyncio.Future[None] | None = None
        self._is_closed = False

    def record(self, event: Event) -> None:
        """Append an event."""
        self._last_id += 1
        self._events.append((self._last_id, event))
        self._wake()

    @property
    def last_id(self) -> int:
        """The id of the newest."""
        return self._last_id

    def since(self, position: int, most: int) -> list[EventInfo]:
        """The newest events after the one with this id, at most `most`."""
        newest = self._after(max(position, self._last_id - most))
        return [EventInfo(event_id, event.name, event.at, event.body) for event_id, event in newest]

    def close(self) -> None:
        """Let the readers end once they have read everything."""
        self._is_closed = True
        self._wake()

    def read(self, after: int | None) -> AsyncIterator[EventInfo]:
        """The events from now on, or after the one with this id.

        A reader that returns too late gets a "gap" first: it has missed events, and has to query the state.
        """
        # The position is taken now, not when the reader first waits.
        return self._read(self._last_id if after is None else after)

    async def _read(self, position: int) -> AsyncIterator[EventInfo]:
        while True:
            oldest = self._events[0][0] if self._events else self._last_id + 1
            if position > self._last_id or position + 1 < oldest:
                # From another start of the node, or too long ago.
                position = oldest - 1
                yield EventInfo(position, "gap", self._wall_clock(), {"oldest": oldest})
            for event_id, event in self._after(position):
                position = event_id
                yield EventInfo(event_id, event.name, event.at, event.body)
            if position == self._last_id:
                if self._is_closed:
                    return
                await self._next()

    def _after(self, position: int) -> list[tuple[int, Event]]:
        behind = self._last_id - position
        if behind <= 0:
            return []
        return [self._events[index] for index in range(max(0, len(self._events) - behind), len(self._events))]

    async def _next(self) -> None:
        if self._next_event is None:
            self._next_event = self._loop.create_future()
        # Other readers wait for the same future: one that is cancelled must not cancel it for all.
        await asyncio.shield(self._next_event)

    def _wake(self) -> None:
        if self._next_event is not None:
            self._next_event.set_result(None)
            self._next_event = None
