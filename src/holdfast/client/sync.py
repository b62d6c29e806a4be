"""The client for programs without an event loop: the same names, blocking.

Nothing is decided here. Each session has a thread of its own in which the asyncio session lives, so it stays connected
while the program is busy; the methods may be called from any thread. A method is the asyncio one, run in that thread:
its signature and documentation are those of the original. Listeners, and what is to be done when a future is done, wait
for `poll` and run in the thread that calls it.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload
from weakref import WeakKeyDictionary

from holdfast.client import connect as awaited_connect
from holdfast.client import room as awaited_room
from holdfast.client import session as awaited_session
from holdfast.client import subscriptions as awaited
from holdfast.client.listeners import EVENTS, LISTENERS, Drop, Listenable, ListenerList
from holdfast.client.room import M, Unconfirmed, several
from holdfast.client.session import PAGE_MAX
from holdfast.core.errors import Expired, NotSeated, SessionEnded
from holdfast.core.limits import Limits
from holdfast.core.messages import Message, SeatLeft
from holdfast.logs import get_logger
from holdfast.schemas.frames import Outcome
from holdfast.schemas.placement import PlacementInfo
from holdfast.schemas.room import RoomInfo, RoomsChanged

log = get_logger("holdfast.client")

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

# On a method that runs in the background: the same, for `later`.
_BEGIN = "__holdfast_begin__"


class Background:
    """One loop and one thread, until `stop`; and what waits for the program's own thread."""

    def __init__(self, name: str, *, events_max: int = Limits.unpolled_events_max) -> None:
        # What happened, for listeners; of a program that never polls only the newest is kept. And the callbacks of
        # futures, of which there are as many as the program made.
        self._events: deque[Callable[[], object]] = deque(maxlen=events_max)
        self._callbacks: deque[Callable[[], object]] = deque()
        self.listeners: WeakKeyDictionary[object, dict[type[Message], ListenerList[Any]]] = WeakKeyDictionary()
        """The listeners of rooms: a room is one, however many `ClientRoom` stand for it."""
        self.polled: Callable[[], None] = lambda: None
        """Called by each `poll`."""
        self._loop = asyncio.new_event_loop()
        self._is_over = asyncio.Event()
        self._is_stopping = False
        # A call must not be given to a loop that has stopped between the check and the call.
        self._lock = threading.Lock()
        # A daemon, so that a program that forgets to close can end.
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], Awaitable[T]], timeout: float | None = None, otherwise: str = "") -> T:
        """Run a coroutine in the loop and wait for its result. Interrupting the wait cancels it.

        A `TimeoutError` says what there was instead of a result.
        """
        self._check_thread()
        with self._lock:
            if self._is_stopping:
                raise SessionEnded("closed", "closed by this program")
            future = asyncio.run_coroutine_threadsafe(_limited(work, timeout, otherwise), self._loop)
        try:
            return future.result()
        except CancelledError:
            raise SessionEnded("closed", "closed by this program") from None
        except BaseException:
            future.cancel()
            raise

    def begin(self, work: Callable[[], Awaitable[T]], made: Callable[[T], R]) -> "Future[R]":
        """Run a coroutine in the loop, and do not wait: its result is the future's, once `made` has converted it."""
        future: _Later[R] = _Later(self._callbacks.append)

        async def run() -> R:
            return made(await work())

        def started() -> None:
            task = self._loop.create_task(run())
            task.add_done_callback(partial(_settle, future))
            # Cancelling the future cancels the work.
            Future.add_done_callback(
                future, lambda done: self._loop.call_soon_threadsafe(task.cancel) if done.cancelled() else None
            )

        with self._lock:
            if self._is_stopping:
                raise SessionEnded("closed", "closed by this program")
            self._loop.call_soon_threadsafe(started)
        return future

    def tell(self, listeners: ListenerList[T], event: T) -> None:
        """Something happened: its listeners hear of it with the next `poll`."""
        if len(listeners):
            self._events.append(partial(listeners.tell, event))

    def poll(self) -> None:
        """Call what is due, in this thread."""
        for due in (self._events, self._callbacks):
            for _ in range(len(due)):
                try:
                    call = due.popleft()
                except IndexError:  # another thread polls, too
                    break
                try:
                    call()
                except Exception:
                    log.exception("a callback failed")
        self.polled()

    def stop(self) -> None:
        """Cancel what runs in the loop, end it, and wait for the thread."""
        self._check_thread()
        with self._lock:
            if not self._is_stopping:
                self._is_stopping = True
                self._loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join()

    def _live(self) -> None:
        # Cancels what is left at the end, and waits for it.
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._is_over.wait())

    def _check_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "this runs in the session's thread, which must not wait: set a flag, and call from your own thread"
            )


class _Later(Future[T]):
    """The result of a call that goes on. What is to be done when it is there waits for `poll`."""

    def __init__(self, due: Callable[[Callable[[], object]], None]) -> None:
        super().__init__()
        self._due = due

    def add_done_callback(self, fn: Callable[["Future[T]"], object]) -> None:
        super().add_done_callback(lambda done: self._due(partial(fn, done)))


def _settle(future: "Future[T]", task: "asyncio.Task[T]") -> None:
    # Unless the program has cancelled it.
    with suppress(InvalidStateError):
        if task.cancelled():
            future.set_exception(SessionEnded("closed", "closed by this program"))
        elif (error := task.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(task.result())


async def _limited(work: Callable[[], Awaitable[T]], timeout: float | None, otherwise: str) -> T:  # noqa: ASYNC109 - the error names it
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            return await work()
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimeoutError(f"{otherwise} within {timeout:g} s") from None


# The bridge


class Bridge(Generic[T]):
    """A blocking object in front of the one that lives in the background."""

    def __init__(self, background: Background, awaited: T) -> None:
        self._background = background
        self._awaited = awaited

    def __repr__(self) -> str:
        return repr(self._awaited)


class Mirrored(Generic[T]):
    """An attribute of the object in the background, read and set directly."""

    def __set_name__(self, owner: type[Bridge[Any]], name: str) -> None:
        self._name = name

    def __get__(self, instance: Bridge[Any], owner: type[Bridge[Any]]) -> T:
        if instance is None:
            return self  # type: ignore[unreachable]  # for tools that look at the class
        value: T = getattr(instance._awaited, self._name)  # noqa: SLF001 - the bridge's other half
        return value

    def __set__(self, instance: Bridge[Any], value: T) -> None:
        setattr(instance._awaited, self._name, value)  # noqa: SLF001 - the bridge's other half


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """Run a coroutine method in the background, and wait for its result."""
    return blocking_as(lambda _, result: result, method)


def called(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Call a plain method in the background, and wait for its result."""

    @wraps(method)
    async def coroutine(awaited: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(awaited, *args, **kwargs)

    return blocking(coroutine)


def blocking_as(
    make: Callable[[Background, T], R], method: Callable[Concatenate[Any, P], Awaitable[T]]
) -> Callable[Concatenate[Any, P], R]:
    """The same for a method whose result needs a bridge of its own."""

    @wraps(method)
    def call(self: Bridge[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return make(self._background, self._background.run(lambda: method(self._awaited, *args, **kwargs)))

    def begin(self: Bridge[Any], /, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        background = self._background
        return background.begin(lambda: method(self._awaited, *args, **kwargs), partial(make, background))

    setattr(call, _BEGIN, begin)
    return call


# What is behind it


class ClientRoom(Bridge[awaited_room.ClientRoom]):
    """One seat. Iterate over it for the room's messages, or `poll` it once per frame of your game.

    A message counts as processed, and is acknowledged, when the next one is asked for. One thread should read.
    """

    id = Mirrored[str]()
    kind = Mirrored[str]()
    left = Mirrored[SeatLeft | None]()
    info = Mirrored[RoomInfo | None]()
    host = Mirrored[str]()
    sent = Mirrored[int]()
    accepted = Mirrored[int]()
    received = Mirrored[int]()
    is_spectator = Mirrored[bool]()
    state = Mirrored[Any]()
    players = Mirrored[Mapping[str, Any]]()
    mine = Mirrored[Any]()

    send = blocking(awaited_room.ClientRoom.send)
    ask = blocking(awaited_room.ClientRoom.ask)
    send_latest = called(awaited_room.ClientRoom.send_latest)
    flush = blocking(awaited_room.ClientRoom.flush)
    leave = blocking(awaited_room.ClientRoom.leave)
    update = blocking(awaited_room.ClientRoom.update)
    acknowledge = called(awaited_room.ClientRoom.acknowledge)
    _take_turn = called(awaited_room.ClientRoom._take_turn)  # noqa: SLF001 - the bridge's other half

    def __init__(self, background: Background, awaited: awaited_room.ClientRoom) -> None:
        super().__init__(background, awaited)
        awaited._shared.copy_for_threads()  # noqa: SLF001 - the bridge's other half

    @overload
    def on_change(self, path: str, listener: Callable[..., object], /) -> Callable[[], None]: ...
    @overload
    def on_change(self, listener: Callable[[list[list[str | int]]], object], /) -> Callable[[], None]: ...
    def on_change(
        self, path: str | Callable[..., object], listener: Callable[..., object] | None = None, /
    ) -> Callable[[], None]:
        """Call a plain function when what is shared has changed, as in the asyncio client; the result ends that.

        `poll` calls it, and `receive`: with a listener, the state changes only in these.
        """
        self._awaited._wait_for_reader()  # noqa: SLF001 - the bridge's other half
        told: Any = (path,) if listener is None else (path, listener)
        return self._awaited.on_change(*told)

    def on(self, message_type: type[M]) -> ListenerList[M]:
        """The listeners of one type of message: `room.on(Moved)(show)`, or `@room.on(Moved)` before a function.

        `poll` calls them, and returns the messages that have none.
        """
        self._awaited._types.check(message_type)  # noqa: SLF001 - the bridge's other half
        listeners = self._background.listeners.setdefault(self._awaited, {})
        return listeners.setdefault(message_type, ListenerList())

    def poll(self) -> list[Message]:
        """The messages that are there now and have no listener, without waiting; the others go to their listeners.

        Calls the session's listeners, too, and those of changes. Raises like `receive` when there can be no more.
        """
        self._background.poll()
        listeners = self._background.listeners.get(self._awaited, {})
        unheard: list[Message] = []
        is_first = is_more = True
        while is_more:
            # Turn by turn: each listener sees the state of its message.
            messages, is_more = self._take_turn(is_first=is_first)
            is_first = False
            self._awaited._shared.tell()  # noqa: SLF001 - the bridge's other half
            unheard += [message for message in messages if not _is_heard(message, listeners)]
        return unheard

    @property
    def unconfirmed(self) -> list[Unconfirmed]:
        """The messages that were sent and not accepted yet, with their numbers. They are on their way by themselves."""

        async def read() -> list[Unconfirmed]:
            return self._awaited.unconfirmed

        return self._background.run(read)

    @overload
    def receive(self, *, timeout: float | None = None) -> Message: ...
    @overload
    def receive(self, message_type: type[M], timeout: float | None = None) -> M: ...
    def receive(self, message_type: type[Message] = Message, timeout: float | None = None) -> Message:
        """The next message, or the next of one type; `TimeoutError` after so many seconds without one.

        Messages of other types stay where they are, for the next `receive`, iteration or `poll`.
        """
        try:
            return self._background.run(lambda: self._awaited.receive(message_type), timeout, "no message")
        finally:
            self._awaited._shared.tell()  # noqa: SLF001 - the bridge's other half

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        try:
            return self.receive()
        except NotSeated:
            raise StopIteration from None


def _is_heard(message: Message, listeners: Mapping[type[Message], ListenerList[Any]]) -> bool:
    """Give a message to its listeners, if it has some."""
    heard = [listeners[kind] for kind in type(message).__mro__ if kind in listeners]
    for each in heard:
        each.tell(message)
    return any(heard)


class RoomWatch(Bridge[awaited.RoomWatch]):
    """A search that goes on: `with session.watch("arena") as watch:`. Iterate over it, or `poll` it once per frame.

    All rooms that were found come first, then what changes. A slow reader, or one that was away, gets all that has
    changed since as one. One thread should read.
    """

    is_closed = Mirrored[bool]()

    poll = called(awaited.RoomWatch.poll)

    @property
    def rooms(self) -> Mapping[str, RoomInfo]:
        """The rooms by id, as they are now."""
        return dict(self._awaited.rooms)

    def receive(self, timeout: float | None = None) -> RoomsChanged:
        """What has changed, as soon as something has; `TimeoutError` after so many seconds in which nothing did."""
        return self._background.run(self._awaited.receive, timeout, "no change")

    def close(self) -> None:
        """End the search. `rooms` stays as it was."""
        with suppress(SessionEnded):
            self._background.run(self._awaited.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> RoomsChanged:
        try:
            return self.receive()
        except Expired:
            if not self.is_closed:
                raise
            raise StopIteration from None


class Placement(Bridge[awaited.Placement]):
    """One placement; made by `ClientSession.place`."""

    id = Mirrored[str]()
    info = Mirrored[PlacementInfo]()

    stop = blocking(awaited.Placement.stop)

    def done(self, timeout: float | None = None) -> PlacementInfo:
        """Wait until it is fulfilled, cancelled, timed out or failed; `TimeoutError` if that takes too long."""
        return self._background.run(self._awaited.done, timeout, "no end of it")


class ClientSession(Bridge[awaited_session.ClientSession]):
    """A player's presence on a server. Reconnects and resumes by itself; made by `connect`.

    Its events can have several listeners, as in `session.on_drop(show)`. They run in `poll`, in the thread that calls
    it.
    """

    on_drop = Listenable[Drop]()
    on_reconnecting = Listenable[Drop]()
    on_resume = Listenable[Outcome]()
    on_stopping = Listenable[float]()
    on_close = Listenable[SessionEnded]()
    on_message = Listenable[Message]()

    id = Mirrored[str]()
    player_id = Mirrored[str]()
    name = Mirrored[str]()
    credential = Mirrored[str]()
    latency_ms = Mirrored[float]()
    connected = Mirrored[bool]()
    transport = Mirrored[str]()
    latest_transport = Mirrored[str]()
    outcome = Mirrored[Outcome | None]()
    drops = Mirrored[int]()

    create = blocking(awaited_session.ClientSession.create)
    search = blocking(awaited_session.ClientSession.search)
    update_room = blocking(awaited_session.ClientSession.update_room)
    join = blocking_as(ClientRoom, awaited_session.ClientSession.join)
    join_or_create = blocking_as(ClientRoom, awaited_session.ClientSession.join_or_create)
    spectate = blocking_as(ClientRoom, awaited_session.ClientSession.spectate)
    my_rooms = blocking(awaited_session.ClientSession.my_rooms)
    rejoin = blocking_as(ClientRoom, awaited_session.ClientSession.rejoin)
    reserve = blocking(awaited_session.ClientSession.reserve)
    release = blocking(awaited_session.ClientSession.release)
    wait_for_seat = blocking_as(ClientRoom, awaited_session.ClientSession.wait_for_seat)
    place = blocking_as(Placement, awaited_session.ClientSession.place)
    watch = blocking_as(RoomWatch, awaited_session.ClientSession.watch)
    rename = blocking(awaited_session.ClientSession.rename)
    link = blocking(awaited_session.ClientSession.link)
    cut = called(awaited_session.ClientSession.cut)

    def __init__(self, background: Background, awaited: awaited_session.ClientSession) -> None:
        super().__init__(background, awaited)
        for name in EVENTS:
            getattr(awaited, name)(partial(background.tell, getattr(self, name)))
        background.polled = self._hand_out

    def _hand_out(self) -> None:
        async def take() -> Message | None:
            return self._awaited._inbox.next()  # noqa: SLF001 - the bridge's other half

        async def acknowledge() -> None:
            self._awaited._inbox.acknowledge()  # noqa: SLF001 - as above

        with suppress(SessionEnded):
            # One by one: a listener may take itself away, and the rest waits for the next one.
            while len(self.on_message) and (message := self._background.run(take)) is not None:
                self.on_message.tell(message)
                self._background.run(acknowledge)

    def poll(self) -> None:
        """Once per frame of your game: call the listeners of what has happened, and of futures that are done.

        `room.poll()` does it, too.
        """
        self._background.poll()

    def later(self, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        """Begin a call without waiting for it, as in `session.later(session.join, room_id)`; the result is a future.

        For games with a frame loop: look at `future.done()` in each frame, or give a function to
        `future.add_done_callback`, which `poll` calls.
        """
        begin = getattr(method, _BEGIN, None)
        bridge = getattr(method, "__self__", None)
        if begin is None or not isinstance(bridge, Bridge) or bridge._background is not self._background:  # noqa: SLF001 - see `Bridge`
            raise TypeError(
                f"later takes a method of this session or its rooms, as in later(session.join); got {method!r}"
            )
        future: Future[R] = begin(bridge, *args, **kwargs)
        return future

    @property
    def room(self) -> ClientRoom | None:
        """The room we have a seat in; after `saved=` this is how to get it back."""
        room = self._awaited.room
        return ClientRoom(self._background, room) if room is not None else None

    @property
    def spectating(self) -> ClientRoom | None:
        """The room that we watch without a seat; after `saved=` this is how to get it back."""
        room = self._awaited.spectating
        return ClientRoom(self._background, room) if room is not None else None

    @overload
    def receive(self, *, timeout: float | None = None) -> Message: ...
    @overload
    def receive(self, message_type: type[M], timeout: float | None = None) -> M: ...
    def receive(self, message_type: type[Message] = Message, timeout: float | None = None) -> Message:
        """The next message to the session itself, or the next of one type; `TimeoutError` after so many seconds."""
        return self._background.run(lambda: self._awaited.receive(message_type), timeout, "no message")

    def search_all(
        self, kind: str | None = None, *, where: str = "open_seats > 0", order_by: str | Iterable[str] = ()
    ) -> Iterator[RoomInfo]:
        """All of them, page after page as they are asked for."""
        order_by = several(order_by)
        cursor = ""
        while True:
            page = self.search(kind, where=where, order_by=order_by, limit=PAGE_MAX, cursor=cursor)
            yield from page
            cursor = page.cursor
            if not cursor:
                return

    def close(self) -> None:
        """End the session on purpose: the seat is given back now, or when its grace ends if there is no connection.

        What was sent goes out first. Closing what is closed does nothing.
        """
        try:
            with suppress(SessionEnded):
                self._background.run(self._awaited.close)
        finally:
            self._background.stop()

    def suspend(self) -> None:
        """Go away without ending the session: the next `connect` with the same `saved=` goes on with it."""
        self._background.run(self._awaited.suspend)
        self._background.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _connecting(connect: Callable[P, awaited_connect.connect]) -> Callable[P, ClientSession]:
    @wraps(connect, updated=())
    def blocking_connect(*args: P.args, **kwargs: P.kwargs) -> ClientSession:
        listeners = {name: kwargs.pop(name) for name in LISTENERS if name in kwargs}
        connecting = connect(*args, **kwargs)
        background = Background("holdfast session", events_max=connecting.session.protocol.limits.unpolled_events_max)
        try:
            session = ClientSession(background, connecting.session)
            for name, listener in listeners.items():
                getattr(session, name)(listener)
            background.run(connecting.__aenter__)
        except BaseException:
            background.stop()
            raise
        return session

    blocking_connect.__doc__ = """Connect to a server, and stay connected: `with connect(url) as session:`.

    Leaving the block ends the session, also by an exception or Ctrl-C; without a block, call `session.close()`.
    The arguments and errors are those of `holdfast.connect`.
    """
    return blocking_connect


connect = _connecting(awaited_connect.connect)
