"""`Server`: doors open on the network, a node behind them."""

import asyncio
import contextlib
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random, SystemRandom
from typing import Any, TypeVar, get_args

from holdfast.core.events import Event
from holdfast.core.limits import Limits
from holdfast.core.placing import Queue
from holdfast.core.registry import SessionRegistry
from holdfast.core.room import Room
from holdfast.core.tokens import TOKEN_BYTES
from holdfast.core.wishes import Create, Visibility
from holdfast.http.port import Api
from holdfast.identity.guest import Guest
from holdfast.identity.port import Authenticator
from holdfast.server.agents import Agent
from holdfast.server.counters import Counters
from holdfast.server.directory import Directory
from holdfast.server.doors import Doors, DoorSettings
from holdfast.server.durable.recovery import Pace
from holdfast.server.effects import Carry
from holdfast.server.heartbeat import Heartbeat
from holdfast.server.kinds import check_room_type
from holdfast.server.node import Node
from holdfast.server.operator import Operator
from holdfast.stores import open_store
from holdfast.stores.port import ABSENT, Conflict, Store

log = logging.getLogger("holdfast")

E = TypeVar("E", bound=Event)

_SECRET_KEY = "secret/guests"  # noqa: S105 - where it is, not what it is


def end_process(error: Exception) -> None:
    """What was saved may be lost: end at once, so that nothing more is promised. The next start reads what there is."""
    log.critical("ending this process: %s", error)
    logging.shutdown()
    os._exit(74)


class Server:
    """A game server. Everything it needs to know is given here; `start` opens its doors."""

    def __init__(  # noqa: PLR0913 - settings, all by keyword
        self,
        rooms: Iterable[type[Room[Any]]],
        *,
        host: str = "127.0.0.1",
        port: int | None = 7777,
        tcp_port: int | None = 7779,
        auth: Sequence[Authenticator] = (),
        secret: bytes | None = None,
        store: str | Store | None = None,
        recovery: Pace = "eager",
        effects: Mapping[str, Carry] | None = None,
        grace_s: float = 30.0,
        http: Api | None = None,
        name: str = "",
        region: str = "local",
        queues: Iterable[Queue] = (),
        limits: Limits | None = None,
        random: Random | None = None,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        fatal: Callable[[Exception], None] = end_process,
    ) -> None:
        """A port of None stays closed, 0 lets the system choose. `secret` keeps guests known across restarts.

        `store` ("sqlite:game.db") is where durable rooms are kept; `recovery` says whether all of them are back before
        the doors open, or each when it is asked for. `effects` carry out what rooms want done outside. `fatal` is
        called when what was saved may be lost, as after a failed fsync: going on would break our word.

        `http` is the API for backends and operators, as in `HttpApi(port=7778)` from `holdfast.http.api`. `queues` are
        where placements can be started; `name` and `region` say which node this is and where it stands, for their
        destinations and latency policies (without a name it makes one up at each start).

        `random`, `now` and `wall` are replaced in tests; `now` must count as the event loop's timers do. (uvloop's own
        clock ticks in milliseconds: too coarse for a round trip on a local network.)
        """
        self._room_types = list(rooms)
        for room_type in self._room_types:
            check_room_type(room_type, has_store=store is not None)
        self._store = open_store(store) if store is not None else None
        if recovery not in get_args(Pace):
            raise ValueError(f"recovery must be one of {', '.join(get_args(Pace))}; got {recovery!r}")
        self._recovery: Pace = recovery
        self._effects = dict(effects or {})
        self._http = http
        self._name = name
        self._region = region
        self._queues = list(queues)
        self._wall = wall
        self._fatal = fatal
        self._limits = limits or Limits()
        self._doors = Doors(DoorSettings(host=host, port=port, tcp_port=tcp_port), self._limits)
        self._random = random or SystemRandom()
        self._grace_s = grace_s
        self._now = now
        self._auth = tuple(auth)
        self._secret = secret
        self._node: Node | None = None
        self._heartbeat: Heartbeat | None = None
        self._is_stopping = False
        self._handlers: list[tuple[type[Any], Callable[[Any], Any]]] = []
        self.addresses: dict[str, tuple[str, int]] = {}
        """Where the doors are, by transport: {"websocket": ("127.0.0.1", 7777), …}."""

    @property
    def node(self) -> Node:
        """The running node: for transports, tests and tools. Games use the rest of this class."""
        if self._node is None:
            raise RuntimeError("the server is not running: await server.start() first")
        return self._node

    @property
    def url(self) -> str:
        """Where clients connect: "ws://127.0.0.1:7777"; the TCP door if there is no other."""
        for transport, scheme in (("websocket", "ws"), ("tcp", "tcp")):
            if transport in self.addresses:
                host, port = self.addresses[transport]
                return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        raise RuntimeError("the server has no open door: await server.start() first, with a port")

    @property
    def sessions(self) -> SessionRegistry:
        """The sessions of this node."""
        return self.node.sessions

    @property
    def rooms(self) -> Directory:
        """The rooms of this node."""
        return self.node.rooms

    @property
    def counters(self) -> Counters:
        """What this node has counted."""
        return self.node.counters

    async def start(self) -> None:
        """Open the doors. A port that is taken is an `OSError` that says so."""
        if self._node is not None:
            raise RuntimeError("the server is running already")
        if self._store is not None:
            await self._store.open()
        try:
            await self._start_node()
        except BaseException:
            if self._store is not None:
                await self._store.close()
            raise

    async def _start_node(self) -> None:
        loop = asyncio.get_running_loop()
        auth = self._auth or (Guest(self._secret or await self._kept_secret(), self._random),)
        node = Node(
            loop,
            authenticators={each.scheme: each for each in auth},
            limits=self._limits,
            random=self._random,
            grace_s=self._grace_s,
            now=self._now,
            wall=self._wall,
            effects=self._effects,
            store=self._store,
            fatal=self._fatal,
            name=self._name,
            region=self._region,
            queues=self._queues,
        )
        node.rooms.offer(self._room_types)
        for event_type, handler in self._handlers:
            node.bus.on(event_type, handler)
        self._node = node
        self._heartbeat = Heartbeat(node, loop)
        try:
            if node.recovery is not None:
                await node.recovery.recover(self._recovery)
            self.addresses |= await self._doors.open(node.accept)
            if self._http is not None:
                self.addresses["http"] = await self._http.open(Operator(node))
            # Not before this node has its address: one started by mistake would take the rooms of the one it meets.
            if node.recovery is not None and node.ledger is not None:
                node.ledger.begin()
                node.recovery.resume_effects()
                # Nobody could come back before now, however long the recovery took.
                for session in node.sessions:
                    node.graces.renew(session)
        except BaseException:
            await self.stop()
            raise
        self._heartbeat.start()
        node.health.start()

    async def _kept_secret(self) -> bytes:
        """The key that proves who a guest is: made up once and kept with the rooms, if there is a store."""
        while self._store is not None:
            known = await self._store.get(_SECRET_KEY)
            if known is not None:
                return known.value
            with contextlib.suppress(Conflict):
                await self._store.put(_SECRET_KEY, secrets.token_bytes(TOKEN_BYTES), ABSENT)
        return secrets.token_bytes(TOKEN_BYTES)

    async def drain(self, within_s: float | None = None) -> None:
        """Take nobody new, tell players and rooms that the end is near, and give them until then.

        It returns as soon as nobody is in a room that ends with this server, at the latest after `Limits.drain_s` or so
        many seconds. `stop` is the next step.
        """
        await self.node.drain.run(self._limits.drain_s if within_s is None else within_s)

    async def stop(self) -> None:
        """Close the doors, end the rooms, and tell every client to come back later."""
        node = self._node
        if node is None or self._is_stopping:
            return
        self._is_stopping = True
        try:
            if self._heartbeat is not None:
                self._heartbeat.stop()
            node.health.stop()
            await self._doors.close()
            self.addresses.clear()
            await node.stop()
            if self._http is not None:
                await self._http.close()
            if self._store is not None:
                await self._store.close()
        finally:
            # Not before: the last hooks of the rooms may want to look at the server.
            self._node = None
            self._is_stopping = False

    async def create_room(  # noqa: PLR0913 - wishes, all by keyword
        self,
        kind: str,
        *,
        properties: Mapping[str, Any] | None = None,
        max_players: int | None = None,
        name: str = "",
        visibility: Visibility = "public",
        password: str = "",
        idempotency_key: str = "",
    ) -> Room[Any]:
        """Make a room from the server's side."""
        wish = Create(kind, dict(properties or {}), max_players, name, visibility, password, idempotency_key)
        return await self._create_room(wish)

    async def _create_room(self, wish: Create) -> Room[Any]:
        return (await self.node.rooms.create(wish)).room

    def on(self, event_type: type[E], handler: Callable[[E], Any] | None = None) -> Any:
        """Be told of what happens: `server.on(Dropped, handler)`, or `@server.on(Dropped)` above a function.

        Handlers may be `def` or `async def`; each is told of one event after the other, in the order they happened.
        """
        if handler is None:
            return partial(self._listen, event_type)
        return self._listen(event_type, handler)

    def _listen(self, event_type: type[E], handler: Callable[[E], Any]) -> Callable[[E], Any]:
        # Also for the next start of this server.
        self._handlers.append((event_type, handler))
        if self._node is not None:
            self._node.bus.on(event_type, handler)
        return handler

    def open_agent(self, name: str, *, roles: Iterable[str] = ()) -> Agent:
        """A session with no socket, for a bot or an NPC, whose player id is `name`."""
        return Agent(self.node, name, frozenset(roles))

    async def __aenter__(self) -> "Server":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
