"""The bus: who wants to know what happens on a node, is told here, in order.

The node's own records (`observe`) are told at once and must not change anything. Handlers of the game (`on`) are told
in a turn of the loop of their own: never in the middle of a change, so they may end sessions and rooms as they like.
An `async def` handler is told of one event after the other; while it waits, its events do, and the others' do not.
"""

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from msgspec.structs import force_setattr

from holdfast.logs import get_logger
from holdfast.schemas.events import Event

log = get_logger("holdfast.server")

E = TypeVar("E", bound=Event)
Handler = Callable[[Any], Any]

# So many are told before the rest of the loop has its turn: a storm drops thousands of sessions at once.
_TOLD_AT_ONCE = 256


class Bus:
    """Publishes events, in the order in which they happened; a handler that raises harms nobody else."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        wall_clock: Callable[[], float],
        waiting_max: int,
        failed: Callable[[str, Exception], None],
    ) -> None:
        self._loop = loop
        self._wall_clock = wall_clock
        self._waiting_max = waiting_max
        self._failed = failed
        self._observers: list[Callable[[Event], None]] = []
        self._subscriptions: list[_Subscription] = []
        self._waiting: deque[Event] = deque()
        self._is_due = False
        self._is_stopped = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.lost = 0
        """Events that a handler was never told of, because too many waited for it."""

    def observe(self, observer: Callable[[Event], None]) -> None:
        """Tell a record of the node's own of every event, as it happens."""
        self._observers.append(observer)

    def on(self, event_type: type[E], handler: Callable[[E], Any]) -> None:
        """Tell a handler, `def` or `async def`, of every event of this type, and of those derived from it."""
        self._subscriptions.append(_Subscription(self, event_type, handler))

    def off(self, event_type: type[E], handler: Callable[[E], Any]) -> None:
        """Tell it no more; what it is at, it may finish."""
        for subscription in self._subscriptions:
            if subscription.event_type is event_type and subscription.handler == handler:
                self._subscriptions.remove(subscription)
                subscription.end()
                return

    def publish(self, event: Event) -> None:
        """Something has happened."""
        force_setattr(event, "at", self._wall_clock())
        for observer in self._observers:
            try:
                observer(event)
            except Exception as error:  # noqa: BLE001 - our bug: it must not harm what has happened
                self.raised("a record of events", error)
        if self._is_stopped:
            return
        interested = [each for each in self._subscriptions if isinstance(event, each.event_type)]
        if not interested:
            return
        if len(self._waiting) >= self._waiting_max:
            for subscription in interested:
                subscription.lose()
            return
        self._waiting.append(event)
        self._tell_soon()

    def _tell_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._tell)

    def _tell(self) -> None:
        self._is_due = False
        for _ in range(min(_TOLD_AT_ONCE, len(self._waiting))):
            event = self._waiting.popleft()
            for subscription in list(self._subscriptions):
                if isinstance(event, subscription.event_type):
                    subscription.tell(event)
        if self._waiting:
            self._tell_soon()

    # What subscriptions need

    @property
    def waiting_max(self) -> int:
        """How many events may wait for one handler."""
        return self._waiting_max

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task for a handler that waits."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def raised(self, where: str, error: Exception) -> None:
        """A handler failed: that is logged and counted, and the others are told all the same."""
        self._failed(where, error)

    async def stop(self, within_s: float) -> None:
        """Tell what there is to tell; handlers that wait have so long to finish, and are cancelled then."""
        deadline = self._loop.time() + within_s
        while self._waiting and self._loop.time() < deadline:
            self._tell()
            await asyncio.sleep(0)
        self._is_stopped = True
        # A handler may be who stops the server: it cannot wait for itself.
        tasks = self._tasks - {asyncio.current_task()}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=max(0.0, deadline - self._loop.time()))
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for subscription in self._subscriptions:
            subscription.end()


class _Subscription:
    """One handler; one that waits has a queue and a task, so that it is told of one event after the other."""

    def __init__(self, bus: Bus, event_type: type[Event], handler: Handler) -> None:
        self._bus = bus
        self._name = f"handler {getattr(handler, '__qualname__', repr(handler))} of {event_type.__name__}"
        self._queue: deque[Event] = deque()
        self._is_waiting = False
        self._is_ended = False
        self._lost = 0
        self.event_type = event_type
        self.handler = handler

    def tell(self, event: Event) -> None:
        """Call the handler now, or when it has dealt with what came before."""
        if self._is_ended:
            return
        if not self._is_waiting and not self._queue:
            self._has_caught_up()
            answer = self._call(event)
            if answer is not None:
                self._start(answer)
            return
        if len(self._queue) >= self._bus.waiting_max:
            self.lose()
            return
        self._queue.append(event)
        if not self._is_waiting:
            # Somebody has cancelled the handler, and left these behind.
            self._start(None)

    def lose(self) -> None:
        """Too many wait already: this one is never told."""
        self._bus.lost += 1
        self._lost += 1
        if self._lost == 1:
            log.error("a handler of events is too slow, and misses some", handler=self._name)

    def end(self) -> None:
        """Tell no more; what the handler is at, it may finish."""
        self._is_ended = True
        self._queue.clear()

    def _call(self, event: Event) -> Awaitable[Any] | None:
        """What the handler wants to wait for, if anything."""
        try:
            answer = self.handler(event)
        except Exception as error:  # noqa: BLE001 - logged, counted, contained
            self._bus.raised(self._name, error)
            return None
        return answer if inspect.isawaitable(answer) else None

    def _start(self, answer: Awaitable[Any] | None) -> None:
        self._is_waiting = True
        task = self._bus.start(self._wait(answer))
        if inspect.iscoroutine(answer):
            # Cancelled before it began, it would complain that it was never awaited.
            task.add_done_callback(lambda _: answer.close())

    async def _wait(self, answer: Awaitable[Any] | None) -> None:
        try:
            while True:
                if answer is not None:
                    await self._finish(answer)
                if not self._queue:
                    break
                answer = self._call(self._queue.popleft())
            self._has_caught_up()
        finally:
            # At once, and not when the task is found to be over: what is published in between would wait for ever.
            self._is_waiting = False

    async def _finish(self, answer: Awaitable[Any]) -> None:
        try:
            await answer
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self._bus.raised(self._name, RuntimeError("it waited for something that was cancelled"))
        except Exception as error:  # noqa: BLE001 - logged, counted, contained
            self._bus.raised(self._name, error)

    def _has_caught_up(self) -> None:
        if self._lost:
            log.warning("a handler of events has caught up", handler=self._name, missed=self._lost)
            self._lost = 0
