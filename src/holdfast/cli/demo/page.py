"""The demo's page: a game in the browser, with buttons that break its connection and kill its server for real.

The demo's own process serves it, so it outlives each crash of the game's server. Each visitor's connection goes through
a proxy that the page can unplug and slow down.
"""

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Self

import msgspec
import uvicorn
from litestar import Litestar, Request, Response, get, post
from litestar.exceptions import NotFoundException
from litestar.static_files import create_static_files_router
from litestar.types import Message as LitestarMessage
from litestar.types import Scope

from holdfast.cli.demo.proxy import Proxy
from holdfast.cli.demo.server import Ready, ServerProcess, listening_at
from holdfast.core.addresses import hostname, is_loopback

SITE = Path(__file__).with_name("site")
HOST = "127.0.0.1"
# The page may load its own files, and connect to this server and to the game only.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self' ws://127.0.0.1:*; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
)
_DELAY_MS_MAX = 1_000
_BODY_BYTES_MAX = 1_024
_STOP_S = 5.0
# Each is a listening socket; the least recently used one is closed when there are more.
LINKS_MAX = 64


class LinkChange(msgspec.Struct, forbid_unknown_fields=True):
    """A page's request to change its link; fields that it leaves out stay as they are."""

    link: str = ""
    is_plugged: bool | None = None
    delay_ms: float | None = None


class VisitorLink(msgspec.Struct):
    """A visitor's link and its address."""

    link: str
    url: str


class Status(msgspec.Struct):
    """The state of the game's server."""

    room: str
    pid: int | None
    crashes: int
    back_after_s: float
    dashboard: str


class Page:
    """Serves the page within `async with`, and keeps the visitors' proxies."""

    def __init__(self, random: Random, port: int) -> None:
        self._random = random
        self._socket = listening_at(HOST, port)
        self._process: ServerProcess | None = None
        self._ready: Ready | None = None
        # By a secret name: a page that is reloaded finds its own again.
        self._links: dict[str, Proxy] = {}
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @staticmethod
    def is_built() -> bool:
        return (SITE / "index.html").is_file()

    @property
    def url(self) -> str:
        host, port = self._socket.getsockname()
        return f"http://{host}:{port}"

    def moved(self, process: ServerProcess) -> None:
        """The server was started or restarted."""
        assert process.ready is not None
        self._process, self._ready = process, process.ready
        for proxy in self._links.values():
            proxy.target = (process.ready.host, process.ready.port)

    async def _open_link(self, name: str) -> tuple[str, Proxy]:
        """The proxy of that name, or a new one; plugged in and without delay."""
        assert self._ready is not None
        proxy = self._links.pop(name, None)
        if proxy is None:
            name = secrets.token_urlsafe(12)
            proxy = Proxy(self._ready.host, self._ready.port, random=self._random)
            await proxy.start()
        self._links[name] = proxy
        # The server may have moved while the proxy was started.
        proxy.target = (self._ready.host, self._ready.port)
        proxy.plug()
        proxy.delay_s = 0.0
        while len(self._links) > LINKS_MAX:
            await self._links.pop(next(iter(self._links))).stop()
        return name, proxy

    async def __aenter__(self) -> Self:
        config = uvicorn.Config(self._app(), log_config=None, lifespan="off", ws="none", proxy_headers=False)
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        return self

    async def __aexit__(self, *_: object) -> None:
        for proxy in self._links.values():
            await proxy.stop()
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            with suppress(TimeoutError):
                async with asyncio.timeout(_STOP_S):
                    await self._serving

    def _app(self) -> Litestar:
        @get("/status", sync_to_thread=False)
        def status() -> Status:
            process, latest = self._process, self._ready
            assert process is not None
            assert latest is not None
            pid = process.ready.pid if process.ready is not None else None
            return Status(latest.room, pid, process.crashes, process.back_after_s, latest.http)

        @post("/link")
        async def link(data: LinkChange) -> VisitorLink:
            name, proxy = await self._open_link(data.link)
            host, port = proxy.address
            return VisitorLink(name, f"ws://{host}:{port}")

        @post("/link/change", sync_to_thread=False, status_code=204)
        def change(data: LinkChange) -> None:
            proxy = self._links.get(data.link)
            if proxy is None:
                raise NotFoundException("this page's link was closed: reload the page")
            if data.is_plugged is not None:
                (proxy.plug if data.is_plugged else proxy.pull)()
            if data.delay_ms is not None:
                proxy.delay_s = min(max(data.delay_ms, 0.0), _DELAY_MS_MAX) / 1_000

        @post("/crash", sync_to_thread=False, status_code=204)
        def crash(data: LinkChange) -> None:
            if self._process is not None:
                self._process.crash()

        return Litestar(
            [status, link, change, crash, create_static_files_router("/", [SITE], html_mode=True)],
            before_request=_only_own_page,
            before_send=[_add_headers],
            request_max_body_size=_BODY_BYTES_MAX,
            openapi_config=None,
            logging_config=None,
        )


def _only_own_page(request: Request[Any, Any, Any]) -> Response[str] | None:
    """Reject other sites: their pages in the same browser can send requests here too."""
    host, origin = request.headers.get("host", ""), request.headers.get("origin")
    # With DNS rebinding the Host header still has the attacker's name.
    if not is_loopback(hostname(host)) or (origin is not None and origin != f"http://{host}"):
        return Response("Only the demo's own page may do this.", status_code=403, media_type="text/plain")
    return None


async def _add_headers(message: LitestarMessage, _scope: Scope) -> None:
    """Add the security headers to every answer."""
    if message["type"] == "http.response.start":
        message["headers"] = [*message["headers"], *_HEADERS]


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the demo has its own."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
