"""The API as an ASGI application. Litestar is imported from here on: `api.py` defers that."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from typing import Any

import msgspec
from litestar import Litestar, Request, Response
from litestar.di import Provide
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.routes import HTTPRoute

from holdfast.core.addresses import is_host_header
from holdfast.http import docs
from holdfast.http.api import ApiKey, HttpLimits
from holdfast.http.errors import ProblemError, respond_with_problem
from holdfast.http.forwarding import Forwarding
from holdfast.http.openapi import complete, openapi_config
from holdfast.http.requests import (
    CONTEXT,
    FORWARDED,
    ApiContext,
    ApiRequest,
    admit,
    context_of,
    escape_path,
    provide_operations,
    provide_params,
    unescape,
)
from holdfast.http.responses import Answer, Streams
from holdfast.http.routes import access, node, nodes, recordings, rooms, sessions
from holdfast.http.static import Folder, Site
from holdfast.server.operations import Operations

_HANDLERS = [
    handler
    for module in (nodes, rooms, recordings, sessions, access, node)
    for handler in vars(module).values()
    if isinstance(handler, HTTPRouteHandler)
]
# On every response, errors too: the data changes all the time, and browsers must not guess its type.
_HEADERS = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
# A machine has a few addresses; each has its own examples on the documentation page.
_PAGES_MAX = 8


class App:
    """The API of one server. Without keys it serves only this machine, and `HttpServer` listens only there."""

    def __init__(
        self,
        operations: Operations,
        keys: Sequence[ApiKey] = (),
        limits: HttpLimits | None = None,
        site: Site | None = None,
        folder: Folder | None = None,
    ) -> None:
        limits = limits or HttpLimits()
        self.context = ApiContext(
            operations=operations,
            keys=tuple(keys),
            limits=limits,
            site=site or Site(),
            streams=Streams(limits),
            document=partial(_document_json, has_keys=bool(keys)),
            docs=partial(_docs_page, has_keys=bool(keys)),
        )
        self._folder = folder
        # Before the first request, which would block the event loop otherwise.
        self._routes = routes()
        if operations.elsewhere is not None:
            forwarding = Forwarding(operations.elsewhere, self._routes, self._forwarded_scope)
            self.context = replace(self.context, forward=forwarding.response)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request. Ids in its path may contain slashes, as %2F."""
        assert scope["type"] == "http", "the server sends neither lifespan events nor WebSockets"

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        inner = dict(scope)
        raw_path: bytes = inner["raw_path"]
        limit = self.context.limits.path_bytes_max
        inner["path"] = escape_path(raw_path[:limit])
        inner[CONTEXT] = self.context
        error = self._misdirected(inner, limit)
        if error is not None:
            request: Request[Any, Any, Any] = Request(inner)  # type: ignore[arg-type]  # a scope with a key of ours
            response = respond_with_problem(request, error).to_asgi_response(app=None, request=request)
            await response(inner, receive, send_with_headers)  # type: ignore[arg-type]  # the same
            return
        asked_for = raw_path.decode("ascii", "replace")
        if self._folder is not None and self._folder.owns(asked_for):
            await self._folder.respond(inner, asked_for, send_with_headers)
            return
        await self._routes(inner, receive, send_with_headers)  # type: ignore[arg-type]  # the same

    def _forwarded_scope(self, raw_path: bytes) -> dict[str, Any]:
        """Of a request that another node forwards."""
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "server": None,
            "client": None,
            "root_path": "",
            "raw_path": raw_path,
            "path": escape_path(raw_path),
            "state": {},
            CONTEXT: self.context,
        }

    def _misdirected(self, scope: Any, path_bytes_max: int) -> ProblemError | None:
        """Why a request cannot be for this API; None if it can."""
        if len(scope["raw_path"]) > path_bytes_max:
            return ProblemError("path_too_long", f"a path has at most {path_bytes_max} bytes")
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        if not all(is_host_header(value.decode("latin-1")) for name, value in headers if name == b"host"):
            return ProblemError("invalid", "the Host header holds a name or an address, and a port if it is not 80")
        if any(name == b"upgrade" and value.lower() == b"websocket" for name, value in headers):
            urls = " or ".join(self.context.operations.node.settings().urls.values()) or "its own port"
            return ProblemError("invalid", f"this is the HTTP API, not a game port: games connect to {urls}")
        return None


@cache
def routes() -> Litestar:
    """The routes of every API in this process: they contain nothing of a server, and take a while to create."""
    return _litestar(None)


@cache
def document(*, has_keys: bool) -> dict[str, Any]:
    """The OpenAPI document of every API in this process, with or without keys."""
    # A separate app, which serves nothing: Litestar adds its own pages to an app that describes itself.
    described = _litestar(openapi_config(has_keys=has_keys))
    return complete(described.openapi_schema.to_schema(), _HANDLERS, has_keys=has_keys)


def _litestar(config: OpenAPIConfig | None) -> Litestar:
    return Litestar(
        _HANDLERS,
        before_request=_before,
        debug=False,
        dependencies={"params": Provide(provide_params), "server": Provide(provide_operations)},
        exception_handlers={Exception: respond_with_problem},
        guards=[admit],
        logging_config=None,
        openapi_config=config,
        pdb_on_exception=False,
        request_class=ApiRequest,
        # `ApiRequest` has the limit of its own server.
        request_max_body_size=None,
        response_class=Answer,
    )


@cache
def _document_json(*, has_keys: bool) -> bytes:
    return msgspec.json.encode(document(has_keys=has_keys))


@lru_cache(_PAGES_MAX)
def _docs_page(base_url: str, *, has_keys: bool) -> str:
    return docs.page(document(has_keys=has_keys), base_url)


@cache
def _methods() -> dict[str, str]:
    """The methods of each path, for the Allow header."""
    methods: dict[str, list[str]] = {}
    for route in routes().routes:
        if isinstance(route, HTTPRoute):
            methods.setdefault(route.path_format, []).extend(route.methods)
    return {path: ", ".join(sorted(set(found))) for path, found in methods.items()}


async def _before(request: Request[Any, Any, Any]) -> Response[Any] | None:
    if request.method == "OPTIONS":
        # Litestar's own response lacks the methods that were added to a path later.
        return Response(None, status_code=204, headers={"Allow": _methods()[request.scope["path_template"]]})
    values = request.scope["path_params"]
    if any("%" in value for value in values.values()):
        # In a new dict: the router keeps the old one for the next request.
        request.scope["path_params"] = {name: unescape(value) for name, value in values.items()}
    forward = context_of(request).forward
    if forward is not None and FORWARDED not in request.scope:
        assert isinstance(request, ApiRequest)
        return await forward(request)
    return None
