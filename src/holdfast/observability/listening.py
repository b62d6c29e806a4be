"""Who wants to be told what happens on a server: known before it starts, and kept for its next start."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, overload

from holdfast.observability.bus import Bus
from holdfast.schemas.events import Event

E = TypeVar("E", bound=Event)
T = TypeVar("T")


class Listening:
    """The half of a server that has handlers of events."""

    def __init__(self) -> None:
        self._handlers: list[tuple[type[Any], Callable[[Any], Any]]] = []
        self._bus: Bus | None = None

    @overload
    def on(self, event_type: type[E]) -> Callable[[Callable[[E], T]], Callable[[E], T]]: ...

    @overload
    def on(self, event_type: type[E], handler: Callable[[E], T]) -> Callable[[E], T]: ...

    def on(self, event_type: Any, handler: Callable[[Any], Any] | None = None) -> Any:
        """Be told of what happens: `server.on(Dropped, handler)`, or `@server.on(Dropped)` above a function.

        Handlers may be `def` or `async def`; each is told of one event after the other, in the order they happened.
        `Event` stands for all, `SessionEvent` for all of sessions. See `holdfast.events`, and `off`.
        """
        if not (isinstance(event_type, type) and issubclass(event_type, Event)):
            raise TypeError("server.on takes a type of event: @server.on(Dropped)")
        if handler is None:
            return partial(self._listen, event_type)
        return self._listen(event_type, handler)

    def off(self, event_type: type[E], handler: Callable[[E], Any]) -> None:
        """Tell a handler no more; what it is at, it may finish."""
        if (event_type, handler) not in self._handlers:
            raise ValueError(f"this handler was not given to server.on({event_type.__name__}, …)")
        self._handlers.remove((event_type, handler))
        if self._bus is not None:
            self._bus.off(event_type, handler)

    def _listen(self, event_type: type[E], handler: Callable[[E], T]) -> Callable[[E], T]:
        self._handlers.append((event_type, handler))
        if self._bus is not None:
            self._bus.on(event_type, handler)
        return handler

    def _listen_to(self, bus: Bus) -> None:
        """The server starts, with this bus."""
        self._bus = bus
        for event_type, handler in self._handlers:
            bus.on(event_type, handler)
