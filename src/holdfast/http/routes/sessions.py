"""Sessions and players: list them, end or drop a session, explain what happened, sign a player out, change roles."""

from litestar import delete, get, patch, post, put
from litestar.di import NamedDependency
from litestar.params import JSONBody

from holdfast.http.api import Scope
from holdfast.http.bodies import PageQuery, PlayerQuery, ReasonQuery, SessionChanges, SessionQuery
from holdfast.http.requests import ApiRequest, caller_of
from holdfast.http.routes.shared import PlayerPath, RolePath, Server, SessionPath, route
from holdfast.schemas.cluster import PlayersWanted, SessionsWanted
from holdfast.schemas.player import PlayerInfo, PlayerPage
from holdfast.schemas.projection import project
from holdfast.schemas.role import RolePage
from holdfast.schemas.session import SessionInfo, SessionPage, TimelineInfo

_SESSIONS = "/v1/sessions"
_SESSION = "/v1/sessions/{session_id:str}"
_PLAYERS = "/v1/players"
_PLAYER = "/v1/players/{player_id:str}"
_ROLE = "/v1/players/{player_id:str}/roles/{role:str}"


@route(get, _SESSIONS, "sessions", "List sessions", Scope.READ, "expired", example={"player": "guest-7Jm2"})
async def list_sessions(server: Server, params: NamedDependency[SessionQuery]) -> SessionPage:
    """All, or those that match every parameter, on all nodes of a cluster."""
    return await server.everywhere.sessions(project(params, SessionsWanted))


@route(get, _SESSION, "sessions", "Get a session", Scope.READ)
async def get_session(server: Server, session_id: SessionPath) -> SessionInfo:
    """Connected, or disconnected and still in its grace."""
    return server.sessions.get(session_id)


@route(patch, _SESSION, "sessions", "Limit a session", Scope.ADMIN, example={"limits": {"messages_per_s": 500}})
async def limit_session(server: Server, session_id: SessionPath, data: JSONBody[SessionChanges]) -> SessionInfo:
    """Change limits of this session alone: at once, and for as long as it lives."""
    return server.sessions.limit(session_id, **data.limits)


@route(delete, _SESSION, "sessions", "End a session", Scope.ADMIN, "throttled", example={"reason": "maintenance"})
async def end_session(server: Server, session_id: SessionPath, params: NamedDependency[ReasonQuery]) -> None:
    """For good: its seat is freed too."""
    await server.sessions.end(session_id, params.reason)


@route(
    *(post, f"{_SESSION}/drop", "sessions", "Drop a session's connection", Scope.ADMIN),
    example={"reason": "a test"},
    status_code=204,
)
async def drop_session(server: Server, session_id: SessionPath, params: NamedDependency[ReasonQuery]) -> None:
    """As if the network had: the seat is held, and the player may come back."""
    server.sessions.drop(session_id, params.reason)


@route(get, f"{_SESSION}/timeline", "sessions", "Explain a session", Scope.READ)
async def explain_session(server: Server, session_id: SessionPath) -> TimelineInfo:
    """Why it dropped or ended, in plain words, and what happened to it; for a while also after it has ended."""
    return await server.timelines.of(session_id)


@route(get, _PLAYERS, "players", "List players", Scope.READ, "expired", example={"search": "guest"})
async def list_players(server: Server, params: NamedDependency[PlayerQuery]) -> PlayerPage:
    """Everybody with a session, a seat or a reservation."""
    return await server.everywhere.players(project(params, PlayersWanted))


@route(get, _PLAYER, "players", "Get a player", Scope.READ)
async def get_player(server: Server, player_id: PlayerPath) -> PlayerInfo:
    """Their sessions, rooms and roles."""
    return await server.everywhere.player(player_id)


@route(get, f"{_PLAYER}/timeline", "players", "Explain a player's latest session", Scope.READ)
async def explain_player(server: Server, player_id: PlayerPath) -> TimelineInfo:
    """The newest open session, otherwise the one that ended last."""
    return await server.timelines.latest_of(player_id)


@route(
    *(post, f"{_PLAYER}/sign-out", "players", "Sign a player out everywhere", Scope.ADMIN, "throttled"),
    example={"reason": "your password was changed"},
    status_code=204,
)
async def sign_out_player(server: Server, player_id: PlayerPath, params: NamedDependency[ReasonQuery]) -> None:
    """All of their sessions end at once; tickets and JWTs that were issued before are no longer valid.

    They need not be connected. They may sign in again with passwords and guest credentials.
    """
    await server.access.sign_out(player_id, params.reason)


@route(get, "/v1/roles", "players", "List changed roles", Scope.ADMIN, "expired")
async def list_roles(server: Server, params: NamedDependency[PageQuery]) -> RolePage:
    """The players to whom operators granted roles, or from whom they revoked some."""
    return server.players.roles(limit=params.limit, cursor=params.cursor)


@route(put, _ROLE, "players", "Grant a role", Scope.ADMIN, "throttled")
async def grant_role(server: Server, request: ApiRequest, player_id: PlayerPath, role: RolePath) -> PlayerInfo:
    """At once in all of their sessions, and in later ones, whatever their authenticator says; also after a restart.

    They need not be connected.
    """
    return await server.players.grant(player_id, role, by=caller_of(request))


@route(delete, _ROLE, "players", "Revoke a role", Scope.ADMIN, "throttled", status_code=200)
async def revoke_role(server: Server, request: ApiRequest, player_id: PlayerPath, role: RolePath) -> PlayerInfo:
    """The same the other way: they do not have the role, even if their authenticator says so."""
    return await server.players.revoke(player_id, role, by=caller_of(request))


@route(delete, f"{_PLAYER}/roles", "players", "Reset roles", Scope.ADMIN, "throttled", status_code=200)
async def reset_roles(server: Server, request: ApiRequest, player_id: PlayerPath) -> PlayerInfo:
    """Undo everything that was granted and revoked: they have the roles that their authenticator says."""
    return await server.players.reset_roles(player_id, by=caller_of(request))
