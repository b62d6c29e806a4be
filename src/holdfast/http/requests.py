"""The input of routes: who may call them, and the request's body and parameters as validated structs.

Authorized is an API key with the right scope or, where there are no keys, a request from this machine.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, cast
from urllib.parse import parse_qsl, unquote

import msgspec
from litestar import Request, Response
from litestar.connection import ASGIConnection
from litestar.exceptions import InternalServerException
from litestar.handlers.base import BaseRouteHandler
from msgspec import Struct
from msgspec.inspect import ListType, StructType, type_info

from holdfast.core.addresses import hostname, is_loopback
from holdfast.http.api import ApiKey, HttpLimits, Scope, find_key
from holdfast.http.errors import Mistaken, ProblemError, mistaken
from holdfast.http.responses import Streams
from holdfast.http.static import Site
from holdfast.server.operations import Operations

CONTEXT = "holdfast"
"""The key of an ASGI scope under which its `ApiContext` is."""
CALLER = "holdfast.caller"
"""The name of the API key with which a request came."""
FORWARDED = "holdfast.forwarded"
"""There if another node has forwarded a request, and checked its key."""
_JSON = "application/json"
_CHALLENGE = 'Bearer realm="holdfast"'
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class ApiContext:
    """What one server's requests share. The routes themselves are made once per process, and shared by all servers."""

    operations: Operations
    keys: tuple[ApiKey, ...]
    limits: HttpLimits
    site: Site
    streams: Streams
    document: Callable[[], bytes]
    """The OpenAPI document, as JSON."""
    docs: Callable[[str], str]
    """The documentation page, for a server at this base URL."""
    forward: Callable[["ApiRequest"], Awaitable[Response[Any] | None]] | None = None
    """Gives the response of another node of the cluster, or None if this one should answer."""


def context_of(connection: ASGIConnection[Any, Any, Any, Any]) -> ApiContext:
    """The context that the app has put into a request's scope."""
    return cast("ApiContext", connection.scope[CONTEXT])  # type: ignore[literal-required]  # a key of ours


class ApiRequest(Request[Any, Any, Any]):
    """A request whose body is JSON, strictly of the type of its handler's `data`: "5" is not 5."""

    async def body(self) -> bytes:
        """The whole body, if it is JSON and not too large."""
        if self.content_type[0].lower() != _JSON:
            raise ProblemError("unsupported_media_type", f"send JSON, and say so with Content-Type: {_JSON}")
        try:
            body = await super().body()
        except InternalServerException:
            # The client is gone: nobody reads this, but it is not a bug either.
            raise Mistaken("body", "$", "it ended too early") from None
        if not body:
            raise Mistaken("body", "$", "it is empty; send a JSON object")
        return body

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """The body as it arrives, up to the limit of this server: Litestar's own limit would be that of all servers."""
        limit = context_of(self).limits.body_bytes_max
        received = self.content_length or 0
        if received <= limit:
            received = 0
            async for chunk in super().stream():
                received += len(chunk)
                if received > limit:
                    break
                yield chunk
        if received > limit:
            raise ProblemError("too_large", f"a body has at most {limit} bytes")

    async def json(self) -> Any:
        field = self.route_handler.parsed_data_field
        assert field is not None
        try:
            return msgspec.json.decode(await self.body(), type=field.annotation)
        except (ValueError, RecursionError) as error:
            raise mistaken("body", error) from None


async def provide_operations(request: ApiRequest) -> Operations:
    """The `server` that a handler operates."""
    return context_of(request).operations


async def provide_params(request: ApiRequest) -> Any:
    """The query string as the struct that the handler's `params` asks for."""
    wanted: type[Struct] = request.route_handler.parsed_fn_signature.parameters["params"].annotation
    values: dict[str, Any] = {}
    for name, value in _query(request):
        if name in _lists(wanted):
            values.setdefault(name, []).append(value)
        elif name in values:
            raise Mistaken("query", name, "it is given twice")
        else:
            values[name] = value
    if unknown := values.keys() - set(wanted.__struct_fields__):
        raise Mistaken("query", min(unknown), f"unknown; use {', '.join(wanted.__struct_fields__)}")
    try:
        return msgspec.convert(values, wanted, strict=False)
    except msgspec.ValidationError as error:
        raise mistaken("query", error) from None


def _query(request: Request[Any, Any, Any]) -> list[tuple[str, str]]:
    query = request.scope["query_string"].decode("ascii", "replace")
    return parse_qsl(query, keep_blank_values=True)


@cache
def _lists(wanted: type[Struct]) -> frozenset[str]:
    """The parameters that may be repeated."""
    info = type_info(wanted)
    assert isinstance(info, StructType)
    return frozenset(field.name for field in info.fields if isinstance(field.type, ListType))


def escape_path(raw: bytes) -> str:
    """A path for the router: decoded, except for slashes within ids."""
    segments = raw.decode("ascii", "replace").split("/")
    return "/".join(unquote(segment).replace("%", "%25").replace("/", "%2F") for segment in segments)


def unescape(value: str) -> str:
    """The id in a segment of a path that `escape_path` wrote."""
    return value.replace("%2F", "/").replace("%25", "%")


# Authorization


async def admit(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Litestar's guard for every route: refuse before the body is read. Not a `def`: those run in threads."""
    request = cast("Request[Any, Any, Any]", connection)
    keys = context_of(request).keys
    scope: Scope | None = handler.opt.get("scope")
    if FORWARDED in request.scope:
        pass
    elif not keys:
        _check_is_local(request)
    elif scope is not None:
        _check_key(request, keys, scope)
    if "params" not in handler.parsed_fn_signature.parameters:
        # A client that sends parameters where there are none expects them to matter.
        for name, _ in _query(request):
            raise Mistaken("query", name, "unknown; this path has no parameters")


def _check_key(request: Request[Any, Any, Any], keys: tuple[ApiKey, ...], scope: Scope) -> None:
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not secret:
        raise ProblemError(
            "not_authenticated",
            "send an API key, as in Authorization: Bearer <key>",
            headers={"WWW-Authenticate": _CHALLENGE},
        )
    key = find_key(keys, secret.strip())
    if key is None:
        raise ProblemError(
            "not_authenticated",
            "unknown API key",
            headers={"WWW-Authenticate": f'{_CHALLENGE}, error="invalid_token"'},
        )
    if not key.opens(scope):
        raise ProblemError(
            "not_allowed",
            f"a key with the scope {scope.value} is required",
            headers={"WWW-Authenticate": f'{_CHALLENGE}, error="insufficient_scope", scope="{scope.value}"'},
        )
    request.scope[CALLER] = key.name  # type: ignore[literal-required]  # a key of ours


def caller_of(request: ApiRequest) -> str:
    """The name of the API key with which a request came; empty if it has none."""
    return str(request.scope.get(CALLER, ""))


def _check_is_local(request: Request[Any, Any, Any]) -> None:
    """Without keys, every program on this machine may do everything, but no web page in one of its browsers."""
    client = request.client
    if client is not None and not is_loopback(client.host):
        raise ProblemError("not_allowed", "without an API key, only this machine may use the API")
    host = request.headers.get("host", "")
    if not is_loopback(hostname(host)):
        # A page whose own name was made to point here (DNS rebinding) still sends that name.
        raise ProblemError("not_allowed", "without an API key, use localhost or 127.0.0.1 in the Host header")
    origin = request.headers.get("origin")
    if request.method not in _SAFE and origin is not None and origin.partition("://")[2] != host:
        raise ProblemError("not_allowed", "without an API key, web pages from elsewhere may not change anything")
