"""Rooms: find, make, look at, change and end them."""

from litestar import delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec.structs import asdict, replace

from holdfast.core.errors import Conflict
from holdfast.http.answers import Answer, of_room, path_to
from holdfast.http.bodies import ReasonQuery, RoomQuery, RoomUpdate
from holdfast.http.keys import Scope
from holdfast.http.operations import ETAG, LOCATION, IdempotencyKey, IfMatch, Node, RoomPath, needs, number_in
from holdfast.http.problems import Mistaken, ProblemError
from holdfast.schemas.requests import Create, Search, Update
from holdfast.schemas.room import RoomInfo, RoomPage

_PATH = "/v1/rooms"
_TAGS = ["rooms"]
_OPEN_ARENAS = {"kind": "arena", "where": "open_seats > 0", "order_by": ["players desc"]}
_NEW_ROOM = {"kind": "arena", "name": "Friday night", "max_players": 8, "properties": {"map": "dust", "level": 3}}
_KEY_CHARS_MAX = 64
_CHANGES = {"name": "Saturday night", "set": {"map": "snow"}, "remove": ["level"], "locked": True}


@get(_PATH, tags=_TAGS, summary="Find rooms", opt=needs(Scope.READ, "expired", example=_OPEN_ARENAS))
async def search_rooms(backend: Node, asked: NamedDependency[RoomQuery]) -> RoomPage:
    """All rooms, or those for which `where` holds; full and private ones too.

    A page has a cursor if there is more.
    """
    return await backend.search_rooms(Search(**asdict(asked)))


@post(
    _PATH,
    tags=_TAGS,
    summary="Make a room",
    opt=needs(Scope.ROOMS, "not_found", "refused", "conflict", "name_taken", "throttled", "failed", example=_NEW_ROOM),
    response_headers=[ETAG, LOCATION],
)
async def create_room(
    backend: Node, data: JSONBody[Create], idempotency_key: IdempotencyKey = None
) -> Answer[RoomInfo]:
    """With a key, asking again is safe: the same room is answered."""
    room = await backend.create_room(_with_key(data, idempotency_key))
    answer = of_room(room, status=201)
    answer.set_header("Location", path_to("rooms", room.id))
    return answer


@get(
    f"{_PATH}/{{room_id:str}}",
    tags=_TAGS,
    summary="Look at a room",
    opt=needs(Scope.READ, "not_found"),
    response_headers=[ETAG],
)
async def get_room(backend: Node, room_id: RoomPath) -> Answer[RoomInfo]:
    """Also one that ended a short while ago."""
    return of_room(backend.get_room(room_id))


@patch(
    f"{_PATH}/{{room_id:str}}",
    tags=_TAGS,
    summary="Change a room",
    opt=needs(
        Scope.ROOMS,
        *("not_found", "refused", "conflict", "name_taken", "precondition_failed", "throttled", "failed"),
        example=_CHANGES,
    ),
    response_headers=[ETAG],
)
async def update_room(
    backend: Node, room_id: RoomPath, data: JSONBody[RoomUpdate], if_match: IfMatch = None
) -> Answer[RoomInfo]:
    """All of it or nothing. Members and those who watch a search are told."""
    version = _version(data.if_version, if_match)
    try:
        room = await backend.update_room(Update(room=room_id, **{**asdict(data), "if_version": version}))
    except Conflict as error:
        if if_match is None:
            raise
        raise ProblemError("precondition_failed", str(error)) from None
    return of_room(room)


@delete(
    f"{_PATH}/{{room_id:str}}",
    tags=_TAGS,
    summary="End a room",
    status_code=200,
    opt=needs(Scope.ROOMS, "not_found", "throttled", example={"reason": "maintenance"}),
    response_headers=[ETAG],
)
async def end_room(backend: Node, room_id: RoomPath, asked: NamedDependency[ReasonQuery]) -> Answer[RoomInfo]:
    """Everybody leaves, then it is gone."""
    return of_room(await backend.end_room(room_id, asked.reason))


def _with_key(request: Create, header: str | None) -> Create:
    if header is None:
        return request
    key = header.removeprefix('"').removesuffix('"')
    if not 0 < len(key) <= _KEY_CHARS_MAX:
        raise Mistaken("header", "Idempotency-Key", f"it has 1 to {_KEY_CHARS_MAX} characters; got {len(key)}")
    if request.idempotency_key not in {"", key}:
        raise Mistaken("header", "Idempotency-Key", "the body has another idempotency_key")
    return replace(request, idempotency_key=key)


def _version(in_body: int | None, if_match: str | None) -> int | None:
    """The version that the room must have: told by the body, by the header, or by both if they agree."""
    if if_match in {None, "*"}:
        return in_body
    assert if_match is not None
    version = number_in("If-Match", if_match.removeprefix('"').removesuffix('"'))
    if in_body not in {None, version}:
        raise Mistaken("header", "If-Match", "the body has another if_version")
    return version
