"""The demo's page: a game in the browser, with buttons that break its link and its server for real.

It is served by the process that keeps the game's server running, and so outlives each crash of that one.
"""

import asyncio
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
from litestar.types import ASGIApp, Receive, Scope, Send
from litestar.types import Message as LitestarMessage

from holdfast.cli.demo.links import Links
from holdfast.cli.demo.sockets import listening_at
from holdfast.cli.demo.supervisor import Supervisor
from holdfast.core.addresses import hostname, is_loopback

SITE = Path(__file__).with_name("site")
HOST = "127.0.0.1"
PORT = 7776
# The page may load what is here, and talk to us, to the game and to nobody else.
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


class LinkChange(msgspec.Struct, forbid_unknown_fields=True):
    """What a page asks of its link; what it does not mention stays as it is."""

    link: str = ""
    is_plugged: bool | None = None
    delay_ms: float | None = None


class LinkInfo(msgspec.Struct):
    """A visitor's link."""

    link: str
    url: str


class Status(msgspec.Struct):
    """How the server fares."""

    room: str
    pid: int | None
    crashes: int
    back_after_s: float
    dashboard: str


class Page:
    """Serves the page within `async with`, and keeps the visitors' links."""

    def __init__(self, random: Random, port: int = PORT) -> None:
        self.links = Links(random)
        self._socket = listening_at(HOST, port)
        self._supervisor: Supervisor | None = None
        self._room = ""
        self._dashboard = ""
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @staticmethod
    def is_built() -> bool:
        """Whether there is a page to serve."""
        return (SITE / "index.html").is_file()

    @property
    def url(self) -> str:
        """Where to look."""
        host, port = self._socket.getsockname()
        return f"http://{host}:{port}"

    def moved(self, supervisor: Supervisor) -> None:
        """The server was started, for the first time or again."""
        assert supervisor.ready is not None
        self._supervisor = supervisor
        self._room, self._dashboard = supervisor.ready.room, supervisor.ready.http
        self.links.moved(supervisor.ready.host, supervisor.ready.port)

    async def __aenter__(self) -> Self:
        config = uvicorn.Config(self._app(), log_config=None, lifespan="off", ws="none", proxy_headers=False)
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.links.close()
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            with suppress(TimeoutError):
                async with asyncio.timeout(_STOP_S):
                    await self._serving

    def _app(self) -> Litestar:
        @get("/status", sync_to_thread=False)
        def status() -> Status:
            supervisor = self._supervisor
            assert supervisor is not None
            pid = supervisor.ready.pid if supervisor.ready is not None else None
            return Status(self._room, pid, supervisor.crashes, supervisor.back_after_s, self._dashboard)

        @post("/link")
        async def link(data: LinkChange) -> LinkInfo:
            name, proxy = await self.links.open(data.link)
            host, port = proxy.address
            return LinkInfo(name, f"ws://{host}:{port}")

        @post("/link/change", sync_to_thread=False, status_code=204)
        def change(data: LinkChange) -> None:
            proxy = self.links.get(data.link)
            if proxy is None:
                raise NotFoundException("this page has no link any more: load it again")
            if data.is_plugged is not None:
                (proxy.plug if data.is_plugged else proxy.pull)()
            if data.delay_ms is not None:
                proxy.delay_s = min(max(data.delay_ms, 0.0), _DELAY_MS_MAX) / 1_000

        @post("/crash", sync_to_thread=False, status_code=204)
        def crash(data: LinkChange) -> None:
            if self._supervisor is not None:
                self._supervisor.crash()

        return Litestar(
            [status, link, change, crash, create_static_files_router("/", [SITE], html_mode=True)],
            before_request=_only_own_page,
            middleware=[_with_headers],
            request_max_body_size=_BODY_BYTES_MAX,
            openapi_config=None,
            logging_config=None,
        )


def _only_own_page(request: Request[Any, Any, Any]) -> Response[str] | None:
    """Other sites' pages in the same browser can send requests here too: none of them may crash anything."""
    host, origin = request.headers.get("host", ""), request.headers.get("origin")
    # A page whose own name was made to point here (DNS rebinding) still tells that name.
    if not is_loopback(hostname(host)) or (origin is not None and origin != f"http://{host}"):
        return Response("This is for the demo's own page.", status_code=403, media_type="text/plain")
    return None


def _with_headers(app: ASGIApp) -> ASGIApp:
    """On every answer, also on the files."""

    async def middleware(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: LitestarMessage) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        await app(scope, receive, send_with_headers)

    return middleware


class _Server(uvicorn.Server):
    """uvicorn, without its own handlers of signals: those are the demo's."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
