"""The client for programs without an event loop: the same names, blocking.

Nothing is decided here. Each session has a thread of its own in which the asyncio session lives, so it stays connected
while the program is busy; the methods may be called from any thread. A method is the asyncio one, run in that thread:
its signature and documentation are those of the original.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from holdfast.client import connect as awaited_connect
from holdfast.client import room as awaited_room
from holdfast.client import session as awaited_session
from holdfast.client import subscriptions as awaited
from holdfast.client.room import Unconfirmed, several
from holdfast.client.session import PAGE_MAX
from holdfast.client.subscriptions import RoomsChanged
from holdfast.core.errors import Expired, NotSeated, SessionEnded
from holdfast.core.messages import Message, SeatLeft
from holdfast.schemas.frames import Outcome
from holdfast.schemas.placement import PlacementInfo
from holdfast.schemas.room import RoomInfo

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Background:
    """One loop and one thread, until `stop`."""

    def __init__(self, name: str) -> None:
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
            raise RuntimeError("a callback runs in the session's thread and cannot wait for it: set a flag in there")


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

    send = blocking(awaited_room.ClientRoom.send)
    send_latest = called(awaited_room.ClientRoom.send_latest)
    flush = blocking(awaited_room.ClientRoom.flush)
    leave = blocking(awaited_room.ClientRoom.leave)
    update = blocking(awaited_room.ClientRoom.update)
    poll = called(awaited_room.ClientRoom.poll)
    acknowledge = called(awaited_room.ClientRoom.acknowledge)

    @property
    def unconfirmed(self) -> list[Unconfirmed]:
        """The messages that were sent and not accepted yet, with their numbers. They are on their way by themselves."""

        async def read() -> list[Unconfirmed]:
            return self._awaited.unconfirmed

        return self._background.run(read)

    def receive(self, timeout: float | None = None) -> Message:
        """The next message; `TimeoutError` after so many seconds without one."""
        return self._background.run(self._awaited.receive, timeout, "no message")

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        try:
            return self.receive()
        except NotSeated:
            raise StopIteration from None


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

    The callbacks (`on_drop`, `on_resume`, `on_stopping`) run in the session's own thread: set a flag and return.
    """

    id = Mirrored[str]()
    player_id = Mirrored[str]()
    credential = Mirrored[str]()
    latency_ms = Mirrored[float]()
    connected = Mirrored[bool]()
    outcome = Mirrored[Outcome | None]()
    drops = Mirrored[int]()
    on_drop = Mirrored[Callable[[], None] | None]()
    on_resume = Mirrored[Callable[[Outcome], None] | None]()
    on_stopping = Mirrored[Callable[[float], None] | None]()

    create = blocking(awaited_session.ClientSession.create)
    search = blocking(awaited_session.ClientSession.search)
    update_room = blocking(awaited_session.ClientSession.update_room)
    join = blocking_as(ClientRoom, awaited_session.ClientSession.join)
    join_or_create = blocking_as(ClientRoom, awaited_session.ClientSession.join_or_create)
    my_rooms = blocking(awaited_session.ClientSession.my_rooms)
    rejoin = blocking_as(ClientRoom, awaited_session.ClientSession.rejoin)
    reserve = blocking(awaited_session.ClientSession.reserve)
    release = blocking(awaited_session.ClientSession.release)
    wait_for_seat = blocking_as(ClientRoom, awaited_session.ClientSession.wait_for_seat)
    place = blocking_as(Placement, awaited_session.ClientSession.place)
    watch = blocking_as(RoomWatch, awaited_session.ClientSession.watch)
    link = blocking(awaited_session.ClientSession.link)
    cut = called(awaited_session.ClientSession.cut)

    @property
    def room(self) -> ClientRoom | None:
        """The room we have a seat in; after `saved=` this is how to get it back."""
        room = self._awaited.room
        return ClientRoom(self._background, room) if room is not None else None

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
        connecting = connect(*args, **kwargs)
        background = Background("holdfast session")
        try:
            return ClientSession(background, background.run(connecting.__aenter__))
        except BaseException:
            background.stop()
            raise

    blocking_connect.__doc__ = """Connect to a server, and stay connected: `with connect(url) as session:`.

    Leaving the block ends the session, also by an exception or Ctrl-C; without a block, call `session.close()`.
    The arguments and errors are those of `holdfast.connect`.
    """
    return blocking_connect


connect = _connecting(awaited_connect.connect)
