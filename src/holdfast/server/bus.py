"""The bus: who wants to know what happens on a node, is told here, in order.

The node's own records (`observe`) are told at once and must not change anything. Handlers of the game (`on`) are told
in a turn of the loop of their own: never in the middle of a change, so they may end sessions and rooms as they like.
"""

import asyncio
import inspect
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec.structs import force_setattr

from holdfast.core.events import Event

E = TypeVar("E", bound=Event)
Handler = Callable[[Any], Any]


class Bus:
    """Publishes events, in the order in which they happened; a handler that raises harms nobody else."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        wall: Callable[[], float],
        waiting_max: int,
        failed: Callable[[str, Exception], None],
    ) -> None:
        self._loop = loop
        self._wall = wall
        self._waiting_max = waiting_max
        self._failed = failed
        self._observers: list[Callable[[Event], None]] = []
        self._subscriptions: list[_Subscription] = []
        self._waiting: deque[Event] = deque()
        self.lost = 0
        """Events that a handler was never told of, because it was too slow for them."""

    def observe(self, observer: Callable[[Event], None]) -> None:
        """Tell a record of the node's own of every event, as it happens."""
        self._observers.append(observer)

    def on(self, event_type: type[E], handler: Callable[[E], Any]) -> Callable[[], None]:
        """Tell a handler, `def` or `async def`, of every event of this type; what is returned ends that."""
        subscription = _Subscription(self, event_type, handler)
        self._subscriptions.append(subscription)

        def unsubscribe() -> None:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)
                subscription.stop()

        return unsubscribe

    def publish(self, event: Event) -> None:
        """Something has happened."""
        force_setattr(event, "at", self._wall())
        for observer in self._observers:
            observer(event)
        if any(isinstance(event, each.event_type) for each in self._subscriptions):
            if not self._waiting:
                self._loop.call_soon(self._tell)
            self._waiting.append(event)

    def _tell(self) -> None:
        # Those that are published meanwhile are told in this turn too, after these.
        while self._waiting:
            event = self._waiting[0]
            for subscription in list(self._subscriptions):
                if isinstance(event, subscription.event_type):
                    subscription.tell(event)
            self._waiting.popleft()

    def start(self, name: str, run: Callable[[], Any]) -> asyncio.Task[None]:
        """A task for a handler that waits."""
        return self._loop.create_task(run(), name=name)

    def overflowed(self, waiting: int) -> bool:
        """Whether a handler has too much to do already; counted, if so."""
        is_full = waiting >= self._waiting_max
        self.lost += is_full
        return is_full

    def raised(self, where: str, error: Exception) -> None:
        """A handler failed: that is logged and counted, and the others are told all the same."""
        self._failed(where, error)

    async def stop(self) -> None:
        """Tell what there is to tell, and end the handlers that wait."""
        self._tell()
        tasks = [task for each in self._subscriptions if (task := each.stop()) is not None]
        await asyncio.gather(*tasks, return_exceptions=True)


class _Subscription:
    """One handler; one that waits has a queue and a task, so that it is told of one event after the other."""

    def __init__(self, bus: Bus, event_type: type[Event], handler: Handler) -> None:
        self._bus = bus
        self._handler = handler
        self._name = f"handler {getattr(handler, '__qualname__', repr(handler))} of {event_type.__name__}"
        self._queue: deque[Event] = deque()
        self._task: asyncio.Task[None] | None = None
        self.event_type = event_type

    def tell(self, event: Event) -> None:
        if self._task is not None:
            if not self._bus.overflowed(len(self._queue)):
                self._queue.append(event)
            return
        try:
            answer = self._handler(event)
        except Exception as error:  # noqa: BLE001 - logged, counted, contained
            self._bus.raised(self._name, error)
            return
        if inspect.isawaitable(answer):
            self._task = self._bus.start(self._name, lambda: self._work(answer))

    async def _work(self, answer: Any) -> None:
        try:
            while True:
                try:
                    await answer
                except Exception as error:  # noqa: BLE001 - logged, counted, contained
                    self._bus.raised(self._name, error)
                if not self._queue:
                    return
                answer = self._call(self._queue.popleft())
        finally:
            self._task = None

    async def _call(self, event: Event) -> None:
        answer = self._handler(event)
        if inspect.isawaitable(answer):
            await answer

    def stop(self) -> asyncio.Task[None] | None:
        if self._task is not None:
            self._task.cancel()
        return self._task
