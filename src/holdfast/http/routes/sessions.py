"""Sessions: a player's presence on this node, one for each device."""

from litestar import delete, get, post
from litestar.di import NamedDependency

from holdfast.http.bodies import ReasonQuery, SessionQuery
from holdfast.http.keys import Scope
from holdfast.http.operations import Node, SessionPath, needs
from holdfast.schemas.session import SessionInfo, SessionPage

_PATH = "/v1/sessions"
_TAGS = ["sessions"]


@get(_PATH, tags=_TAGS, summary="List sessions", opt=needs(Scope.READ, "expired", example={"player": "guest-7Jm2"}))
async def list_sessions(backend: Node, asked: NamedDependency[SessionQuery]) -> SessionPage:
    """All, or those that are asked for."""
    return backend.list_sessions(
        player=asked.player, limit=asked.limit, cursor=asked.cursor, search=asked.search, status=asked.status
    )


@get(f"{_PATH}/{{session_id:str}}", tags=_TAGS, summary="Look at a session", opt=needs(Scope.READ, "not_found"))
async def get_session(backend: Node, session_id: SessionPath) -> SessionInfo:
    """Connected, or disconnected and still in its grace."""
    return backend.get_session(session_id)


@delete(
    f"{_PATH}/{{session_id:str}}",
    tags=_TAGS,
    summary="End a session",
    opt=needs(Scope.ADMIN, "not_found", "throttled", example={"reason": "maintenance"}),
)
async def end_session(backend: Node, session_id: SessionPath, asked: NamedDependency[ReasonQuery]) -> None:
    """For good: its seat is freed too."""
    await backend.end_session(session_id, asked.reason)


@post(
    f"{_PATH}/{{session_id:str}}/drop",
    tags=_TAGS,
    summary="Drop a session's connection",
    status_code=204,
    opt=needs(Scope.ADMIN, "not_found", example={"reason": "a test"}),
)
async def drop_session(backend: Node, session_id: SessionPath, asked: NamedDependency[ReasonQuery]) -> None:
    """As if the network had: the seat is held, and the player may come back."""
    backend.drop_session(session_id, asked.reason)
