"""The API on a socket: uvicorn in the running event loop, beside a game. Signals, logging and the loop's policy are
left as they are."""

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from email.utils import formatdate
from ssl import SSLContext
from typing import Any, cast

import h11
import msgspec
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from holdfast.http.app import App
from holdfast.http.connections import Acceptor, ConnectionLimits
from holdfast.http.errors import MEDIA_TYPE, problem
from holdfast.http.limits import DEFAULT_HOST, DEFAULT_PORT, check_binding
from holdfast.http.streams import ABORT


class HttpServer:
    """Serves an app from `start` to `stop`, as https:// with an `ssl` context; port 0 lets the system choose a port."""

    def __init__(
        self, app: App, host: str = DEFAULT_HOST, port: int = DEFAULT_PORT, *, ssl: SSLContext | None = None
    ) -> None:
        self._app = app
        self._ssl = ssl
        self._has_keys = bool(app.context.keys)
        check_binding(host, has_keys=self._has_keys)
        self._host = host
        self._port = port
        self._server: uvicorn.Server | None = None
        self._acceptor: Acceptor | None = None
        self._address: tuple[str, int] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """The address at which it listens, or listened."""
        assert self._address is not None, "the server has not been started"
        return self._address

    async def start(self) -> None:
        """Listen; raises `OSError` if the address is taken."""
        assert self._server is None, "the server has been started already"
        sock = await self._bind()
        config = _Config(self._app)
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)

        def connection() -> _Connection:
            return _Connection(config=config, server_state=server.server_state, app_state=server.lifespan.state)

        sock.listen(config.backlog)
        self._acceptor = Acceptor(
            sock, config.connections, connection, ssl=self._ssl, handshake_s=config.limits.request_s
        )
        self._server = server
        self._address = sock.getsockname()[:2]

    async def stop(self) -> None:
        """Stop listening; streams end, responses that are being sent get a moment, then everything is cut."""
        if self._server is None:
            return
        server, self._server = self._server, None
        config = server.config
        assert isinstance(config, _Config)
        state = server.server_state
        assert self._acceptor is not None
        await self._acceptor.close()
        self._app.context.streams.end()
        for connection in list(state.connections):
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(config.limits.stop_s):
                while state.connections:
                    config.one_gone.clear()
                    await config.one_gone.wait()
        for connection in list(state.connections):
            connection.transport.abort()
        # Streams end by themselves once their connection is cut; requests that still wait for the node are cancelled.
        if tasks := set(state.tasks):
            _, tasks = await asyncio.wait(tasks, timeout=config.limits.stop_s)
        if tasks:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _bind(self) -> socket.socket:
        """A bound socket: uvicorn would end the process if it could not bind one."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self._host or None, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        # Only now is it known which address a name stands for.
        check_binding(str(address[0]), has_keys=self._has_keys)
        sock = socket.socket(family, kind, protocol)
        try:
            if os.name == "posix" and sys.platform != "cygwin":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setblocking(False)
            sock.bind(address)
        except OSError as error:
            sock.close()
            # In asyncio's own words, so that all listeners of a node report it alike.
            message = f"error while attempting to bind on address {address[:2]!r}: {(error.strerror or '').lower()}"
            raise OSError(error.errno, message) from None
        return sock


class _Config(uvicorn.Config):
    """uvicorn's settings, and what its connections share."""

    def __init__(self, app: App) -> None:
        limits = app.context.limits
        super().__init__(
            app,
            http=_Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            workers=1,
            proxy_headers=False,
            timeout_keep_alive=limits.idle_s,
            h11_max_incomplete_event_size=limits.head_bytes_max,
        )
        self.limits = limits
        self.connections = ConnectionLimits(
            per_address_max=limits.connections_per_address_max, total_max=limits.connections_max
        )
        self.one_gone = asyncio.Event()


class _Connection(H11Protocol):
    """uvicorn's connection, with a deadline for each request, counted by address, and with problem documents."""

    config: _Config

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The setting of this name would change the logger, which is the whole process's.
        self.access_log = False
        self._deadline: asyncio.TimerHandle | None = None
        self.host = ""
        """The client's address; set when it is accepted."""
        self.opening: asyncio.Task[None] | None = None
        """What makes a transport of its socket, until there is one."""

    @property
    def is_idle(self) -> bool:
        """Whether it waits for its client: for a handshake, a request, the rest of one, or to read its response."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is None or cycle.response_complete:
            return True
        return self.flow.write_paused or self.conn.their_state is h11.SEND_BODY

    def cut(self) -> None:
        """Close it at once."""
        if self.opening is not None:
            self.opening.cancel()
        elif self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self.app = _with_abort(self.app, transport.abort)
        self._watch_request()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.config.connections.remove(self, self.host)
        self._unwatch_request()
        self.config.one_gone.set()

    def data_received(self, data: bytes) -> None:
        self.config.connections.heard(self, self.host)
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
            self._deadline = self.loop.call_later(self.config.limits.request_s, self.transport.abort)

    def _unwatch_request(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _with_abort(app: Callable[..., Any], abort: Callable[[], None]) -> Callable[..., Any]:
    async def run(scope: Any, receive: Any, send: Any) -> None:
        scope["extensions"] = {ABORT: abort}
        await app(scope, receive, send)

    return run
