"""What is answered: the structs of schemas/ as JSON, with every field there; or a problem document."""

from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from msgspec import Struct

from holdfast.core.errors import Refused
from holdfast.http.problems import MEDIA_TYPE, Mistaken, Problem, ProblemError, problem
from holdfast.logs import get_logger
from holdfast.schemas.room import RoomInfo

T = TypeVar("T")

# When to try again after `throttled`: limits are counted in what is there now, and that changes by the second.
RETRY_AFTER_S = 1

# What Litestar refuses by itself: it knows the status only.
_BY_STATUS = {400: "invalid", 404: "not_found", 405: "method_not_allowed", 413: "too_large"}
_DETAILS = {
    404: "there is nothing at this path; /docs shows what there is",
    405: "this cannot be done here; the Allow header says what can",
}

_log = get_logger("holdfast.http")


class Answer(Response[T]):
    """A response that shows whole structs."""

    def render(self, content: Any, *args: Any, **kwargs: Any) -> bytes:
        """The struct as JSON."""
        return super().render(whole(content), *args, **kwargs)


def whole(value: Any) -> Any:
    """A struct as a dict, with the fields that have their defaults too: on the wire they are left out to save bytes,
    but who reads this API should not need to know the defaults."""
    if isinstance(value, Struct):
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        return {encoded: whole(getattr(value, name)) for name, encoded in names}
    if isinstance(value, dict):
        return {key: whole(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [whole(each) for each in value]
    return value


def of_room(room: RoomInfo, status: int = 200) -> Answer[RoomInfo]:
    """A room, and what to say in If-Match."""
    return Answer(room, status_code=status, headers={"ETag": f'"{room.version}"'})


def path_to(collection: str, resource_id: str) -> str:
    """For the Location header."""
    return f"/v1/{collection}/{quote(resource_id, safe='')}"


def problem_of(error: Exception) -> Problem:
    """The document for an error; what nobody raised on purpose is told to nobody."""
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


def answer_problem(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """The answer to a request that could not be carried out."""
    document = problem_of(error)
    if document.code == "internal":
        # The route, not the URL: that may hold what only the asker should know.
        route = request.scope.get("path_template", "an unknown path")
        _log.error("a request failed", method=request.method, route=route, exc_info=error)
    return Response(
        msgspec.json.encode(document), status_code=document.status, media_type=MEDIA_TYPE, headers=_headers(error)
    )


def _headers(error: Exception) -> dict[str, str]:
    match error:
        case ProblemError():
            return error.headers
        case Refused(code="throttled"):
            return {"Retry-After": str(RETRY_AFTER_S)}
        case HTTPException():
            return dict(error.headers or {})
        case _:
            return {}
