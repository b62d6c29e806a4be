"""A whole server and its clients in one process, with no socket: the real classes on a network that can be broken."""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextvars import Context
from random import Random
from typing import Any, TypeVar

from holdfast.client.connect import connect
from holdfast.client.session import ClientSession
from holdfast.core.limits import Limits
from holdfast.core.placement import Queue
from holdfast.core.room import Room
from holdfast.identity.port import Approach, Authenticator, Identity, NotAuthentic
from holdfast.schemas.frames import Auth
from holdfast.schemas.requests import Create
from holdfast.server.environment import Environment
from holdfast.server.rooms.effects import Carry
from holdfast.server.server import DIALECTS, Server, Storage
from holdfast.stores.port import Store
from holdfast.testing.failures import Allowed, Failures, GameFailed
from holdfast.testing.hashing import QuickHashing
from holdfast.testing.machine import Machine
from holdfast.testing.network import Dialer, Link, Network
from holdfast.testing.store import FaultyStore
from holdfast.transports.memory import MemoryListener
from holdfast.transports.port import TransportLimits

T = TypeVar("T")

URL = "memory://server"
"""The one address of a test's network."""

# The key of the guests, the same in every run.
_SECRET = bytes(32)


def _now() -> float:
    return asyncio.get_running_loop().time()


class Named:
    """An authenticator that believes a name, so that a test can say who is who. Never let the public in with it."""

    scheme = "name"

    def authenticate(self, credential: str, approach: Approach) -> Identity:
        """The player with this name."""
        if not credential:
            raise NotAuthentic("a name is needed: server.connect('ada')")
        return Identity(credential)


class MemoryServer(Server):
    """A server for tests. `connect` makes clients of it; leaving the block closes them, then the server.

    It runs on a machine of its own, which can crash: `server.crash()`, then `await server.start()` again.
    """

    def __init__(
        self,
        rooms: Iterable[type[Room[Any]]],
        *,
        seed: int | str = 0,
        network: Network | None = None,
        auth: Sequence[Authenticator] = (Named(),),
        store: str | Store | Storage | None = None,
        effects: Mapping[str, Carry] | None = None,
        grace_s: float = 30.0,
        name: str = "",
        region: str = "local",
        queues: Iterable[Queue] = (),
        limits: Limits | None = None,
        allow_errors: Allowed = (),
    ) -> None:
        """Everything that is left to chance follows from `seed`: ids, tokens, jitter, the network.

        What the game's code raises fails the test when the server stops, except the types in `allow_errors`.

        Rooms that last need a `store`; one that is to survive crashes is a `FaultyStore`.
        """
        random = Random(f"{seed}/server")
        super().__init__(
            rooms,
            listen=[],
            auth=auth,
            secret=_SECRET,
            store=store,
            effects=effects,
            grace_s=grace_s,
            name=name,
            region=region,
            queues=queues,
            limits=limits,
            _environment=Environment(
                random=random, now=_now, wall_clock=_now, hashing=QuickHashing(), fatal=self._failed
            ),
        )
        self.network = network or Network(Random(f"{seed}/network"))
        self.failures = Failures(allow_errors)
        """What the game's code raised."""
        self._seed = seed
        self._dialers: dict[ClientSession, Dialer] = {}
        self._listener: MemoryListener | None = None
        self._machine: Machine | None = None

    @property
    def machine(self) -> Machine:
        """What the server runs on. What a test does to rooms or sessions by hand, it does there: `machine.call`."""
        if self._machine is None:
            raise RuntimeError("the server is not running: await server.start() first")
        return self._machine

    async def start(self) -> None:
        """Listen in the network; after a crash, with what the store has."""
        self._machine = Machine()
        await self._machine.do(self._start())

    async def _start(self) -> None:
        await super().start()
        self._listener = await self.network.listen(
            self.parts.accept, URL, dialects=DIALECTS, limits=TransportLimits.of(self.limits)
        )

    async def stop(self) -> None:
        """Close the server in order. Its clients try to come back until they are closed themselves.

        `GameFailed` if the game's code raised anything since the start that was not allowed.
        """
        if self._machine is not None:
            await self._machine.do(self._stop())
        self.failures.check()

    def _raised(self, error: Exception, where: str) -> None:
        self.failures.add(error, where)

    async def _stop(self) -> None:
        self._stop_listening()
        await super().stop()

    async def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return await self.machine.do(work)

    async def _create_room(self, request: Create) -> Room[Any]:
        return await self.machine.do(super()._create_room(request))

    def crash(self, *, silently: bool = False) -> None:
        """Cut the power: nothing more happens on the server, and nothing is said or saved. `start` brings it back.

        The links are reset, as when a process dies; silently: its clients have to notice, as when a machine does.
        """
        if self._store is not None and not isinstance(self._store, FaultyStore):
            raise RuntimeError("a server that crashes needs a store that does: MemoryServer(…, store=FaultyStore())")
        self.machine.crash()
        if self._line_limit is not None:
            # The loggers of a dead process are gone with it: what the next server says is not limited by this one.
            self._line_limit.stop()
        self._stop_listening()
        # Also if the server ended itself: what becomes of its links is not up to its machine any more.
        Context().run(self._lose_links, silently=silently)
        if self._store is not None:
            self._store.crash()
        self._parts = None
        self._is_stopping = False

    def _lose_links(self, *, silently: bool) -> None:
        for link in map(self.network.link, self.network.wires):
            if link.server is not self._machine:
                continue
            if not link.is_open:
                link.end("server").sever()
            elif silently:
                link.half_open("client")
            else:
                link.cut()

    def pause(self) -> None:
        """Let nothing happen on the server until `wake`. Its links stay up; another server may listen."""
        self.machine.pause()
        self._stop_listening()

    def wake(self) -> None:
        """Go on, with all that was missed."""
        self.machine.wake()
        if self._listener is not None:
            self._listener.is_open = True

    @property
    def links(self) -> list[Link]:
        """The open links to this server, oldest first."""
        return [link for link in self.network.links if link.server is self._machine]

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.is_open = False

    def _failed(self, _: Exception) -> None:
        self.crash()

    async def __aenter__(self) -> "MemoryServer":
        await self.start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        for client in self.clients:
            await client.close()
        try:
            await self.stop()
        except GameFailed as failed:
            error = raised[1]
            if not isinstance(error, BaseException):
                raise
            # Probably the cause of it.
            error.add_note(failed.explained())

    async def connect(self, name: str = "", **options: Any) -> ClientSession:
        """A client for the player with this name; the options are those of `holdfast.connect`."""
        number = len(self._dialers)
        dialer = options.setdefault("dial", self.network.dialer(name or f"client {number}"))
        options.setdefault("auth", Auth(Named.scheme, name) if name else None)
        options.setdefault("random", Random(f"{self._seed}/client/{number}"))
        options.setdefault("limits", self.limits)
        client = await connect(URL, **options)
        self._dialers[client] = dialer
        return client

    @property
    def clients(self) -> list[ClientSession]:
        """Every client that was ever connected, oldest first."""
        return list(self._dialers)

    def dialer(self, client: ClientSession) -> Dialer:
        """A client's way into the network."""
        return self._dialers[client]

    def link(self, client: ClientSession) -> Link:
        """A client's newest link: the thing to break."""
        return self._dialers[client].link
