"""A server and its clients in one process, without sockets: the real classes on a network that tests can break."""

import asyncio
import traceback
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import Context
from dataclasses import replace
from hashlib import sha256
from random import Random
from typing import Any, TypeVar

from holdfast.client.connect import connect
from holdfast.client.session import ClientSession
from holdfast.cluster.setting import Cluster
from holdfast.core.limits import Limits
from holdfast.core.placement import Queue
from holdfast.core.removed import removed
from holdfast.core.room import Room
from holdfast.identity.port import Approach, Authenticator, Identity, NotAuthentic
from holdfast.schemas.frames import Auth
from holdfast.schemas.requests import Create
from holdfast.server.context import Environment
from holdfast.server.display_names import CheckName
from holdfast.server.rooms.outbox import Carry
from holdfast.server.server import REMOVED_SETTINGS, SUBPROTOCOLS, Server, Storage
from holdfast.stores.port import Store
from holdfast.testing.bus import BusNetwork, MemoryBus
from holdfast.testing.clock import Machine
from holdfast.testing.network import Dialer, Link, Network
from holdfast.testing.store import FaultyStore
from holdfast.testing.udp import UdpNetwork
from holdfast.transports.memory import MemoryListener
from holdfast.transports.port import TransportLimits

T = TypeVar("T")

URL = "memory://server"
"""The one address of a test's network."""

# The key for guest credentials, the same in every run.
_SECRET = bytes(32)
# A failing hook fails often; the first errors are enough.
_KEPT_MAX = 20

Allowed = type[Exception] | tuple[type[Exception], ...]
"""The types of errors that a test expects."""


# More than any test uses, and still a number to calculate with.
_PLENTY = 10**12


def generous(limits: Limits | None = None) -> Limits:
    """The same limits, without those on how often and how much a client, an address or a player may do something.

    Limits on memory stay: windows, queues, payloads. So do graces and timeouts.
    """
    return replace(
        limits or Limits(),
        address_share=1.0,
        resume_reserve=0.0,
        unauthenticated_per_address_max=_PLENTY,
        unauthenticated_max=_PLENTY,
        hellos_per_address_burst=_PLENTY,
        hellos_per_address_per_s=_PLENTY,
        failures_per_address_burst=_PLENTY,
        failures_per_address_per_s=_PLENTY,
        guesses_per_address_burst=_PLENTY,
        guesses_per_address_per_s=_PLENTY,
        guesses_per_room_burst=_PLENTY,
        guesses_per_room_per_s=_PLENTY,
        resumes_per_s=_PLENTY,
        sign_ins_per_s=_PLENTY,
        messages_burst=_PLENTY,
        messages_per_s=_PLENTY,
        latest_burst=_PLENTY,
        latest_per_s=_PLENTY,
        requests_burst=_PLENTY,
        requests_per_s=_PLENTY,
        bytes_burst=_PLENTY,
        bytes_per_s=_PLENTY,
        fair_queue_frames_max=_PLENTY,
        rooms_per_player_max=_PLENTY,
        broadcasts_burst=_PLENTY,
        broadcasts_per_s=_PLENTY,
    )


UNLIMITED = generous()
"""No rate limits: for tests, benchmarks and simulations, never for a public server."""


def _now() -> float:
    return asyncio.get_running_loop().time()


class GameFailed(ExceptionGroup[Exception]):
    """The game's code raised errors during the test; a note on each says where."""

    def explained(self) -> str:
        """All errors with their tracebacks, as text."""
        return "".join(traceback.format_exception(self))


class Failures:
    """The errors of the game's code on one server, which contains them; a test should fail with them."""

    def __init__(self, allowed: Allowed = ()) -> None:
        self.errors: list[Exception] = []
        """All of them, in order; also those that are allowed."""
        self._allowed = allowed
        self._unexpected: list[Exception] = []
        self._more = 0

    def add(self, error: Exception, where: str) -> None:
        if len(self.errors) < _KEPT_MAX:
            self.errors.append(error)
        if isinstance(error, self._allowed):
            return
        if len(self._unexpected) < _KEPT_MAX:
            error.add_note(f"raised in {where}")
            self._unexpected.append(error)
        else:
            self._more += 1

    def check(self) -> None:
        """Raise the unexpected errors, once."""
        unexpected, self._unexpected = self._unexpected, []
        more, self._more = self._more, 0
        if unexpected:
            count = f" ({more} later ones are not shown)" if more else ""
            allowed = type(unexpected[0]).__name__
            raise GameFailed(
                f"the game's code failed{count}; if the test expects it, use MemoryServer(…, allow_errors={allowed})",
                unexpected,
            )


class QuickHashing:
    """Replaces argon2id in a `MemoryServer`: fast, without threads, and unsafe outside tests."""

    async def hash(self, password: bytes) -> str:
        return sha256(password).hexdigest()

    async def verify(self, known: str, password: bytes) -> bool:
        return known == sha256(password).hexdigest()

    def is_outdated(self, known: str) -> bool:
        return not known

    def close(self) -> None:
        pass


class Named:
    """An authenticator that accepts any name without proof. For tests only."""

    scheme = "name"

    def authenticate(self, credential: str, approach: Approach) -> Identity:
        if not credential:
            raise NotAuthentic("a name is needed: server.connect('ada')")
        return Identity(credential)


class MemoryServer(Server):
    """A server for tests. `connect` makes clients of it; leaving the block closes them, then the server.

    It runs on a machine of its own, which can crash: `server.crash()`, then `await server.start()` again.
    """

    @removed(**REMOVED_SETTINGS)
    def __init__(  # noqa: PLR0913 - settings, all by keyword
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
        advertise: str = "",
        queues: Iterable[Queue] = (),
        limits: Limits | None = None,
        check_name: CheckName | None = None,
        allow_errors: Allowed = (),
        cluster: BusNetwork | None = None,
        udp: UdpNetwork | None = None,
        clock_ahead_s: float = 0.0,
    ) -> None:
        """`seed` determines everything random: ids, tokens, jitter, the network.

        Errors that the game's code raises fail the test when the server stops, except the types in `allow_errors`.

        Durable rooms need a `store`; use a `FaultyStore` if the server is to crash.

        With a `cluster` it is one of its nodes: the nodes have a network, a bus network and the data of their stores in
        common, and each has its own name, which is in its `url`.

        Its wall clock is `clock_ahead_s` ahead of those of other servers, as on a machine whose clock is wrong.

        With `udp`, unreliable messages travel over that network, beside the connections of its clients.
        """
        random = Random(f"{seed}/server/{name}" if cluster is not None else f"{seed}/server")
        nodes: Cluster | None = None
        if cluster is not None:
            if store is None or isinstance(store, str | Storage) or not name:
                raise ValueError(
                    "a node of a cluster has a name and a store on common data, as in MemoryServer(…, name='a',"
                    " cluster=buses, store=FaultyStore(data))"
                )
            nodes = Cluster(
                place="memory",
                store=store,
                make_bus=lambda: MemoryBus(cluster),
                has_threads=False,
                address=advertise,
            )
            store = None
        self.address = f"memory://{name}" if cluster is not None else URL
        """Where its clients connect."""
        super().__init__(
            rooms,
            listen=[],
            auth=auth,
            secret=_SECRET,
            store=store,
            cluster=nodes,
            effects=effects,
            grace_s=grace_s,
            name=name,
            region=region,
            queues=queues,
            limits=limits,
            check_name=check_name,
            _environment=Environment(
                random=random,
                now=_now,
                wall_clock=lambda: _now() + clock_ahead_s,
                hashing=QuickHashing(),
                fatal=self._failed,
            ),
        )
        self.network = network or Network(Random(f"{seed}/network"))
        self._udp = udp
        self.failures = Failures(allow_errors)
        """What the game's code raised."""
        self._seed = seed
        self._dialers: dict[ClientSession, Dialer] = {}
        self._listener: MemoryListener | None = None
        self._machine: Machine | None = None

    @property
    def machine(self) -> Machine:
        """The machine that the server runs on. Tests that touch rooms or sessions directly use `machine.call`."""
        if self._machine is None:
            raise RuntimeError("the server is not running: await server.start() first")
        return self._machine

    async def start(self) -> None:
        """Start to listen; after a crash, recover what the store has."""
        self._machine = Machine()
        await self._machine.do(self._start())

    async def _start(self) -> None:
        await super().start()
        self._listener = await self.network.listen(
            self.parts.accept, self.address, subprotocols=SUBPROTOCOLS, limits=TransportLimits.of(self.limits)
        )
        if self._udp is not None:
            self.parts.udp_paths.port = self._udp.listen(self.address, self.parts.udp_paths.received)

    async def stop(self) -> None:
        """Stop the server in order. Its clients try to reconnect until they are closed.

        Raises `GameFailed` if the game's code raised errors that were not allowed.
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

    def _call(self, function: Callable[[], T]) -> T:
        return self.machine.result_of(function)

    async def _create_room(self, request: Create) -> Room[Any]:
        return await self.machine.do(super()._create_room(request))

    def crash(self, *, silently: bool = False) -> None:
        """Cut the power: the server stops at once, and nothing more is sent or saved. `start` restarts it.

        Links are reset, as when a process dies; `silently`: clients must notice it, as when a machine dies.
        """
        if self._store is not None and not isinstance(self._store, FaultyStore):
            raise RuntimeError(
                "a server that crashes needs a store that can crash: MemoryServer(…, store=FaultyStore())"
            )
        self.machine.crash()
        if self._line_limit is not None:
            # The rate limit of the log ends with its process.
            self._line_limit.stop()
        self._stop_listening()
        # Outside its machine, also if the server ended itself: a dead machine runs nothing.
        Context().run(self._lose_links, silently=silently)
        if self._store is not None:
            self._store.crash()
        self._parts = self._operations = None
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
        """Freeze the server until `wake`. Its links stay open, but it stops listening, so that another may listen."""
        self.machine.pause()
        self._stop_listening()

    def wake(self) -> None:
        """Continue with everything that was due in the meantime."""
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
            # Probably its cause.
            error.add_note(failed.explained())

    async def connect(self, player: str = "", **options: Any) -> ClientSession:
        """A client for the player with this id; the options are those of `holdfast.connect`."""
        number = len(self._dialers)
        dialer = options.setdefault("dial", self.network.dialer(player or f"client {number}"))
        options.setdefault("auth", Auth(Named.scheme, player) if player else None)
        options.setdefault("random", Random(f"{self._seed}/client/{number}"))
        options.setdefault("limits", self.limits)
        if self._udp is not None:
            options.setdefault("open_udp", self._udp.opener(dialer.name if isinstance(dialer, Dialer) else ""))
        client = await connect(options.pop("url", self.address), **options)
        self._dialers[client] = dialer
        return client

    @property
    def clients(self) -> list[ClientSession]:
        """Every client that was ever connected, oldest first."""
        return list(self._dialers)

    def dialer(self, client: ClientSession) -> Dialer:
        return self._dialers[client]

    def link(self, client: ClientSession) -> Link:
        return self._dialers[client].link
