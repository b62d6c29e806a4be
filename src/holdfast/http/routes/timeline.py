"""Timelines: what happened to a session, and why."""

from litestar import get

from holdfast.http.keys import Scope
from holdfast.http.operations import Node, PlayerPath, SessionPath, needs
from holdfast.schemas.session import TimelineInfo


@get(
    "/v1/sessions/{session_id:str}/timeline",
    tags=["sessions"],
    summary="Explain a session",
    opt=needs(Scope.READ, "not_found"),
)
async def explain_session(backend: Node, session_id: SessionPath) -> TimelineInfo:
    """Why it dropped or ended, in plain words, and what happened to it; for a while also when it has ended."""
    return backend.session_timeline(session_id)


@get(
    "/v1/players/{player_id:str}/timeline",
    tags=["players"],
    summary="Explain a player's latest session",
    opt=needs(Scope.READ, "not_found"),
)
async def explain_player(backend: Node, player_id: PlayerPath) -> TimelineInfo:
    """The newest session that is here, else the one that ended last."""
    return backend.player_timeline(player_id)
