"""What the routes share: how each is described, and the parameters in paths and headers."""

from typing import Annotated, Any

import msgspec
from litestar.datastructures import ResponseHeader
from litestar.di import NamedDependency
from litestar.openapi import ResponseSpec
from litestar.openapi.spec import Example
from litestar.params import HeaderParameter, PathParameter, SkipValidation

from holdfast.http.errors import KINDS, MEDIA_TYPE, Mistaken, Problem, problem
from holdfast.http.keys import Scope
from holdfast.server.operations import Operations

Server = NamedDependency[SkipValidation[Operations]]
"""The server that is operated."""


def _path(description: str, example: str) -> Any:
    return PathParameter(description=description, examples=[Example(value=example)], min_length=1)


RoomPath = Annotated[str, _path("The room's id.", "rm_Zk3xQv9a")]
PlayerPath = Annotated[str, _path("The player's id.", "guest-7Jm2")]
SessionPath = Annotated[str, _path("The session's id.", "se_4hTq0s1c")]
BanPath = Annotated[
    str, _path("The ban's subject: player:ID or address:RANGE (its slash as %2F).", "player:guest-7Jm2")
]
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
        schema_extra={"pattern": "^[0-9]{1,16}$"},
    ),
]

ETAG = ResponseHeader(name="ETag", description="The room's version, for If-Match.", documentation_only=True)
LOCATION = ResponseHeader(name="Location", description="The path of what was created.", documentation_only=True)

BODY = ("too_large", "unsupported_media_type")
"""The codes of every route with a body."""
PATH = ("not_found", "path_too_long")
"""The codes of every route with an id in its path."""
_EVERYWHERE = ("invalid", "not_allowed", "internal")
_NUMBER_DIGITS_MAX = 16


def operation(tag: str, summary: str, scope: Scope | None, *codes: str, example: Any = None) -> dict[str, Any]:
    """A route's keywords: its group and summary, the scope that its key needs, its own error codes, and a body or
    parameters to try it with."""
    known = {*_EVERYWHERE, *codes, *(("not_authenticated",) if scope is not None else ())}
    by_status: dict[int, list[str]] = {}
    for code, kind in KINDS.items():
        if code in known:
            by_status.setdefault(kind.status, []).append(code)
    return {
        "tags": [tag],
        "summary": summary,
        "opt": {"scope": scope, "example": example},
        "security": [{"key": [scope.value]}] if scope is not None else None,
        "responses": {status: _refusal(together) for status, together in by_status.items()},
    }


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


def number_in(header: str, text: str) -> int:
    """The number in a header."""
    if not (text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX):
        raise Mistaken("header", header, f"a number is expected; got {text[:40]!r}")
    return int(text)
