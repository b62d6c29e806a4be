"""Listeners: functions of the program that are called when something happens to its session."""

from collections.abc import Callable
from typing import Any, Generic, Self, TypedDict, TypeVar, overload

from msgspec import Struct

from holdfast.core.errors import SessionEnded
from holdfast.core.messages import Message
from holdfast.logs import get_logger
from holdfast.schemas.frames import Outcome

log = get_logger("holdfast.client")

T = TypeVar("T")


class Drop(Struct, frozen=True):
    """Why there is no connection, and when the next attempt to get one begins."""

    reason: str
    message: str
    attempt: int
    """The number of the next attempt, from 1. It counts on after a connection that lasted less than 2 s."""
    wait_s: float
    """The attempt begins in so many seconds."""


class ListenerList(Generic[T]):
    """The listeners of one event. Call it with a function to add it: `session.on_drop(show)`, or `@session.on_drop`."""

    __slots__ = ("_listeners",)

    def __init__(self) -> None:
        self._listeners: tuple[Callable[[T], object], ...] = ()

    def __call__(self, listener: Callable[[T], object]) -> Callable[[T], object]:
        """Add a listener. It is a plain function and must not block; what it raises is logged."""
        if not callable(listener):
            raise TypeError(f"a listener is a function; got {listener!r}")
        self._listeners = (*self._listeners, listener)
        return listener

    def remove(self, listener: Callable[[T], object]) -> None:
        """Take a listener away; nothing happens if it is not there."""
        # Not `is`: a bound method is made anew each time it is looked up.
        self._listeners = tuple(each for each in self._listeners if each != listener)

    def __len__(self) -> int:
        return len(self._listeners)

    def tell(self, event: T) -> None:
        """Call every listener, in the order in which they were added. One that raises does not affect the others."""
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed")


class Listenable(Generic[T]):
    """An attribute of a session's class: the `ListenerList` of each session."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> ListenerList[T]: ...
    def __get__(self, instance: object | None, owner: type) -> Self | ListenerList[T]:
        if instance is None:
            return self
        listeners: ListenerList[T] = instance.__dict__.setdefault(self._name, ListenerList())
        return listeners

    def __set__(self, instance: object, value: Any) -> None:
        raise AttributeError(f"an event can have several listeners: call it, as in session.{self._name}({value!r})")


class MessageListeners(ListenerList[T]):
    """Listeners of what waits until there is one: `added` is called when there is."""

    __slots__ = ("_added",)

    def __init__(self, added: Callable[[], None]) -> None:
        super().__init__()
        self._added = added

    def __call__(self, listener: Callable[[T], object]) -> Callable[[T], object]:
        super().__call__(listener)
        self._added()
        return listener


class SessionListeners(TypedDict, total=False):
    """The listeners that `connect` takes: they hear of the first connection, too."""

    on_drop: Callable[[Drop], object]
    on_reconnecting: Callable[[Drop], object]
    on_resume: Callable[[Outcome], object]
    on_stopping: Callable[[float], object]
    on_close: Callable[[SessionEnded], object]
    on_message: Callable[[Message], object]


LISTENERS = tuple(SessionListeners.__annotations__)
"""The names of all that a session's listeners can hear."""
EVENTS = tuple(name for name in LISTENERS if name != "on_message")
"""Those that nobody need listen to: messages wait until somebody does."""
