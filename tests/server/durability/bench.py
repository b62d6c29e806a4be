"""A test bench: one server at a time on one store and one network, which can die at any instant and start again."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import wraps
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import holdfast.server.compose as compose_module
from holdfast import Auth, ClientRoom, ClientSession, Limits, Message, Outcome, Room, Server, Storage, connect
from holdfast.core.codec import MSGPACK
from holdfast.server.context import Environment
from holdfast.server.durability.recovery import Pace
from holdfast.server.rooms.outbox import Carry
from holdfast.server.server import SUBPROTOCOLS
from holdfast.stores import Entry, MemoryData
from holdfast.testing import Dialer, Link, Named, Network, run
from holdfast.testing.server import QuickHashing
from holdfast.transports.port import Listener, Subprotocol, TransportLimits
from tests.server.durability.faults import FaultyStore, Moment
from tests.server.durability.rooms import MESSAGES, Said
from tests.server.raw_client import RawClient

URL = "memory://server"
DAY_ONE = 1_800_000_000.0


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    async def limited(*args: Any, **kwargs: Any) -> None:
        async with asyncio.timeout(3600.0):
            await test(*args, **kwargs)

    @wraps(test)
    def plain(*args: Any, **kwargs: Any) -> None:
        run(limited(*args, **kwargs))

    return plain


async def until(holds: Callable[[], Any], within_s: float = 120.0) -> None:
    """Wait for something to become true; waiting costs nothing in virtual time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while not holds():
        assert loop.time() < deadline, "it did not happen"
        await asyncio.sleep(0.01)


async def a_moment(seconds: float = 0.5) -> None:
    """Long enough for everything that happens by itself."""
    await asyncio.sleep(seconds)


class MortalLoop:
    """The event loop as one server sees it: when the server dies, nothing it has set in motion goes on."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_dead = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self.time = loop.time
        self.create_future = loop.create_future

    def is_closed(self) -> bool:
        return self._is_dead or self._loop.is_closed()

    def die(self) -> None:
        self._is_dead = True
        for task in list(self._tasks):
            task.cancel()

    @property
    def tasks(self) -> list[str]:
        """What is still being done, by name."""
        return [repr(task.get_coro()) for task in self._tasks if not task.done()]

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> asyncio.Handle:
        return self._loop.call_soon(self._if_alive, callback, *args)

    def call_later(self, delay_s: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_s, self._if_alive, callback, *args)

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        return self._loop.call_at(when, self._if_alive, callback, *args)

    def create_task(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._is_dead:
            task.cancel()
        return task

    def _if_alive(self, callback: Callable[..., Any], *args: Any) -> None:
        if not self._is_dead:
            callback(*args)


class Sitting:
    """A client on its seat that reads all the time, and what it was told."""

    def __init__(self, session: ClientSession, room: ClientRoom) -> None:
        self.session = session
        self.room = room
        self.heard: list[Message] = []
        self.outcomes: list[Outcome] = []
        session.on_resume(self.outcomes.append)
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self.room:
            self.heard.append(message)

    @property
    def texts(self) -> list[str]:
        """What the room said."""
        return [message.text for message in self.heard if isinstance(message, Said)]

    @property
    def kinds(self) -> list[str]:
        """What became of the session, each time it came back."""
        return [outcome.kind for outcome in self.outcomes]

    async def send(self, *messages: Message) -> None:
        for message in messages:
            await self.room.send(message)

    async def has_heard(self, text: str) -> None:
        await until(lambda: text in self.texts)

    async def back(self, times: int = 1) -> Outcome:
        """Wait until the session came back this often."""
        await until(lambda: len(self.outcomes) >= times)
        return self.outcomes[times - 1]

    def stop(self) -> None:
        self._reader.cancel()


class Bench:
    """`async with Bench(Table) as bench`: a server that runs, on a store that lasts as long as the bench."""

    def __init__(
        self,
        *rooms: type[Room[Any]],
        limits: Limits | None = None,
        recovery: Pace = "eager",
        effects: dict[str, Carry] | None = None,
        grace_s: float = 30.0,
        network: Network | None = None,
    ) -> None:
        self.rooms: Iterable[type[Room[Any]]] = rooms
        self.limits = limits or Limits()
        self.recovery: Pace = recovery
        self.effects = effects or {}
        self.data = MemoryData()
        self.network = network or Network(Random(1))
        self.fatal: list[Exception] = []
        self.started = 0
        self.clock_off_s = 0.0
        """How far the clock on the wall is off; it can be set while the server is down."""
        self.internal_errors = 0
        self.store: FaultyStore
        self.server: Server
        self._grace_s = grace_s
        self._loop: MortalLoop
        self._door: Listener
        self._clients: dict[ClientSession, Dialer] = {}
        self._sittings: list[Sitting] = []
        self._is_up = False

    # The server

    async def start(self, store: FaultyStore | None = None) -> None:
        """Start a server on what the store has."""
        self.started += 1
        self.store = store or FaultyStore(self.data)
        self._loop = MortalLoop(asyncio.get_running_loop())
        self.server = Server(
            self.rooms,
            listen=[],
            auth=[Named()],
            grace_s=self._grace_s,
            limits=self.limits,
            store=Storage(self.store, recovery=self.recovery),
            effects=self.effects,
            _environment=Environment(
                random=Random(f"server {self.started}"),
                now=asyncio.get_running_loop().time,
                hashing=QuickHashing(),
                wall_clock=lambda: DAY_ONE + asyncio.get_running_loop().time() + self.clock_off_s,
                fatal=self.fatal.append,
            ),
        )
        with patch.object(compose_module, "asyncio", SimpleNamespace(get_running_loop=lambda: self._loop)):
            await self.server.start()
        self._door = await self.network.listen(
            self.server.parts.accept, URL, subprotocols=SUBPROTOCOLS, limits=TransportLimits.of(self.limits)
        )
        self._is_up = True

    def crash(self) -> None:
        """The server stops dead: nothing is saved, nothing is sent, nothing rings. Clients see their links vanish."""
        self._count_errors()
        self._is_up = False
        self.store.is_dead = True
        self._loop.die()
        if self.server._line_limit is not None:  # noqa: SLF001 - a dead process has no loggers that it could limit
            self.server._line_limit.stop()  # noqa: SLF001
        self._door.is_open = False  # type: ignore[attr-defined]  # a memory listener; closing it is all that `close` does
        for link in self.network.links:
            link.half_open("server")

    async def restart(self) -> None:
        """Crash and start again."""
        if self._is_up:
            self.crash()
        await a_moment(0.05)
        await self.start()

    def backup(self) -> dict[str, Entry]:
        """What the store has now."""
        return dict(self.data.entries)

    async def restore(self, backup: dict[str, Entry]) -> None:
        """Crash, put an older store in the place of the present one, and start again."""
        self.crash()
        self.data.entries = dict(backup)
        await self.restart()

    async def stop(self) -> None:
        """Stop the server in order; its clients try to come back."""
        self._is_up = False
        await self._door.close()
        counters = self.server.counters
        await self.server.stop()
        self.internal_errors += counters.internal_errors

    def _count_errors(self) -> None:
        self.internal_errors += self.server.counters.internal_errors

    @property
    def tasks(self) -> list[str]:
        """What the server has going on."""
        return self._loop.tasks

    def crash_at(self, number: int, moment: Moment) -> None:
        """Crash when the commit with this number gets so far; a new server is up half a second later."""

        def reached(commit: int, at: Moment) -> None:
            if commit == number and at is moment and not store.is_dead:
                self.crash()
                self._restarting = asyncio.create_task(self._come_back())

        store = self.store
        store.on_moment = reached

    async def _come_back(self) -> None:
        await asyncio.sleep(0.5)
        await self.start()

    # Clients

    async def connect(self, name: str, **options: Any) -> ClientSession:
        """A client that believes itself to be this player."""
        dialer = self.network.dialer(name)
        options = {"messages": MESSAGES, "random": Random(name), "limits": self.limits, **options}
        client = await connect(URL, auth=Auth(Named.scheme, name), dial=dialer, **options)
        self._clients[client] = dialer
        return client

    async def raw(self) -> RawClient:
        """A client made by hand, with nothing said yet."""
        client = RawClient(MSGPACK)
        subprotocol = Subprotocol(MSGPACK.name, MSGPACK.text)
        await self.network.dial(client, URL, subprotocols=[subprotocol], limits=TransportLimits.of(self.limits))
        return client

    async def sit(self, name: str, kind: str = "table", **options: Any) -> Sitting:
        """A client with a seat."""
        client = await self.connect(name, **options)
        return self.reading(client, await client.join_or_create(kind))

    def reading(self, client: ClientSession, room: ClientRoom) -> Sitting:
        sitting = Sitting(client, room)
        self._sittings.append(sitting)
        return sitting

    def dialer(self, client: ClientSession | Sitting) -> Dialer:
        return self._clients[client.session if isinstance(client, Sitting) else client]

    def link(self, client: ClientSession | Sitting) -> Link:
        return self.dialer(client).link

    def room(self, sitting: Sitting) -> Any:
        """The server's side of a client's room."""
        room = self.server.rooms.get(sitting.room.id)
        assert room is not None
        return room

    async def __aenter__(self) -> "Bench":
        await self.start()
        return self

    async def __aexit__(self, failed: object, *_: object) -> None:
        for sitting in self._sittings:
            sitting.stop()
        if self._is_up:
            self.crash()
        for client in self._clients:
            await client.close()
        assert failed or self.internal_errors == 0, "an internal error was logged"
