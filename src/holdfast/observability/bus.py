"""The event bus, which calls observers and handlers with the events of a node, in order; and the log of the last ones.

Observers (`observe`) belong to the server: they are called at once and must not change anything. Handlers of the game
(`on`) are called in a later iteration of the loop, never in the middle of a change, so they may end sessions and rooms.
An `async def` handler gets one event after the other; only its own events wait for it.
"""

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar, overload

from msgspec.structs import force_setattr

from holdfast.logs import get_logger
from holdfast.schemas.events import Event
from holdfast.schemas.node import EventInfo

log = get_logger("holdfast.server")

E = TypeVar("E", bound=Event)
T = TypeVar("T")

# Events per loop iteration: a storm drops thousands of sessions at once.
_EVENTS_AT_ONCE = 256
# Ids begin at the time in microseconds: more than can happen meanwhile, and small enough for JavaScript's numbers.
_IDS_PER_S = 1_000_000


class EventBus:
    """Publishes events in order; a handler that raises does not affect the others."""

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
        self.waiting_max = waiting_max
        self.failed = failed
        self._observers: list[tuple[Callable[[Any], None], tuple[type[Event], ...]]] = []
        # By type of event, found when the first event of a type is published.
        self._observers_of: dict[type[Event], list[Callable[[Any], None]]] = {}
        self._subscriptions: list[_Subscription] = []
        self._waiting: deque[Event] = deque()
        self._is_due = False
        self._is_stopped = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.lost = 0
        """Events that a handler missed, because too many were waiting for it."""

    def observe(self, observer: Callable[[E], None], *event_types: type[E]) -> None:
        """Call an observer with every event of these types and of their subtypes; without any, with all."""
        self._observers.append((observer, event_types or (Event,)))
        self._observers_of.clear()

    def on(self, event_type: type[E], handler: Callable[[E], Any]) -> None:
        """Call a handler, `def` or `async def`, with every event of this type and of its subtypes."""
        self._subscriptions.append(_Subscription(self, event_type, handler))

    def off(self, event_type: type[E], handler: Callable[[E], Any]) -> None:
        """Remove a handler; a call that has begun may finish."""
        for subscription in self._subscriptions:
            if subscription.event_type is event_type and subscription.handler == handler:
                self._subscriptions.remove(subscription)
                subscription.end()
                return

    def publish(self, event: Event) -> None:
        """Set an event's time, and pass it on."""
        force_setattr(event, "at", self._wall_clock())
        observers = self._observers_of.get(type(event))
        if observers is None:
            observers = [observer for observer, types in self._observers if isinstance(event, types)]
            self._observers_of[type(event)] = observers
        for observer in observers:
            try:
                observer(event)
            except Exception as error:  # noqa: BLE001 - our bug: it must not undo what has happened
                self.failed("an observer of events", error)
        if self._is_stopped or not self._subscriptions:
            return
        interested = [each for each in self._subscriptions if isinstance(event, each.event_type)]
        if not interested:
            return
        if len(self._waiting) >= self.waiting_max:
            for subscription in interested:
                subscription.lose()
            return
        self._waiting.append(event)
        self._deliver_soon()

    def _deliver_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._is_due = False
        for _ in range(min(_EVENTS_AT_ONCE, len(self._waiting))):
            event = self._waiting.popleft()
            for subscription in list(self._subscriptions):
                if isinstance(event, subscription.event_type):
                    subscription.deliver(event)
        if self._waiting:
            self._deliver_soon()

    def create_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def stop(self, within_s: float) -> None:
        """Deliver what is queued; waiting handlers have `within_s` to finish, and are cancelled then."""
        deadline = self._loop.time() + within_s
        while self._waiting and self._loop.time() < deadline:
            self._deliver()
            await asyncio.sleep(0)
        self._is_stopped = True
        # A handler that stops the server cannot wait for itself.
        tasks = self._tasks - {asyncio.current_task()}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=max(0.0, deadline - self._loop.time()))
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for subscription in self._subscriptions:
            subscription.end()


class _Subscription:
    """One handler; an `async def` one has a queue and a task, so that it gets one event after the other."""

    def __init__(self, bus: EventBus, event_type: type[Event], handler: Callable[[Any], Any]) -> None:
        self._bus = bus
        self._name = f"handler {getattr(handler, '__qualname__', repr(handler))} of {event_type.__name__}"
        self._queue: deque[Event] = deque()
        self._is_waiting = False
        self._is_ended = False
        self._lost = 0
        self.event_type = event_type
        self.handler = handler

    def deliver(self, event: Event) -> None:
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
            # The handler was cancelled with these still in its queue.
            self._start(None)

    def lose(self) -> None:
        self._bus.lost += 1
        self._lost += 1
        if self._lost == 1:
            log.error("an event handler is too slow and misses events", handler=self._name)

    def end(self) -> None:
        """Stop calling the handler; a call that has begun may finish."""
        self._is_ended = True
        self._queue.clear()

    def _call(self, event: Event) -> Awaitable[Any] | None:
        """Returns what the handler wants awaited, if anything."""
        try:
            answer = self.handler(event)
        except Exception as error:  # noqa: BLE001 - logged, counted, contained
            self._bus.failed(self._name, error)
            return None
        return answer if inspect.isawaitable(answer) else None

    def _start(self, answer: Awaitable[Any] | None) -> None:
        self._is_waiting = True
        task = self._bus.create_task(self._wait(answer))
        if inspect.iscoroutine(answer):
            # Cancelled before it began, it would warn that it was never awaited.
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
            # Here, and not when the task is done: an event published in between would wait forever.
            self._is_waiting = False

    async def _finish(self, answer: Awaitable[Any]) -> None:
        try:
            await answer
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self._bus.failed(self._name, RuntimeError("the awaited work was cancelled"))
        except Exception as error:  # noqa: BLE001 - logged, counted, contained
            self._bus.failed(self._name, error)

    def _has_caught_up(self) -> None:
        if self._lost:
            log.warning("an event handler has caught up", handler=self._name, missed=self._lost)
            self._lost = 0


class EventHandlers:
    """A game's handlers: registered before the server starts, and kept for its next start."""

    def __init__(self) -> None:
        self._handlers: list[tuple[type[Any], Callable[[Any], Any]]] = []
        self._bus: EventBus | None = None

    @overload
    def on(self, event_type: type[E]) -> Callable[[Callable[[E], T]], Callable[[E], T]]: ...

    @overload
    def on(self, event_type: type[E], handler: Callable[[E], T]) -> Callable[[E], T]: ...

    def on(self, event_type: Any, handler: Callable[[Any], Any] | None = None) -> Any:
        """Subscribe to events: `server.on(Dropped, handler)`, or `@server.on(Dropped)` above a function.

        Handlers may be `def` or `async def`; each gets one event after the other, in the order they happened. `Event`
        stands for all, `SessionEvent` for all of sessions. See `holdfast.events`, and `off`.
        """
        if not (isinstance(event_type, type) and issubclass(event_type, Event)):
            raise TypeError("server.on takes a type of event: @server.on(Dropped)")
        if handler is None:
            return partial(self._add, event_type)
        return self._add(event_type, handler)

    def off(self, event_type: type[E], handler: Callable[[E], Any]) -> None:
        """Unsubscribe a handler; a call that has begun may finish."""
        if (event_type, handler) not in self._handlers:
            raise ValueError(f"this handler was not given to server.on({event_type.__name__}, …)")
        self._handlers.remove((event_type, handler))
        if self._bus is not None:
            self._bus.off(event_type, handler)

    def _add(self, event_type: type[E], handler: Callable[[E], T]) -> Callable[[E], T]:
        self._handlers.append((event_type, handler))
        if self._bus is not None:
            self._bus.on(event_type, handler)
        return handler

    def bind(self, bus: EventBus) -> None:
        """Subscribe the handlers to the bus of a starting server."""
        self._bus = bus
        for event_type, handler in self._handlers:
            bus.on(event_type, handler)


class EventLog:
    """The last events, numbered: a reader that was disconnected continues where it stopped."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, wall_clock: Callable[[], float], kept_max: int) -> None:
        self._loop = loop
        self._wall_clock = wall_clock
        self._events: deque[tuple[int, Event]] = deque(maxlen=kept_max)
        # Later than every id of an earlier start, so that a reader from before learns of the gap.
        self.first_id = self.last_id = int(wall_clock() * _IDS_PER_S)
        self._next_event: asyncio.Future[None] | None = None
        self._is_closed = False

    def record(self, event: Event) -> None:
        self.last_id += 1
        self._events.append((self.last_id, event))
        if self._next_event is not None:
            self._wake()

    def since(self, position: int, most: int) -> list[EventInfo]:
        """The newest events after the one with this id, at most `most`."""
        return list(map(_info, self._after(max(position, self.last_id - most))))

    def close(self) -> None:
        """Let the readers end once they have read everything."""
        self._is_closed = True
        self._wake()

    def read(self, after: int | None) -> AsyncIterator[EventInfo]:
        """The events from now on, or after the one with this id.

        A reader that returns too late gets a "gap" first: it has missed events, and has to query the state.
        """
        # The position is taken now, not when the reader first waits.
        return self._read(self.last_id if after is None else after)

    async def _read(self, position: int) -> AsyncIterator[EventInfo]:
        while True:
            for event in self.next(position):
                position = event.id
                yield event
            if position == self.last_id:
                if self._is_closed:
                    return
                await self.happened(position)

    def next(self, position: int, most: int | None = None) -> list[EventInfo]:
        """What follows the event with this id, the oldest first; a "gap" first if that is not all."""
        found: list[EventInfo] = []
        oldest = self._events[0][0] if self._events else self.last_id + 1
        if position > self.last_id or position + 1 < oldest:
            # From another start of the node, or too long ago.
            position = oldest - 1
            found.append(EventInfo(position, "gap", self._wall_clock(), {"oldest": oldest}))
        return found + list(map(_info, self._after(position)[:most]))

    async def happened(self, position: int) -> None:
        """Return when something follows the event with this id, or nothing ever will."""
        if position == self.last_id and not self._is_closed:
            if self._next_event is None:
                self._next_event = self._loop.create_future()
            # Other readers wait for the same future: one that is cancelled must not cancel it for all.
            await asyncio.shield(self._next_event)

    def _after(self, position: int) -> list[tuple[int, Event]]:
        behind = self.last_id - position
        if behind <= 0:
            return []
        return [self._events[index] for index in range(max(0, len(self._events) - behind), len(self._events))]

    def _wake(self) -> None:
        if self._next_event is not None:
            self._next_event.set_result(None)
            self._next_event = None


def _info(entry: tuple[int, Event]) -> EventInfo:
    event_id, event = entry
    return EventInfo(event_id, event.name, event.at, event.body)
