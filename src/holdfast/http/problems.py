"""How the API says no: RFC 9457 problem documents, with the same codes as everywhere else in Holdfast."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from holdfast.schemas.frames import NAME_CHARS_MAX, sentence

MEDIA_TYPE = "application/problem+json"


class Kind(NamedTuple):
    """One kind of problem: its status, and what it is called."""

    status: int
    title: str


KINDS: Mapping[str, Kind] = {
    "invalid": Kind(400, "The request does not have the form it must have"),
    "not_authenticated": Kind(401, "An API key is needed, and this is none"),
    "not_allowed": Kind(403, "Not for you to do"),
    "wrong_password": Kind(403, "The room has a password, and this is not it"),
    "not_found": Kind(404, "There is no such thing"),
    "method_not_allowed": Kind(405, "This cannot be done with it"),
    "refused": Kind(409, "The game refused"),
    "conflict": Kind(409, "Somebody else changed it first, or the key stands for a different request"),
    "name_taken": Kind(409, "Another room of this kind has this name"),
    "room_full": Kind(409, "Every seat is taken, held or reserved"),
    "room_locked": Kind(409, "The room takes nobody new"),
    "already_seated": Kind(409, "The session has a seat already"),
    "duplicate": Kind(409, "The player is in the room already"),
    "not_seated": Kind(409, "There is no seat to act from"),
    "other_version": Kind(409, "The client was made for other messages than the room's"),
    "expired": Kind(410, "It was kept for a while, and that is over"),
    "precondition_failed": Kind(412, "It has another version by now"),
    "too_large": Kind(413, "The body is too large"),
    "path_too_long": Kind(414, "The path is too long"),
    "unsupported_media_type": Kind(415, "The body must be JSON"),
    "throttled": Kind(429, "A limit was reached; try again later"),
    "failed": Kind(500, "The game's own code failed"),
    "internal": Kind(500, "Holdfast has a bug"),
    "not_ready": Kind(503, "The node takes no new rooms"),
}
"""Every code, in the order of its status: the one table that answers, the OpenAPI document and the docs go by."""

# A game may refuse with a code of its own.
_OF_THE_GAME = "refused"


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
    """A problem of HTTP itself, which the rest of Holdfast has no error for."""

    def __init__(
        self, code: str, detail: str, *, headers: Mapping[str, str] | None = None, reasons: Iterable[str] = ()
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.headers = dict(headers or {})
        self.reasons = list(reasons)


class Mistaken(ProblemError):
    """The request does not have the form it must have, in one place."""

    def __init__(self, place: str, at: str, detail: str) -> None:
        # What was asked is repeated, but not at any length.
        at = at[:NAME_CHARS_MAX]
        super().__init__("invalid", f"{place} {at}: {detail}")
        self.mistake = Mistake(place, at, detail)


def mistaken(place: str, error: Exception) -> Mistaken:
    """What msgspec found: "Expected `int`, got `str` - at `$.limit`"."""
    detail, _, at = str(error).partition(" - at ")
    at = at.strip("`") or "$"
    return Mistaken(place, at if place == "body" else at.removeprefix("$."), detail)


def problem(code: str, detail: str, **more: Any) -> Problem:
    """The document for a code."""
    known = code if code in KINDS else _OF_THE_GAME
    kind = KINDS[known]
    return Problem(f"/docs#problem-{known}", kind.title, kind.status, sentence(detail), sentence(code), **more)
