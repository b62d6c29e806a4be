"""What happens on a node, numbered, for whoever watches it: kept for a while, so that a reader may come back."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from holdfast.schemas.events import Event
from holdfast.schemas.node import EventInfo

# Ids begin at the time in microseconds: more than can happen meanwhile, and small enough for JavaScript's numbers.
_IDS_PER_S = 1_000_000


class EventLog:
    """The last events, and those who wait for the next."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, wall_clock: Callable[[], float], kept_max: int) -> None:
        self._loop = loop
        self._wall_clock = wall_clock
        self._events: deque[tuple[int, Event]] = deque(maxlen=kept_max)
        # Later than every id of a former life of the node, so that who comes back from there is told of the gap.
        self._last_id = int(wall_clock() * _IDS_PER_S)
        self._news: asyncio.Future[None] | None = None
        self._is_closed = False

    def record(self, event: Event) -> None:
        """Something has happened."""
        self._last_id += 1
        self._events.append((self._last_id, event))
        self._wake()

    @property
    def last_id(self) -> int:
        """The id of the newest."""
        return self._last_id

    def since(self, position: int, most: int) -> list[EventInfo]:
        """The newest after the event with this id, at most so many."""
        newest = self._after(max(position, self._last_id - most))
        return [EventInfo(event_id, event.name, event.at, event.body) for event_id, event in newest]

    def close(self) -> None:
        """Nothing more happens here: whoever reads, reads to the end."""
        self._is_closed = True
        self._wake()

    def read(self, after: int | None) -> AsyncIterator[EventInfo]:
        """What happens from now on, or after the event with this id as far as it is kept.

        Who comes back too late gets a "gap" first: some events are lost to them, and they must look for themselves.
        """
        # Now, and not when the reader first waits for one.
        return self._read(self._last_id if after is None else after)

    async def _read(self, position: int) -> AsyncIterator[EventInfo]:
        while True:
            oldest = self._events[0][0] if self._events else self._last_id + 1
            if position > self._last_id or position + 1 < oldest:
                # Of another life of the node, or too long ago.
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
        if self._news is None:
            self._news = self._loop.create_future()
        # Others wait for the same: one that is cancelled must not cancel it for all.
        await asyncio.shield(self._news)

    def _wake(self) -> None:
        if self._news is not None:
            self._news.set_result(None)
            self._news = None
