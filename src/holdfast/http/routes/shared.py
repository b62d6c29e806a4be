"""What the routes share: how each is described, and the parameters in paths and headers."""

import re
from collections.abc import Callable
from inspect import signature
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from litestar.datastructures import ResponseHeader
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec
from litestar.openapi.spec import Example
from litestar.params import HeaderParameter, PathParameter, SkipValidation

from holdfast.http.api import Scope
from holdfast.http.bodies import POSITION
from holdfast.http.errors import KINDS, MEDIA_TYPE, Mistaken, Problem, problem
from holdfast.server.operations import Operations

Server = NamedDependency[SkipValidation[Operations]]
"""The server that is operated."""


def _path(description: str, example: str) -> Any:
    return PathParameter(description=description, examples=[Example(value=example)], min_length=1)


RoomPath = Annotated[str, _path("The room's id.", "rm_Zk3xQv9a")]
NodePath = Annotated[str, _path("The node's name, or its life.", "node-b")]
PlayerPath = Annotated[str, _path("The player's id.", "guest-7Jm2")]
SessionPath = Annotated[str, _path("The session's id.", "se_4hTq0s1c")]
BanPath = Annotated[
    str, _path("The ban's subject: player:ID or address:RANGE (its slash as %2F).", "player:guest-7Jm2")
]
RolePath = Annotated[str, _path("The role.", "gm")]
AccountPath = Annotated[str, _path("The account's name.", "ada")]
PlacementPath = Annotated[str, _path("The placement's id.", "match-2041")]
TargetPath = Annotated[
    str, _path("A session's id, an address, or a range of addresses (its slash as %2F).", "203.0.113.7")
]
AssetPath = Annotated[str, _path("The name of a file of the page.", "dashboard.js")]

IfMatch = Annotated[
    str | None,
    HeaderParameter(
        name="If-Match",
        description='Change nothing unless the room has this version, as in "7": the ETag of a response.',
        schema_extra={"pattern": r'^("[0-9]{1,16}"|[0-9]{1,16}|\*)$'},
    ),
]
IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        description="The same key with the same body gives the same room. It means the same as idempotency_key.",
        schema_extra={"minLength": 1, "maxLength": 64},
    ),
]
LastEventId = Annotated[
    str | None,
    HeaderParameter(
        name="Last-Event-ID",
        description="Continue after the event with this id. Browsers send it by themselves when they reconnect.",
        schema_extra={"pattern": POSITION},
    ),
]

ETAG = ResponseHeader(name="ETag", description="The room's version, for If-Match.", documentation_only=True)
LOCATION = ResponseHeader(name="Location", description="The path of what was created.", documentation_only=True)

_EVERYWHERE = ("invalid", "not_allowed", "internal")
_WITH_PATH = ("not_found", "path_too_long")
_WITH_BODY = ("too_large", "unsupported_media_type")
_NUMBER_DIGITS_MAX = 16

Method = Callable[..., Callable[[Callable[..., Any]], HTTPRouteHandler]]


def route(
    method: Method,
    path: str,
    tag: str,
    summary: str,
    scope: Scope | None,
    *codes: str,
    example: Any = None,
    **options: Any,
) -> Callable[[Callable[..., Any]], HTTPRouteHandler]:
    """Litestar's decorator of a route, with its description: its group and summary, the scope that its key needs, the
    error codes of its own, and a body or parameters to try it with."""

    def decorate(handler: Callable[..., Any]) -> HTTPRouteHandler:
        known = {*_EVERYWHERE, *codes}
        if scope is not None:
            known.add("not_authenticated")
        if "{" in path:
            known.update(_WITH_PATH)
        if "data" in signature(handler).parameters:
            known.update(_WITH_BODY)
        by_status: dict[int, list[str]] = {}
        for code, kind in KINDS.items():
            if code in known:
                by_status.setdefault(kind.status, []).append(code)
        return method(
            path,
            tags=[tag],
            summary=summary,
            opt={"scope": scope, "example": example},
            security=[{"key": [scope.value]}] if scope is not None else None,
            responses={status: _refusal(together) for status, together in by_status.items()},
            **options,
        )(handler)

    return decorate


def _refusal(codes: list[str]) -> ResponseSpec:
    return ResponseSpec(
        Problem,
        generate_examples=False,
        description="\n".join(f"`{code}`: {KINDS[code].title}." for code in codes),
        media_type=MEDIA_TYPE,
        examples=[
            Example(id=code, value=msgspec.to_builtins(problem(code, "a sentence for people"))) for code in codes
        ],
    )


def location(collection: str, resource_id: str) -> dict[str, str]:
    """The header with the path of what was created."""
    return {"Location": f"/v1/{collection}/{quote(resource_id, safe='')}"}


def number_in(header: str, text: str) -> int:
    """The number in a header."""
    if not (text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX):
        raise Mistaken("header", header, f"a number is expected; got {text[:40]!r}")
    return int(text)


def position_in(header: str, text: str) -> str:
    """The position of a reader of events in a header."""
    if not re.fullmatch(POSITION, text):
        raise Mistaken("header", header, f"the id of an event is expected; got {text[:40]!r}")
    return text
