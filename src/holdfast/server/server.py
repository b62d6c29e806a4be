"""`Server`: what games create and start."""

import inspect
import os
import secrets
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, get_args

from holdfast.cluster.setting import Cluster, open_cluster
from holdfast.core.addresses import AddressShares
from holdfast.core.codecs import CODECS
from holdfast.core.errors import Invalid
from holdfast.core.limits import Limits
from holdfast.core.messages import Message
from holdfast.core.placement import Queue
from holdfast.core.registry import SessionRegistry
from holdfast.core.removed import removed
from holdfast.core.room import Room
from holdfast.core.session import Session
from holdfast.core.tokens import TOKEN_BYTES
from holdfast.identity.guest import Guest
from holdfast.identity.port import AuthContext, Authenticator, AuthNews, Closing, Preparing, memory_store
from holdfast.logs import get_logger, prepare_logs
from holdfast.observability.bus import EventHandlers
from holdfast.observability.log_lines import LineLimitFilter
from holdfast.observability.metrics import Counters
from holdfast.schemas.ban import BanInfo
from holdfast.schemas.requests import Ban, Create, CreateOptions, fields_of
from holdfast.server.admission.bans import subject_of
from holdfast.server.agents import Agent
from holdfast.server.compose import ServerParts, Settings
from holdfast.server.context import Environment
from holdfast.server.directory.directory import Directory
from holdfast.server.display_names import CheckName
from holdfast.server.durability.recovery import Pace
from holdfast.server.operations import Operations, OperatorApi
from holdfast.server.rooms.kinds import check_room_type, room_types
from holdfast.server.rooms.outbox import Carry
from holdfast.stores import open_store
from holdfast.stores.port import ABSENT, Claim, RevisionConflict, Store
from holdfast.transports.listeners import Listen, Listeners, Tcp, WebSocket
from holdfast.transports.listening import PendingConnections
from holdfast.transports.port import Subprotocol, TransportLimits

if TYPE_CHECKING:
    from holdfast.observability.tracing import Tracing

log = get_logger("holdfast.server")

T = TypeVar("T")

SUBPROTOCOLS = tuple(Subprotocol(codec.name, codec.text) for codec in CODECS.values())
"""The codecs of a server, in order of preference."""

_SECRET_KEY = "secret/guests"  # noqa: S105 - a key in the store, not a secret
_LISTEN = "it belongs to what listens, as in listen=[WebSocket({0}), Tcp({0})]"
REMOVED_SETTINGS = {
    "full_share": 'it is a limit, as in limits=Limits(full_share=("198.51.100.0/24",))',
    "too_many_sessions": 'it is a limit, as in limits=Limits(sessions_policy="refuse")',
    "recovery": 'it belongs to the store, as in store=Storage("sqlite:game.db", recovery="lazy")',
}
"""What to use instead of settings that `MemoryServer` had too."""
_REMOVED = {
    **REMOVED_SETTINGS,
    **{name: _LISTEN.format(f"{name}=…") for name in ("host", "tls", "trusted_proxies", "proxy_protocol", "insecure")},
    "port": "say what listens, as in listen=[WebSocket(port=7777), Tcp(port=7779)]; listen=[] opens nothing",
    "tcp_port": "say what listens, as in listen=[WebSocket(port=7777), Tcp(port=7779)]; listen=[] opens nothing",
    "origins": 'it belongs to what listens, as in listen=[WebSocket(origins=["https://game.example"])]',
    "compression": "it belongs to what listens, as in listen=[WebSocket(compression=True)]",
    "tcp_key": 'encrypt TCP with TLS, as in listen=[Tcp(tls=Tls("cert.pem", "key.pem"))]; clients use tcps://host:port',
    "tcp_plain": "a port with TLS accepts encrypted connections only; one without needs insecure=True in public",
    **dict.fromkeys(("random", "now", "wall", "hashing", "fatal"), "tests use holdfast.testing.MemoryServer"),
    "takeover": 'it belongs to the store, as in store=Storage("sqlite:game.db", takeover=True)',
}


@dataclass(frozen=True, slots=True)
class Storage:
    """A store, and how the server uses it: `Server(rooms, store=Storage("sqlite:game.db", recovery="lazy"))`."""

    store: str | Store
    """A URL such as "sqlite:game.db", or a store of your own."""
    _: KW_ONLY
    recovery: Pace = "eager"
    """Recover all durable rooms before the server listens ("eager"), or each one when it is first requested
    ("lazy")."""
    takeover: bool = False
    """Start even if another server uses the store, and take over its durable rooms. Otherwise only one server can."""

    def __post_init__(self) -> None:
        """`ValueError` for an unknown recovery."""
        if self.recovery not in get_args(Pace):
            raise ValueError(f"recovery must be one of {', '.join(get_args(Pace))}; got {self.recovery!r}")


class Server:
    """A game server. The constructor takes all settings; `start` opens the ports."""

    @removed(**_REMOVED)
    def __init__(  # noqa: PLR0913 - settings, all by keyword
        self,
        rooms: Iterable[type[Room[Any]]],
        *,
        listen: Sequence[Listen] | None = None,
        auth: Sequence[Authenticator] = (),
        secret: bytes | None = None,
        store: str | Store | Storage | None = None,
        cluster: str | Cluster | None = None,
        advertise: str = "",
        effects: Mapping[str, Carry] | None = None,
        grace_s: float = 30.0,
        limits: Limits | None = None,
        http: OperatorApi | None = None,
        tracing: "Tracing | None" = None,
        name: str = "",
        region: str = "local",
        queues: Iterable[Queue] = (),
        check_name: CheckName | None = None,
        _environment: Environment | None = None,
    ) -> None:
        """Serve these kinds of rooms.

        - `listen`: the ports for players, `WebSocket` and `Tcp`; both on 127.0.0.1 by default, none if it is
          empty.
        - `auth`: the ways to sign in, from `holdfast.identity`; guests only if it is empty. `secret` keeps guests known
          across restarts; a `store` does the same.
        - `store`: where durable rooms are saved, "sqlite:game.db", a store of your own, or a `Storage` with options.
        - `cluster`: makes this server a node of a cluster, instead of `store`: the address of its NATS servers and its
          name, as in "nats://10.0.0.1,10.0.0.2,10.0.0.3/arena".
        - `advertise`: the address at which clients reach this node of the cluster and no other, as in
          "wss://node-a.example": those that come to another node are told it, and come here if they can.
        - `effects`: handlers of the effects of rooms: work outside of the server.
        - `grace_s`: how long a session without a seat outlives its connection; in a room, `Room.grace_s` counts.
        - `limits`: every bound, with its default.
        - `http`: the API for backends and operators, as in `HttpApi(port=7778)`.
        - `tracing`: sends the way of some messages to OpenTelemetry: see `holdfast.observability.tracing`.
        - `name`, `region`: which node this is and where it runs, for the destinations and latency policies of
          `queues`, where placements can be started. Without a name, each start generates one.
        - `check_name`: your own check of players' display names, as in `def check_name(name, identity)`: it raises
          `Refused`, returns another name, or None to accept this one. The name is empty if the player gave none.
        """
        if inspect.iscoroutinefunction(check_name):
            raise TypeError("check_name is a plain function: it runs at every sign-in, and must not wait for anything")
        _check_settings(auth, effects, check_name)
        handlers = self._handlers = EventHandlers()
        self.on = handlers.on
        self.off = handlers.off
        if isinstance(listen, WebSocket | Tcp):
            raise TypeError(f"listen is a list, as in listen=[{type(listen).__name__}(port={listen.port})]")
        if store is not None and cluster is not None:
            raise ValueError(
                "a cluster keeps its rooms in the JetStream of its NATS servers: remove the store, or the cluster"
            )
        nodes = _nodes(cluster, limits, advertise)
        if store is not None and not isinstance(store, Storage):
            store = Storage(store)
        self.room_types = room_types(rooms)
        """The kinds of rooms that it serves."""
        for room_type in self.room_types:
            check_room_type(room_type, has_store=store is not None or nodes is not None)
        self._store = open_store(store.store, limits) if store is not None else None
        self._recovery: Pace = store.recovery if store is not None else "eager"
        self._claim: Claim = "takeover" if store is not None and store.takeover else "sole"
        if nodes is not None:
            self._store, self._claim = nodes.store, "member"
        self.limits = limits or Limits()
        self._settings = Settings(
            room_types=self.room_types,
            authenticators=_by_scheme(auth or (Guest(),)),
            limits=self.limits,
            shares=AddressShares(self.limits.address_share, self.limits.full_share),
            environment=_environment or Environment(),
            grace_s=grace_s,
            effects=dict(effects or {}),
            store=self._store,
            name=name,
            region=region,
            queues=_queues(queues),
            tracing=tracing,
            check_name=check_name,
            cluster=nodes,
        )
        self._secret = secret
        self._auth_news = AuthNews()
        self.http = http
        self._transport_limits = TransportLimits.of(self.limits)
        self.listeners = Listeners(
            (WebSocket(), Tcp()) if listen is None else listen,
            self._transport_limits,
            certificate_check_s=self.limits.certificate_check_s,
            http_tls=None if http is None else http.tls,
        )
        """Its ports."""
        self._parts: ServerParts | None = None
        self._line_limit: LineLimitFilter | None = None
        self._operations: Operations | None = None
        self._is_starting = False
        self._is_stopping = False
        self.addresses: dict[str, tuple[str, int]] = {}
        """Where it listens, by transport: {"websocket": ("127.0.0.1", 7777), …}."""

    @property
    def is_running(self) -> bool:
        """Whether it has started, and has not stopped since."""
        return self._parts is not None

    @property
    def parts(self) -> ServerParts:
        """The parts of the running server: for tests and tools. Games use the rest of this class."""
        if self._parts is None:
            raise RuntimeError("the server is not running: await server.start() first")
        return self._parts

    @property
    def operate(self) -> Operations:
        """What operators can do with the running node: the interface behind the HTTP API."""
        if self._operations is None:
            raise RuntimeError("the server is not running: await server.start() first")
        return self._operations

    @property
    def url(self) -> str:
        """Where clients connect: "ws://127.0.0.1:7777", the first of `urls`."""
        for url in self.listeners.urls.values():
            return url
        raise RuntimeError("the server is not listening: await server.start() first, and do not leave `listen` empty")

    @property
    def urls(self) -> dict[str, str]:
        """Where clients connect, by transport: {"websocket": "ws://127.0.0.1:7777", "tcp": "tcp://127.0.0.1:7779"}."""
        return dict(self.listeners.urls)

    def reload_certificates(self) -> None:
        """Reload the certificates now. Changed files are also noticed automatically, within a minute."""
        self.listeners.reload()

    @property
    def sessions(self) -> SessionRegistry:
        """The sessions of this server."""
        return self.parts.sessions

    @property
    def rooms(self) -> Directory:
        """The rooms of this server."""
        return self.parts.rooms

    @property
    def counters(self) -> Counters:
        """The counters of this server."""
        return self.parts.context.counters

    async def start(self) -> None:
        """Open the ports. A port that is in use raises `OSError` with its number."""
        if self._parts is not None or self._is_starting:
            raise RuntimeError("the server is already running")
        self._is_starting = True
        try:
            if self._store is not None:
                await self._store.open(self._claim)
            try:
                await self._start_parts()
            except BaseException:
                if self._store is not None:
                    await self._store.close()
                raise
        finally:
            self._is_starting = False

    async def _start_parts(self) -> None:
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            log.warning("PROMETHEUS_MULTIPROC_DIR is set: all servers of this process share their histograms")
        await self._prepare_authenticators()
        parts = ServerParts(self._settings)
        parts.faults.on_error = self._raised
        self._handlers.bind(parts.bus)
        self._parts = parts
        self._operations = Operations(parts, self.listeners)
        if self._line_limit is not None:
            self._line_limit.stop()  # left from a start without a stop: a simulated crash
        self._line_limit = LineLimitFilter(parts.lines)
        prepare_logs()
        try:
            await parts.access.load()
            if parts.cluster is not None:
                parts.cluster.directory.share(self._auth_news)
                await parts.cluster.start(parts.accept, SUBPROTOCOLS)
            elif parts.recovery is not None:
                await parts.recovery.recover(self._recovery)
            # From here on unauthenticated peers can cause log lines; those of a recovery are never limited.
            self._line_limit.start()
            pending_connections = PendingConnections(
                self._transport_limits, parts.connection_limiter.turned_away, self._settings.shares
            )
            self.addresses |= await self.listeners.open(
                parts.accept, SUBPROTOCOLS, pending_connections, parts.udp_paths
            )
            if self.http is not None:
                self.addresses["http"] = await self.http.open(self.operate)
                self.listeners.http = (self.http.scheme, self.addresses["http"])
            # Only once this node has its address: a server started by mistake would take the rooms of the running one.
            if parts.recovery is not None and parts.committer is not None:
                parts.committer.begin()
                parts.recovery.resume_effects()
                if parts.cluster is not None:
                    parts.cluster.begin()
                # Nobody could return before now, however long the recovery took.
                for session in parts.sessions:
                    parts.lifecycle.graces.renew(session)
        except BaseException:
            await self.stop()
            raise
        parts.heartbeat.start()
        parts.loop_lag.start()
        parts.gc_pauses.start()
        parts.health.start()

    def _raised(self, error: Exception, where: str) -> None:
        """A contained error: counted and logged, nothing else."""

    async def _prepare_authenticators(self) -> None:
        """Without a store, the records of authenticators last until the server stops."""
        preparing = [each for each in self._settings.authenticators.values() if isinstance(each, Preparing)]
        if not preparing:
            return
        environment = self._settings.environment
        context = AuthContext(
            secret=self._secret or await _kept_secret(self._store),
            random=environment.random,
            now=environment.now,
            wall_clock=environment.wall_clock,
            limits=self.limits,
            store=self._store if self._store is not None else memory_store(self.limits),
            is_shared=self._settings.cluster is not None,
            news=self._auth_news,
        )
        for each in preparing:
            await each.prepare(context)

    async def drain(self, within_s: float | None = None) -> None:
        """Accept nobody new, notify players and rooms of the coming stop, and give them time until then.

        Returns as soon as no occupied room would end with this server, at the latest after `within_s` seconds, by
        default `Limits.drain_s`. Call `stop` next.
        """
        await self._do(self._drain(self.limits.drain_s if within_s is None else within_s))

    async def _drain(self, within_s: float) -> None:
        parts = self.parts
        if parts.cluster is not None and not parts.cluster.is_ending:
            # Before anybody is told: what goes on elsewhere does not end, and its players notice nothing.
            parts.drain.leave()
            await parts.cluster.migration.empty()
        await parts.drain.run(within_s)
        if parts.cluster is not None:
            # Rooms in memory have ended meanwhile, and their players are free to go on elsewhere.
            await parts.cluster.migration.send_on()

    async def stop(self) -> None:
        """Close the ports, end the rooms, and ask every client to return later."""
        parts = self._parts
        if parts is None or self._is_stopping:
            return
        self._is_stopping = True
        try:
            parts.heartbeat.stop()
            parts.loop_lag.stop()
            parts.gc_pauses.stop()
            parts.health.stop()
            await self.listeners.close()
            self.addresses.clear()
            if parts.cluster is not None:
                await parts.cluster.stop_taking()
            await parts.stop()
            if parts.cluster is not None:
                await parts.cluster.stop()
            for authenticator in self._settings.authenticators.values():
                if isinstance(authenticator, Closing):
                    await authenticator.close()
            if self.http is not None:
                await self.http.close()
            if self._store is not None:
                await self._store.close()
        finally:
            if self._line_limit is not None:
                self._line_limit.stop()
                parts.lines.close()
            # Only now: the last hooks of the rooms may use the server.
            self._parts = self._operations = None
            self._is_stopping = False

    async def create_room(self, kind: str, **options: Unpack[CreateOptions]) -> Room[Any]:
        """Create a room from the server's side."""
        return await self._create_room(Create(kind, **fields_of(options)))

    async def _create_room(self, request: Create) -> Room[Any]:
        return (await self.parts.rooms.create(request)).room

    def broadcast(
        self,
        message: Message,
        *,
        where: Callable[[Session], bool] | None = None,
        role: str = "",
        kind: str = "",
    ) -> int:
        """Send a message to every session on the node, connected or held: exactly once, as `Session.send` does.

        With `role`, to sessions with that role; with `kind`, to those that play in a room of that kind or watch one;
        with `where`, to those for which it returns True. Returns how many they are; they are told in portions, within
        moments.
        Clients that do not hear messages to their session are left out.
        """
        send = self.parts.session_messages.broadcast
        return self._call(partial(send, message, where=where, role=role, kind=kind))

    async def ban(
        self, *, player: str = "", address: str = "", until: float | datetime | None = None, why: str = ""
    ) -> BanInfo:
        """Ban a player or a range of addresses ("203.0.113.0/24"), and end their sessions at once.

        `until` is a datetime with a time zone, or seconds since 1970; without it the ban is permanent. `why` is shown
        to the banned players. With a store the ban outlives a restart; a new ban of the same player or range replaces
        it.
        """
        if isinstance(until, datetime):
            if until.tzinfo is None:
                raise Invalid("until: add a time zone, as in datetime.now(UTC) + timedelta(hours=2)")
            until = until.timestamp()
        return await self._do(self.parts.access.ban(Ban(player, address, until or 0.0, None, why)))

    async def unban(self, *, player: str = "", address: str = "") -> None:
        """Lift the ban of a player or a range of addresses; `NotFound` if there is none."""
        await self._do(self.parts.access.unban(subject_of(player, address)))

    def bans(self) -> list[BanInfo]:
        """The bans in force, oldest first."""
        return self.parts.access.bans.all()

    async def sign_out(self, player_id: str, why: str = "") -> None:
        """End all sessions of a player at once, including disconnected ones; tickets and JWTs issued before become
        invalid."""
        await self._do(self.parts.access.sign_out(player_id, why))

    async def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return await work

    def _call(self, function: Callable[[], T]) -> T:
        return function()

    def packet_log(self, *, session: str = "", address: str = "", on: bool = True, for_s: float | None = None) -> None:
        """Log every payload of a session (its id), an address or a range of addresses, without secrets.

        It ends after `for_s`, ten minutes by default. The lines go to the logger `holdfast.packets`.
        """
        if bool(session) is bool(address):
            raise ValueError("name a session or an address: packet_log(session=…) or packet_log(address=…)")
        if on:
            self.parts.packets.follow(session or address, for_s)
        else:
            self.parts.packets.leave(session or address)

    def open_agent(self, name: str, *, roles: Iterable[str] = ()) -> Agent:
        """Open a session without a socket, for a bot or an NPC that joins rooms; its player id is "agent:name".

        A bot that belongs to one room is opened by the room: `Room.open_agent`.
        """
        return Agent(self.parts.agents, name, frozenset(roles))

    async def __aenter__(self) -> "Server":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def _check_settings(auth: Any, effects: Any, check_name: Any) -> None:
    """`TypeError` with what to write, for values that would fail later, at a sign-in or in a room."""
    if not isinstance(auth, Sequence) or not all(hasattr(each, "scheme") for each in auth):
        got = type(auth).__name__
        raise TypeError(
            f"auth is a list of authenticators, as in auth=[Guest(), Password()]; got a value of type {got}"
        )
    if effects is not None and not (isinstance(effects, Mapping) and all(map(callable, effects.values()))):
        raise TypeError(f'effects maps names to functions, as in effects={{"pay": pay}}; got {effects!r}')
    if check_name is not None and not callable(check_name):
        raise TypeError(f"check_name is a function of a name and an identity; got {check_name!r}")


def _nodes(cluster: str | Cluster | None, limits: Limits | None, advertise: str) -> Cluster | None:
    if advertise and cluster is None:
        raise ValueError("advertise is for a node of a cluster: add the cluster, or remove it")
    return None if cluster is None else open_cluster(cluster, limits, address=advertise)


def _queues(queues: Any) -> list[Queue]:
    listed = list(queues) if isinstance(queues, Iterable) else [queues]
    if not isinstance(queues, Iterable) or not all(isinstance(each, Queue) for each in listed):
        raise TypeError(f'queues is a list, as in queues=[Queue("europe", ("*",))]; got {queues!r}')
    return listed


def _by_scheme(authenticators: Sequence[Authenticator]) -> Mapping[str, Authenticator]:
    found = {each.scheme: each for each in authenticators}
    if len(found) < len(authenticators):
        schemes = ", ".join(each.scheme for each in authenticators)
        raise ValueError(f"auth: each scheme has one authenticator; got {schemes}")
    return found


async def _kept_secret(store: Store | None) -> bytes:
    """The key that signs the identities of guests: generated once and saved in the store, if there is one."""
    while store is not None:
        known = await store.get(_SECRET_KEY)
        if known is not None:
            return known.value
        with suppress(RevisionConflict):
            await store.put(_SECRET_KEY, secrets.token_bytes(TOKEN_BYTES), ABSENT)
    return secrets.token_bytes(TOKEN_BYTES)
