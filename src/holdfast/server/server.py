"""`Server`: doors open on the network, a node behind them."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from holdfast.core.errors import Invalid
from holdfast.core.limits import Limits
from holdfast.core.placement import Queue
from holdfast.core.registry import SessionRegistry
from holdfast.core.removed import removed
from holdfast.core.room import Room
from holdfast.identity.guest import Guest
from holdfast.identity.hashing import Hashing
from holdfast.identity.port import AuthContext, Authenticator, memory_store
from holdfast.observability.bus import EventHandlers
from holdfast.observability.log_lines import LineLimitFilter
from holdfast.observability.metrics import Counters
from holdfast.schemas.ban import BanInfo
from holdfast.schemas.requests import Ban, Create
from holdfast.schemas.room import Visibility
from holdfast.server.admission.authenticators import by_scheme, close, kept_secret, prepare
from holdfast.server.admission.bans import subject_of
from holdfast.server.admission.doors import Doors, DoorSettings
from holdfast.server.admission.sign_in import TooManySessions
from holdfast.server.admission.tls import Tls
from holdfast.server.agents import Agent
from holdfast.server.directory.directory import Directory
from holdfast.server.durability.recovery import Pace
from holdfast.server.fatal import end_process
from holdfast.server.node import Node
from holdfast.server.operate.operations import Operations, OperatorApi
from holdfast.server.operations import operations_of
from holdfast.server.rooms.effects import Carry
from holdfast.server.rooms.kinds import check_room_type, room_types
from holdfast.stores import open_store
from holdfast.stores.port import Claim, Store

if TYPE_CHECKING:
    from holdfast.observability.tracing import Tracing

T = TypeVar("T")


_REMOVED = {
    "tcp_key": 'encrypt TCP with TLS, as in tls=Tls("cert.pem", "key.pem"); clients connect to tcps://host:port',
    "tcp_plain": "a TCP port with TLS accepts encrypted connections only; one without needs insecure=True in public",
}


class Server:
    """A game server. Everything it needs to know is given here; `start` opens its doors."""

    @removed(**_REMOVED)
    def __init__(  # noqa: PLR0913 - settings, all by keyword
        self,
        rooms: Iterable[type[Room[Any]]],
        *,
        host: str = "127.0.0.1",
        port: int | None = 7777,
        tcp_port: int | None = 7779,
        compression: bool = False,
        tls: Tls | None = None,
        origins: Sequence[str] = (),
        trusted_proxies: Sequence[str] = (),
        proxy_protocol: bool = False,
        full_share: Sequence[str] = (),
        insecure: bool = False,
        auth: Sequence[Authenticator] = (),
        secret: bytes | None = None,
        store: str | Store | None = None,
        recovery: Pace = "eager",
        takeover: bool = False,
        effects: Mapping[str, Carry] | None = None,
        grace_s: float = 30.0,
        too_many_sessions: TooManySessions = "replace",
        http: OperatorApi | None = None,
        tracing: "Tracing | None" = None,
        name: str = "",
        region: str = "local",
        queues: Iterable[Queue] = (),
        limits: Limits | None = None,
        random: Random | None = None,
        now: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        hashing: Hashing | None = None,
        fatal: Callable[[Exception], None] = end_process,
    ) -> None:
        """A port of None stays closed, 0 lets the system choose.

        With `tls` the doors speak wss:// and tcps://. `origins` are the sites whose pages may connect; programs always
        may. `trusted_proxies` ("10.0.0.0/8") are believed about whose connection they pass on: by what they say in HTTP
        headers, and with `proxy_protocol` in front of each connection. Where others could listen in on the players, the
        server does not start; `insecure` is for networks of your own. Addresses in `full_share` ("198.51.100.0/24") may
        hold all connections, sessions and rooms, others `Limits.address_share` of them.

        `auth` are the ways to sign in, from `holdfast.identity`; if it is empty, guests only. `secret` keeps guests
        known across restarts; a `store` does the same.

        With `compression`, WebSocket clients that offer permessage-deflate get it, as browsers do by themselves.

        `store` ("sqlite:game.db") is where durable rooms are kept; `recovery` says whether all of them are back before
        the doors open, or each when it is asked for. A file has one server: a second does not start, unless `takeover`
        tells it to, and then the first loses its durable rooms to it. `effects` carry out what rooms want done outside.
        `fatal` is called when what was saved may be lost, as after a failed fsync: going on would break our word.

        `too_many_sessions` says what happens when a player who has `Limits.sessions_per_player_max` sessions signs in
        once more: "replace" ends the one that is away longest, or else the oldest; "refuse" lets the new one not in.

        `http` is the API for backends and operators, as in `HttpApi(port=7778)` from `holdfast.http.api`. `queues` are
        where placements can be started; `name` and `region` say which node this is and where it stands, for their
        destinations and latency policies (without a name it makes one up at each start).
        `tracing` sends the way of some messages to OpenTelemetry: see `holdfast.observability.tracing`.

        `random`, `now`, `wall` and `hashing` (of the passwords of rooms: argon2id) are replaced in tests; `now` must
        count as the event loop's timers do. (uvloop's own clock ticks in milliseconds: too coarse for a round trip on a
        local network.)
        """
        handlers = self._handlers = EventHandlers()
        self.on = handlers.on
        self.off = handlers.off
        self._hashing = hashing
        self.room_types = room_types(rooms)
        """The kinds of rooms that it serves."""
        for room_type in self.room_types:
            check_room_type(room_type, has_store=store is not None)
        self._store = open_store(store) if store is not None else None
        if recovery not in get_args(Pace):
            raise ValueError(f"recovery must be one of {', '.join(get_args(Pace))}; got {recovery!r}")
        self._recovery: Pace = recovery
        self._claim: Claim = "takeover" if takeover else "sole"
        if too_many_sessions not in get_args(TooManySessions):
            known = ", ".join(get_args(TooManySessions))
            raise ValueError(f"too_many_sessions must be one of {known}; got {too_many_sessions!r}")
        self._too_many_sessions: TooManySessions = too_many_sessions
        self._effects = dict(effects or {})
        self.http = http
        self._tracing = tracing
        self._name = name
        self._region = region
        self._queues = list(queues)
        self._wall_clock = wall_clock
        self._fatal = fatal
        self._limits = limits or Limits()
        self.doors = Doors(
            DoorSettings(
                host=host,
                port=port,
                tcp_port=tcp_port,
                compression=compression,
                tls=tls,
                origins=origins,
                trusted_proxies=trusted_proxies,
                proxy_protocol=proxy_protocol,
                full_share=full_share,
                insecure=insecure,
            ),
            self._limits,
        )
        self._random = random or SystemRandom()
        self._grace_s = grace_s
        self._now = now
        self._auth = by_scheme(auth or (Guest(),))
        self._secret = secret
        self._node: Node | None = None
        self._line_limit: LineLimitFilter | None = None
        self._operations: Operations | None = None
        self._is_starting = False
        self._is_stopping = False
        self.addresses: dict[str, tuple[str, int]] = {}
        """Where the doors are, by transport: {"websocket": ("127.0.0.1", 7777), …}."""

    @property
    def node(self) -> Node:
        """The running node: for transports, tests and tools. Games use the rest of this class."""
        if self._node is None:
            raise RuntimeError("the server is not running: await server.start() first")
        return self._node

    @property
    def operate(self) -> Operations:
        """What operators can do with the running node: the HTTP API is handed this."""
        if self._operations is None:
            raise RuntimeError("the server is not running: await server.start() first")
        return self._operations

    @property
    def url(self) -> str:
        """Where clients connect: "ws://127.0.0.1:7777"; the TCP door if there is no other."""
        for url in self.doors.urls.values():
            return url
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
        if self._node is not None or self._is_starting:
            raise RuntimeError("the server is running already")
        self._is_starting = True
        try:
            if self._store is not None:
                await self._store.open(self._claim)
            try:
                await self._start_node()
            except BaseException:
                if self._store is not None:
                    await self._store.close()
                raise
        finally:
            self._is_starting = False

    async def _start_node(self) -> None:
        loop = asyncio.get_running_loop()
        await prepare(self._auth.values(), self._auth_context)
        node = Node(
            loop,
            authenticators=self._auth,
            limits=self._limits,
            shares=self.doors.shares,
            random=self._random,
            grace_s=self._grace_s,
            now=self._now,
            wall_clock=self._wall_clock,
            effects=self._effects,
            store=self._store,
            fatal=self._fatal,
            name=self._name,
            region=self._region,
            queues=self._queues,
            too_many_sessions=self._too_many_sessions,
            hashing=self._hashing,
        )
        node.faults.on_error = self._raised
        if self._tracing is not None:
            tracing = node.tracing = self._tracing.start(
                now=node.now, wall_clock=node.wall_clock, when_written=node.trace_written
            )
            if node.committer is not None:
                node.committer.on_cut.append(tracing.cut)
                node.committer.on_committed.append(tracing.committed)
                node.committer.on_removed.append(tracing.forget)
        node.rooms.offer(self.room_types)
        self._handlers.bind(node.bus)
        self._node = node
        self._operations = operations_of(node, self.doors)
        if self._line_limit is not None:
            self._line_limit.stop()  # of a start that was never stopped: a simulated crash
        self._line_limit = LineLimitFilter(node.lines)
        try:
            await node.access.load()
            if node.recovery is not None:
                await node.recovery.recover(self._recovery)
            # From here on strangers can cause lines; what a recovery has to say was said in full.
            self._line_limit.start()
            self.addresses |= await self.doors.open(node.accept, node.connection_limiter.turned_away)
            if self.http is not None:
                self.addresses["http"] = await self.http.open(self.operate)
                self.doors.http = (self.http.scheme, self.addresses["http"])
            # Not before this node has its address: one started by mistake would take the rooms of the one it meets.
            if node.recovery is not None and node.committer is not None:
                node.committer.begin()
                node.recovery.resume_effects()
                # Nobody could come back before now, however long the recovery took.
                for session in node.sessions:
                    node.graces.renew(session)
        except BaseException:
            await self.stop()
            raise
        node.heartbeat.start()
        node.loop_lag.start()
        node.health.start()

    def _raised(self, error: Exception, where: str) -> None:
        """An error was contained: it is counted and in the log, and that is all."""

    async def _auth_context(self) -> AuthContext:
        """Without a store, the records of authenticators last until the server stops."""
        return AuthContext(
            secret=self._secret or await kept_secret(self._store),
            random=self._random,
            now=self._now,
            wall_clock=self._wall_clock,
            limits=self._limits,
            store=self._store if self._store is not None else memory_store(self._limits),
        )

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
            node.heartbeat.stop()
            node.loop_lag.stop()
            node.health.stop()
            await self.doors.close()
            self.addresses.clear()
            await node.stop()
            await close(self._auth.values())
            if self.http is not None:
                await self.http.close()
            if self._store is not None:
                await self._store.close()
        finally:
            if self._line_limit is not None:
                self._line_limit.stop()
                node.lines.close()
            # Not before: the last hooks of the rooms may want to look at the server.
            self._node = self._operations = None
            self._is_stopping = False

    async def create_room(
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
        request = Create(kind, dict(properties or {}), max_players, name, visibility, password, idempotency_key)
        return await self._create_room(request)

    async def _create_room(self, request: Create) -> Room[Any]:
        return (await self.node.rooms.create(request)).room

    async def ban(
        self, *, player: str = "", address: str = "", until: float | datetime | None = None, why: str = ""
    ) -> BanInfo:
        """Keep a player or a range of addresses ("203.0.113.0/24") out, and end their sessions at once.

        `until` is a moment: a datetime with a time zone, or seconds since 1970; without it the ban is for good. `why`
        is what they are told. With a store it outlives a restart; a ban of the same takes the place of this one.
        """
        if isinstance(until, datetime):
            if until.tzinfo is None:
                raise Invalid("until: say in which time zone, as in datetime.now(UTC) + timedelta(hours=2)")
            until = until.timestamp()
        return await self._do(self.node.access.ban(Ban(player, address, until or 0.0, None, why)))

    async def unban(self, *, player: str = "", address: str = "") -> None:
        """Let a player or a range of addresses in again; `NotFound` if nothing keeps them out."""
        await self._do(self.node.access.unban(subject_of(player, address)))

    def bans(self) -> list[BanInfo]:
        """Who is kept out, until when and why; the oldest first."""
        return self.node.access.bans()

    async def sign_out(self, player_id: str, why: str = "") -> None:
        """End all sessions of a player at once, also those that wait; older tickets and JWTs do not count any more."""
        await self._do(self.node.access.sign_out(player_id, why))

    async def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return await work

    def packet_log(self, *, session: str = "", address: str = "", on: bool = True, for_s: float | None = None) -> None:
        """Log every payload of a session (its id), an address or a range of addresses, without its secrets.

        It ends by itself after `for_s`, ten minutes if that is not said. The lines go to the logger `holdfast.packets`.
        """
        if bool(session) is bool(address):
            raise ValueError("say whose packets: packet_log(session=…) or packet_log(address=…)")
        if on:
            self.node.packets.follow(session or address, for_s)
        else:
            self.node.packets.leave(session or address)

    def open_agent(self, name: str, *, roles: Iterable[str] = ()) -> Agent:
        """A session with no socket, for a bot or an NPC, whose player id is `name`."""
        return Agent(self.node.agents, name, frozenset(roles))

    async def __aenter__(self) -> "Server":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
