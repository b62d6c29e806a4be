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

import click
import msgspec
import uvicorn
from litestar import Litestar, Request, Response, get, post
from litestar.exceptions import ClientException, NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.static_files import create_static_files_router
from litestar.types import Message as LitestarMessage
from litestar.types import Scope

from holdfast.cli.demo.nodes import DemoNodes, NodeStatus
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
    has_nodes: bool
    """Whether it is a cluster, of which `/nodes` tells more."""


class Visitor(msgspec.Struct, forbid_unknown_fields=True):
    """Who asks for the nodes."""

    link: str
    session: str


class NodesStatus(msgspec.Struct):
    """The cluster, and a visitor's way through it."""

    nodes: list[NodeStatus]
    connected_to: str
    """The node that the visitor's connection is with; empty if there is none."""
    session_on: str
    """The node that the visitor's session is on; empty while it is on none."""


class NodeChange(msgspec.Struct, forbid_unknown_fields=True):
    """A page's request to kill a node, to drain it or end that, or to move the room there."""

    node: str
    is_draining: bool = False


class Page:
    """Serves the page within `async with`, and keeps the visitors' proxies."""

    def __init__(self, random: Random, port: int) -> None:
        self._random = random
        self._socket = listening_at(HOST, port)
        self._process: ServerProcess | DemoNodes | None = None
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

    def moved(self, process: ServerProcess | DemoNodes) -> None:
        """The server was started or restarted, or a node has come or gone."""
        self._process, self._ready = process, process.ready or self._ready
        for proxy in self._links.values():
            proxy.target = process.route(proxy.target)

    async def _open_link(self, name: str) -> tuple[str, Proxy]:
        """The proxy of that name, or a new one; plugged in and without delay."""
        process = self._process
        assert process is not None
        assert self._ready is not None
        proxy = self._links.pop(name, None)
        if proxy is None:
            name = secrets.token_urlsafe(12)
            proxy = Proxy(*process.route((self._ready.host, self._ready.port)), random=self._random)
            await proxy.start()
        self._links[name] = proxy
        # The server may have moved while the proxy was started.
        proxy.target = process.route(proxy.target)
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
            has_nodes = isinstance(process, DemoNodes)
            return Status(latest.room, pid, process.crashes, process.back_after_s, latest.http, has_nodes)

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
            [
                status,
                link,
                change,
                crash,
                *self._routes_of_nodes(),
                create_static_files_router("/", [SITE], html_mode=True),
            ],
            before_request=_only_own_page,
            before_send=[_add_headers],
            request_max_body_size=_BODY_BYTES_MAX,
            openapi_config=None,
            logging_config=None,
        )

    def _routes_of_nodes(self) -> list[HTTPRouteHandler]:
        @post("/nodes", status_code=200)
        async def nodes(data: Visitor) -> NodesStatus:
            cluster, proxy = self._cluster(), self._links.get(data.link)
            session_on = await cluster.session_node(data.session) if data.session else ""
            return NodesStatus(
                cluster.nodes, cluster.name_of(proxy.connected_to if proxy is not None else None), session_on
            )

        @post("/nodes/kill", sync_to_thread=False, status_code=204)
        def kill(data: NodeChange) -> None:
            self._cluster().crash(data.node)

        @post("/nodes/drain", status_code=204)
        async def drain(data: NodeChange) -> None:
            with _refusals():
                await self._cluster().drain(data.node, is_on=data.is_draining)

        @post("/nodes/move", status_code=204)
        async def move(data: NodeChange) -> None:
            with _refusals():
                await self._cluster().move(data.node)

        return [nodes, kill, drain, move]

    def _cluster(self) -> DemoNodes:
        if not isinstance(self._process, DemoNodes):
            raise NotFoundException("this demo has one server: start it with --nodes 3")
        return self._process


@contextmanager
def _refusals() -> Iterator[None]:
    """What a node refuses is for the page to say."""
    try:
        yield
    except click.ClickException as error:
        raise ClientException(error.message, status_code=409) from None


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
