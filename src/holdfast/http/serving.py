"""The API on a socket: uvicorn's protocol in the running event loop, beside a game, with limits on connections.

uvicorn and the event loop's own servers have no such limits, and would do a TLS handshake before any of our code runs.
"""

import asyncio
import socket
from contextlib import suppress
from email.utils import formatdate
from ssl import SSLContext
from typing import Any, cast

import h11
import msgspec
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from holdfast.core.addresses import address_group
from holdfast.http.api import DEFAULT_HOST, DEFAULT_PORT, bind, check_binding
from holdfast.http.app import App
from holdfast.http.errors import MEDIA_TYPE, problem
from holdfast.http.responses import ABORT
from holdfast.logs import get_logger

_log = get_logger("holdfast.http")
# How long to wait when descriptors or memory run out, as asyncio does.
_EXHAUSTED_S = 1.0


class HttpServer:
    """Serves an app from `start` to `stop`, as https:// with an `ssl` context; port 0 lets the system choose a port."""

    def __init__(
        self,
        app: App,
        host: str = DEFAULT_HOST,
        port: int = DEFAULT_PORT,
        *,
        ssl: SSLContext | None = None,
        listening: socket.socket | None = None,
    ) -> None:
        """`listening` is bound already, instead of one to `host` and `port`."""
        self.limits = app.context.limits
        self.connections = ConnectionLimits(
            per_address_max=self.limits.connections_per_address_max, total_max=self.limits.connections_max
        )
        self.config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            proxy_headers=False,
            timeout_keep_alive=self.limits.idle_s,
            h11_max_incomplete_event_size=self.limits.head_bytes_max,
        )
        self.config.load()
        self.state = ServerState()
        """uvicorn's: the open connections, and the tasks of their requests."""
        self.one_gone = asyncio.Event()
        self._app = app
        self._has_keys = bool(app.context.keys)
        check_binding(host, has_keys=self._has_keys)
        self._host = host
        self._port = port
        options = {"ssl": ssl, "ssl_handshake_timeout": self.limits.request_s}
        self._transport_options: dict[str, Any] = {} if ssl is None else options
        self._given = listening
        self._listening: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        # The tasks that make transports, each with its socket until it has started.
        self._opening: dict[asyncio.Task[None], socket.socket | None] = {}
        self._address: tuple[str, int] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """The address at which it listens, or listened."""
        assert self._address is not None, "the server has not been started"
        return self._address

    async def start(self) -> None:
        """Listen; raises `OSError` if the address is taken."""
        assert self._accepting is None, "the server has been started already"
        self._listening = self._given or await self._bind()
        self._listening.listen(self.config.backlog)
        self._address = self._listening.getsockname()[:2]
        self._accepting = asyncio.create_task(self._accept(self._listening), name="accepting HTTP")

    async def stop(self) -> None:
        """Stop listening; streams end, responses that are being sent get a moment, then everything is cut."""
        if self._accepting is None or self._listening is None:
            return
        accepting, self._accepting = self._accepting, None
        for task in (accepting, *self._opening):
            task.cancel()
        await asyncio.wait({accepting, *self._opening})
        self._listening.close()
        self._app.context.streams.end()
        open_connections = self.state.connections
        for connection in list(open_connections):
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.limits.stop_s):
                while open_connections:
                    self.one_gone.clear()
                    await self.one_gone.wait()
        for connection in list(open_connections):
            connection.transport.abort()
        # Streams end by themselves once their connection is cut; requests that still wait for the node are cancelled.
        if tasks := set(self.state.tasks):
            _, tasks = await asyncio.wait(tasks, timeout=self.limits.stop_s)
        if tasks:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _bind(self) -> socket.socket:
        """A bound socket: uvicorn would end the process if it could not bind one."""
        return await bind(self._host, self._port, has_keys=self._has_keys)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(listening)
            except ConnectionError:
                continue  # the client has already disconnected
            except OSError as error:
                _log.warning("cannot accept connections at the moment", error=error)
                await asyncio.sleep(_EXHAUSTED_S)
                continue
            connection = HttpConnection(self, str(address[0]))
            if not self.connections.admit(connection, connection.host):
                sock.close()
                continue
            sock.setblocking(False)
            task = connection.opening = asyncio.create_task(self._open(connection))
            self._opening[task] = sock
            task.add_done_callback(self._opened)

    async def _open(self, connection: "HttpConnection") -> None:
        loop, task = asyncio.get_running_loop(), connection.opening
        assert task is not None
        sock, self._opening[task] = self._opening[task], None
        assert sock is not None
        try:
            # A failed handshake is the peer's fault, as with the loop's own servers.
            with suppress(OSError):
                await loop.connect_accepted_socket(lambda: connection, sock, **self._transport_options)
                connection.opening = None
        finally:
            if connection.opening is not None:
                self.connections.remove(connection, connection.host)

    def _opened(self, task: asyncio.Task[None]) -> None:
        sock = self._opening.pop(task)
        if sock is not None:
            # Closed before it started. Afterwards the loop closes the socket, whatever happens.
            sock.close()


class HttpConnection(H11Protocol):
    """uvicorn's connection, with a deadline for each request, counted by address, and with problem documents."""

    def __init__(self, server: HttpServer, host: str) -> None:
        super().__init__(server.config, server.state, app_state={})
        # The setting of this name would change the logger, which is the whole process's.
        self.access_log = False
        self.host = host
        """The client's address."""
        self.opening: asyncio.Task[None] | None = None
        """What makes a transport of its socket, until there is one."""
        self._http_server = server
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it waits for its client: for a handshake, a request, the rest of one, or to read its response."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is None or cycle.response_complete:
            return True
        return self.flow.write_paused or self.conn.their_state is h11.SEND_BODY

    def cut(self) -> None:
        if self.opening is not None:
            self.opening.cancel()
        elif self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        # Each request's scope gets a copy of it.
        self.app_state = {ABORT: transport.abort}
        self._watch_request()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._http_server.connections.remove(self, self.host)
        self._unwatch_request()
        self._http_server.one_gone.set()

    def data_received(self, data: bytes) -> None:
        self._http_server.connections.heard(self, self.host)
        # No Server header; and the date when it is needed, where uvicorn's main loop would wake ten times a second.
        self.server_state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        super().data_received(data)
        if self.conn.their_state in {h11.IDLE, h11.SEND_BODY}:
            self._watch_request()
        else:
            self._unwatch_request()

    def _unsupported_upgrade_warning(self) -> None:
        """Not logged, since any peer could fill the log with it; the app responds with an explanation."""

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state is not h11.IDLE:
            # Another response is being sent or due, and would be mixed with this one.
            self.transport.abort()
            return
        headers = [(b"content-type", MEDIA_TYPE.encode()), (b"connection", b"close")]
        body = msgspec.json.encode(problem("invalid", msg))
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def _watch_request(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self._http_server.limits.request_s, self.transport.abort)

    def _unwatch_request(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class ConnectionLimits:
    """Counts connections by address, or by IPv6 network of 64 bits.

    A full server must not refuse a probe or an operator: the longest idle connection is closed for it. If there are too
    many in total, it is one of the address that has most, so that a few addresses cannot displace the rest.
    """

    def __init__(self, *, per_address_max: int, total_max: int) -> None:
        self._per_address_max = per_address_max
        self._total_max = total_max
        self._total = 0
        # For each address, the most recently active connection is last. There are no empty entries.
        self._by_address: dict[str, dict[HttpConnection, None]] = {}

    def admit(self, connection: HttpConnection, host: str) -> bool:
        """Whether a new connection may stay. An idle one may be closed for it."""
        address = address_group(host)
        own = self._by_address.get(address, {})
        if len(own) >= self._per_address_max and not self._make_room(address):
            return False
        if self._total >= self._total_max:
            largest = max(self._by_address, key=lambda each: len(self._by_address[each]))
            # An address that has as many as the largest closes one of its own.
            if len(own) >= len(self._by_address[largest]):
                largest = address
            if not self._make_room(largest):
                return False
        self._by_address.setdefault(address, {})[connection] = None
        self._total += 1
        return True

    def _make_room(self, address: str) -> bool:
        idle = next((each for each in self._by_address.get(address, {}) if each.is_idle), None)
        if idle is None:
            return False
        self.remove(idle, address)
        idle.cut()
        return True

    def heard(self, connection: HttpConnection, host: str) -> None:
        """A client has sent something."""
        own = self._by_address.get(address_group(host), {})
        if connection in own:
            del own[connection]
            own[connection] = None

    def remove(self, connection: HttpConnection, host: str) -> None:
        """A connection is closed, or is about to be."""
        address = address_group(host)
        own = self._by_address.get(address, {})
        if connection in own:
            del own[connection]
            self._total -= 1
            if not own:
                del self._by_address[address]
