"""Players: who is here."""

from litestar import get
from litestar.di import NamedDependency

from holdfast.http.bodies import PlayerQuery
from holdfast.http.keys import Scope
from holdfast.http.operations import Node, PlayerPath, needs
from holdfast.schemas.player import PlayerInfo, PlayerPage

_PATH = "/v1/players"
_TAGS = ["players"]


@get(_PATH, tags=_TAGS, summary="List players", opt=needs(Scope.READ, "expired", example={"search": "guest"}))
async def list_players(backend: Node, asked: NamedDependency[PlayerQuery]) -> PlayerPage:
    """Everybody with a session, a seat, or a seat that is reserved for them."""
    return backend.list_players(limit=asked.limit, cursor=asked.cursor, search=asked.search)


@get(f"{_PATH}/{{player_id:str}}", tags=_TAGS, summary="Look at a player", opt=needs(Scope.READ, "not_found"))
async def get_player(backend: Node, player_id: PlayerPath) -> PlayerInfo:
    """Their sessions and their rooms."""
    return backend.get_player(player_id)
