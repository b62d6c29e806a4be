"""Who is not welcome: bans of players and of ranges of addresses, and signing a player out everywhere."""

from litestar import delete, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from holdfast.http.answers import Answer, path_to
from holdfast.http.bodies import PageQuery, ReasonQuery
from holdfast.http.keys import Scope
from holdfast.http.operations import LOCATION, BanPath, Node, PlayerPath, needs
from holdfast.schemas.ban import BanInfo, BanPage
from holdfast.schemas.requests import Ban

_PATH = "/v1/bans"
_TAGS = ["bans"]
_TWO_HOURS = {"player": "guest-7Jm2", "for_s": 7200, "why": "be nice"}


@get(_PATH, tags=_TAGS, summary="List bans", opt=needs(Scope.ADMIN, "expired"))
async def list_bans(backend: Node, asked: NamedDependency[PageQuery]) -> BanPage:
    """Those that are in force; `until` of 0 is for good."""
    return backend.list_bans(limit=asked.limit, cursor=asked.cursor)


@post(
    _PATH,
    tags=_TAGS,
    summary="Ban a player or an address",
    opt=needs(Scope.ADMIN, "throttled", example=_TWO_HOURS),
    response_headers=[LOCATION],
)
async def ban(backend: Node, data: JSONBody[Ban]) -> Answer[BanInfo]:
    """Their sessions end at once, and nobody gets in with their tokens, also after a restart.

    It takes the place of a former ban of the same player or range.
    """
    made = await backend.ban(data)
    return Answer(made, status_code=201, headers={"Location": path_to("bans", made.subject)})


@delete(f"{_PATH}/{{subject:str}}", tags=_TAGS, summary="Lift a ban", opt=needs(Scope.ADMIN, "not_found", "throttled"))
async def unban(backend: Node, subject: BanPath) -> None:
    """They may sign in again; sessions that the ban has ended stay ended."""
    await backend.unban(subject)


@post(
    "/v1/players/{player_id:str}/sign-out",
    tags=["players"],
    summary="Sign a player out everywhere",
    status_code=204,
    opt=needs(Scope.ADMIN, "not_found", "throttled", example={"reason": "your password was changed"}),
)
async def sign_out_player(backend: Node, player_id: PlayerPath, asked: NamedDependency[ReasonQuery]) -> None:
    """All of their sessions end at once; tickets and JWTs that were issued before do not count any more.

    They need not be here. Passwords and guest credentials may be signed in with again.
    """
    await backend.sign_out(player_id, asked.reason)
