"""Errors: RFC 9457 problem documents, with the same codes as everywhere else in Holdfast."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from msgspec import Struct, structs

from holdfast.core.errors import Refused
from holdfast.logs import get_logger
from holdfast.schemas.frames import NAME_CHARS_MAX, sentence

MEDIA_TYPE = "application/problem+json"
MISSING = "holdfast.missing"
"""Where an ASGI scope has the names of nodes that did not say whether they have what a request asks for."""

_log = get_logger("holdfast.http")


class Kind(NamedTuple):
    """One kind of problem: its HTTP status and its title."""

    status: int
    title: str


KINDS: Mapping[str, Kind] = {
    "invalid": Kind(400, "The request is malformed"),
    "not_authenticated": Kind(401, "A valid API key is needed"),
    "not_allowed": Kind(403, "This is not allowed"),
    "wrong_password": Kind(403, "The room has a different password"),
    "not_found": Kind(404, "It does not exist"),
    "method_not_allowed": Kind(405, "The path does not support this method"),
    "refused": Kind(409, "The game refused"),
    "conflict": Kind(409, "It was changed in the meantime, or the key belongs to a different request"),
    "name_taken": Kind(409, "Another room of this kind has this name"),
    "name_not_allowed": Kind(409, "A player may not have this display name"),
    "room_full": Kind(409, "Every seat is taken, held or reserved"),
    "room_locked": Kind(409, "The room takes no new players"),
    "already_seated": Kind(409, "The session has a seat already"),
    "already_spectating": Kind(409, "The session watches a room already"),
    "duplicate": Kind(409, "The player is in the room already"),
    "not_seated": Kind(409, "The player has no seat there"),
    "other_version": Kind(409, "The client was built for other messages than the room's"),
    "expired": Kind(410, "The room created with this key has ended"),
    "precondition_failed": Kind(412, "It has a different version now"),
    "too_large": Kind(413, "The body is too large"),
    "path_too_long": Kind(414, "The path is too long"),
    "unsupported_media_type": Kind(415, "The body must be JSON"),
    "throttled": Kind(429, "A limit was reached; try again later"),
    "failed": Kind(500, "The game's own code failed"),
    "internal": Kind(500, "Holdfast has a bug"),
    "not_ready": Kind(503, "The node takes no new rooms"),
}
"""Every code, in the order of its status: the one table for responses, the OpenAPI document and the docs."""

# A game may refuse with a code of its own.
_OF_THE_GAME = "refused"
# When to retry after `throttled`: most limits count what is there now, which changes by the second.
_RETRY_AFTER_S = "1"
# Litestar's own errors: it knows the status only.
_BY_STATUS = {400: "invalid", 404: "not_found", 405: "method_not_allowed"}
_DETAILS = {
    404: "there is nothing at this path; /docs lists every path",
    405: "this path does not support the method; the Allow header lists those that it does",
}


class Mistake(Struct, frozen=True, rename={"place": "in"}):
    """One thing that is wrong with a request, and where."""

    place: str
    """body, query, header or path."""
    at: str
    """The parameter's name, or the path into the body, as in $.max_players."""
    detail: str


class Problem(Struct, frozen=True, omit_defaults=True):
    """Why a request was not carried out. Decide by `code`; `detail` is a sentence for people."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[Mistake] = []
    """What is wrong with the request, and where."""
    reasons: list[str] = []
    """Why the node is not ready."""


class ProblemError(Exception):
    """A problem of HTTP itself, for which the rest of Holdfast has no error."""

    def __init__(
        self, code: str, detail: str, *, headers: Mapping[str, str] | None = None, reasons: Iterable[str] = ()
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.headers = dict(headers or {})
        self.reasons = list(reasons)


class Mistaken(ProblemError):
    """One part of the request is malformed."""

    def __init__(self, place: str, at: str, detail: str) -> None:
        # The client's own words are repeated, but not at any length.
        at = at[:NAME_CHARS_MAX]
        super().__init__("invalid", f"{place} {at}: {detail}")
        self.mistake = Mistake(place, at, detail)


def mistaken(place: str, error: Exception) -> Mistaken:
    """From msgspec's error: "Expected `int`, got `str` - at `$.limit`"."""
    detail, _, at = str(error).partition(" - at ")
    at = at.strip("`") or "$"
    return Mistaken(place, at if place == "body" else at.removeprefix("$."), detail)


def problem(code: str, detail: str, **more: Any) -> Problem:
    """The document for a code."""
    known = code if code in KINDS else _OF_THE_GAME
    kind = KINDS[known]
    return Problem(f"/docs#problem-{known}", kind.title, kind.status, sentence(detail), sentence(code), **more)


def problem_of(error: Exception) -> Problem:
    """The document for an error; the details of an unexpected one stay in the log."""
    match error:
        case Mistaken():
            return problem(error.code, str(error), errors=[error.mistake])
        case ProblemError():
            return problem(error.code, str(error), reasons=error.reasons)
        case Refused():
            return problem(error.code, str(error))
        case HTTPException(status_code=status) if status in _BY_STATUS:
            return problem(_BY_STATUS[status], _DETAILS.get(status, error.detail))
        case _:
            return problem("internal", "this is a bug; the node's log has the details")


def respond_with_problem(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Litestar's handler for every exception."""
    document = problem_of(error)
    missing: list[str] = request.scope.get(MISSING, [])  # type: ignore[assignment]  # a key of ours
    if missing and document.code == "not_found":
        document = structs.replace(
            document, detail=sentence(f"{document.detail}; it may be on {', '.join(missing)}, which did not answer")
        )
    if document.code == "internal":
        # The route, not the URL, which may hold secrets.
        route = request.scope.get("path_template", "an unknown path")
        _log.error("a request failed", method=request.method, route=route, exc_info=error)
    headers = dict(error.headers or {}) if isinstance(error, ProblemError | HTTPException) else {}
    if document.code == "throttled":
        headers["Retry-After"] = _RETRY_AFTER_S
    body = msgspec.json.encode(document)
    return Response(body, status_code=document.status, media_type=MEDIA_TYPE, headers=headers)
