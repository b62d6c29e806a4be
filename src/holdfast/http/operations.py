"""What the routes share: how they say what they need, refuse and take."""

from typing import Annotated, Any

from litestar.datastructures import ResponseHeader
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import HeaderParameter, PathParameter, SkipValidation

from holdfast.http.keys import Scope
from holdfast.http.port import Backend
from holdfast.http.problems import Mistaken

Node = NamedDependency[SkipValidation[Backend]]
"""The node that is asked."""


def _path(description: str, example: str) -> Any:
    return PathParameter(description=description, examples=[Example(value=example)])


RoomPath = Annotated[str, _path("The room's id.", "rm_Zk3xQv9a")]
PlayerPath = Annotated[str, _path("The player's id.", "guest-7Jm2")]
SessionPath = Annotated[str, _path("The session's id.", "se_4hTq0s1c")]
BanPath = Annotated[str, _path("Who is banned: player:ID or address:RANGE (its slash as %2F).", "player:guest-7Jm2")]
AccountPath = Annotated[str, _path("The account's name.", "ada")]
PlacementPath = Annotated[str, _path("The placement's id.", "match-2041")]

IfMatch = Annotated[
    str | None,
    HeaderParameter(
        name="If-Match",
        description='Change nothing unless the room has this version, as in "7"; the ETag of an answer tells it.',
        schema_extra={"pattern": r'^("[0-9]{1,16}"|[0-9]{1,16}|\*)$'},
    ),
]
IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        description="The same key with the same request gives the same room; it is another way to say idempotency_key.",
        schema_extra={"minLength": 1, "maxLength": 64},
    ),
]
LastEventId = Annotated[
    str | None,
    HeaderParameter(
        name="Last-Event-ID",
        description="Go on after the event with this id. Browsers send it by themselves when they come back.",
        schema_extra={"pattern": "^[0-9]{1,16}$"},
    ),
]

ETAG = ResponseHeader(name="ETag", description="The room's version, for If-Match.", documentation_only=True)
LOCATION = ResponseHeader(name="Location", description="Where it is.", documentation_only=True)

_NUMBER_DIGITS_MAX = 16


def needs(scope: Scope | None, *refuses: str, example: Any = None) -> dict[str, Any]:
    """A route's `opt`: the scope that a key needs, the codes that are its own, and a body or query to try it with."""
    return {"scope": scope, "refuses": refuses, "example": example}


def number_in(header: str, text: str) -> int:
    """The number that a header holds."""
    if not (text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX):
        raise Mistaken("header", header, f"a number is expected; got {text[:40]!r}")
    return int(text)
