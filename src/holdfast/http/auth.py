"""Authorization: an API key with the right scope, or, where there are no keys, a request from this machine."""

from typing import Any, cast

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.handlers.base import BaseRouteHandler

from holdfast.core.addresses import hostname, is_loopback
from holdfast.http.errors import ProblemError
from holdfast.http.keys import ApiKey, Scope, find_key
from holdfast.http.requests import check_no_query, context_of

_CHALLENGE = 'Bearer realm="holdfast"'
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def admit(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Litestar's guard for every route: refuse before the body is read."""
    request = cast("Request[Any, Any, Any]", connection)
    keys = context_of(request).keys
    scope: Scope | None = handler.opt.get("scope")
    if not keys:
        _check_is_local(request)
    elif scope is not None:
        _check_key(request, keys, scope)
    if "params" not in handler.parsed_fn_signature.parameters:
        check_no_query(request)


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
