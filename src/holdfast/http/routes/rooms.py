"""Rooms, their seats, and placements: rooms that are created on the best node for their players."""

from litestar import delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec.structs import asdict, replace

from holdfast.core.errors import Conflict
from holdfast.http.api import Scope
from holdfast.http.bodies import (
    NewBroadcast,
    NewPlace,
    NewReservation,
    PageQuery,
    PlacementList,
    QueueList,
    ReasonQuery,
    RoomQuery,
    SeatList,
)
from holdfast.http.errors import Mistaken, ProblemError
from holdfast.http.requests import ApiRequest, context_of
from holdfast.http.responses import EVENT_STREAM, Answer, EventAnswer, EventStream
from holdfast.http.routes.shared import (
    ETAG,
    LOCATION,
    IdempotencyKey,
    IfMatch,
    PlacementPath,
    PlayerPath,
    RoomPath,
    Server,
    location,
    number_in,
    route,
)
from holdfast.schemas.node import KindList, RoomPlace
from holdfast.schemas.placement import PlacementInfo
from holdfast.schemas.player import ReservationInfo, SpectatorPage
from holdfast.schemas.requests import Create, Release, Reserve, RoomChanges, StartPlacement, Update
from holdfast.schemas.room import BroadcastInfo, RoomInfo, RoomOnNode, RoomsFound, RoomState
from holdfast.server.operations import Operations

_ROOMS = "/v1/rooms"
_ROOM = "/v1/rooms/{room_id:str}"
_OPEN_ARENAS = {"kind": "arena", "where": "open_seats > 0", "order_by": ["players desc"]}
_NEW_ROOM = {"kind": "arena", "name": "Friday night", "max_players": 8, "properties": {"map": "dust", "level": 3}}
_CHANGES = {"name": "Saturday night", "set": {"map": "snow"}, "remove": ["level"], "locked": True}
_NOTICE = {"type": "notice", "body": {"text": "The server restarts in five minutes."}}
_PARTY = {"players": ["guest-7Jm2", "guest-Xa40"], "ttl_s": 60}
_KEY_CHARS_MAX = 64


def _answer(server: Operations, room: RoomInfo, status: int = 200) -> Answer[RoomOnNode]:
    """A room, with its version as the ETag."""
    return Answer(server.everywhere.placed(room), status_code=status, headers={"ETag": f'"{room.version}"'})


@route(get, _ROOMS, "rooms", "Find rooms", Scope.READ, "expired", example=_OPEN_ARENAS)
async def search_rooms(server: Server, params: NamedDependency[RoomQuery]) -> RoomsFound:
    """All rooms, or those that match `where`; full and private ones too, and those of all nodes of a cluster.

    A page has a cursor if there are more.
    """
    return await server.everywhere.rooms(params)


@route(
    *(post, _ROOMS, "rooms", "Create a room", Scope.ROOMS),
    *("not_found", "refused", "conflict", "name_taken", "throttled", "failed"),
    example=_NEW_ROOM,
    response_headers=[ETAG, LOCATION],
)
async def create_room(
    server: Server, data: JSONBody[Create], idempotency_key: IdempotencyKey = None
) -> Answer[RoomOnNode]:
    """With an idempotency key it is safe to send again: the response is the same room."""
    room = await server.rooms.create(_with_key(data, idempotency_key))
    answer = _answer(server, room, status=201)
    answer.headers.update(location("rooms", room.id))
    return answer


@route(get, _ROOM, "rooms", "Get a room", Scope.READ, response_headers=[ETAG])
async def get_room(server: Server, room_id: RoomPath) -> Answer[RoomOnNode]:
    """Also one that ended recently."""
    return _answer(server, server.rooms.get(room_id))


@route(
    *(patch, _ROOM, "rooms", "Change a room", Scope.ROOMS),
    *("refused", "conflict", "name_taken", "precondition_failed", "throttled", "failed"),
    example=_CHANGES,
    response_headers=[ETAG],
)
async def update_room(
    server: Server, room_id: RoomPath, data: JSONBody[RoomChanges], if_match: IfMatch = None
) -> Answer[RoomOnNode]:
    """All of it or nothing. Members, and clients that watch a search, are notified."""
    version = _version(data.if_version, if_match)
    try:
        room = await server.rooms.update(Update(room=room_id, **{**asdict(data), "if_version": version}))
    except Conflict as error:
        if if_match is None:
            raise
        raise ProblemError("precondition_failed", str(error)) from None
    return _answer(server, room)


@route(
    *(delete, _ROOM, "rooms", "End a room", Scope.ROOMS, "throttled"),
    example={"reason": "maintenance"},
    status_code=200,
    response_headers=[ETAG],
)
async def end_room(server: Server, room_id: RoomPath, params: NamedDependency[ReasonQuery]) -> Answer[RoomOnNode]:
    """Everybody leaves, then it ends."""
    return _answer(server, await server.rooms.end(room_id, params.reason))


@route(
    *(post, f"{_ROOM}/move", "nodes", "Move a room", Scope.ADMIN, "throttled"),
    example={"to": "node-b"},
    status_code=200,
)
async def move_room(server: Server, room_id: RoomPath, data: JSONBody[NewPlace]) -> RoomPlace:
    """To another node of the cluster, in the middle of its game: nobody drops. Rooms in memory only cannot move."""
    return await server.nodes.move(room_id, data.to)


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
    """The version that the room must have, from the body, the header, or both if they agree."""
    if if_match in {None, "*"}:
        return in_body
    assert if_match is not None
    version = number_in("If-Match", if_match.removeprefix('"').removesuffix('"'))
    if in_body not in {None, version}:
        raise Mistaken("header", "If-Match", "the body has another if_version")
    return version


# Inside rooms


@route(get, "/v1/kinds", "rooms", "List the kinds of rooms", Scope.READ)
async def list_kinds(server: Server) -> KindList:
    """Their settings, and the messages that players may send in them, each with a JSON Schema."""
    return KindList(server.node.kinds())


@route(get, f"{_ROOM}/state", "rooms", "Get a room's state", Scope.READ, "refused", "throttled", "failed")
async def get_room_state(server: Server, room_id: RoomPath) -> RoomState:
    """The game's state, and the data of its players, as they are now."""
    return server.rooms.state(room_id)


@route(get, f"{_ROOM}/messages", "rooms", "Follow a room's messages", Scope.ADMIN, "throttled", media_type=EVENT_STREAM)
async def read_messages(server: Server, request: ApiRequest, room_id: RoomPath) -> EventAnswer:
    """Server-sent events: a "message" each, with its direction (in: from a player), player, type and body.

    Secrets are hidden. If there are too many messages to show, a "gap" says how many were left out.
    """
    return EventAnswer(EventStream(context_of(request).streams, server.rooms.messages(room_id), waits=True))


@route(
    *(post, f"{_ROOM}/broadcast", "rooms", "Send a message to all players of a room", Scope.ROOMS),
    *("refused", "throttled", "failed"),
    example=_NOTICE,
    status_code=200,
)
async def broadcast(server: Server, room_id: RoomPath, data: JSONBody[NewBroadcast]) -> BroadcastInfo:
    """As the game itself would: reliably, also to players whose seat is held. Their clients must know the type."""
    return BroadcastInfo(await server.rooms.broadcast(room_id, data.type, data.body))


# Seats


@route(get, f"{_ROOM}/seats", "seats", "List a room's seats", Scope.READ)
async def list_seats(server: Server, room_id: RoomPath) -> SeatList:
    """Seats that are taken, held for a player who dropped, or reserved."""
    return SeatList(server.rooms.seats(room_id))


@route(
    *(post, f"{_ROOM}/reservations", "seats", "Reserve seats", Scope.ROOMS),
    *("refused", "room_full", "room_locked", "already_seated", "duplicate", "throttled", "failed"),
    example=_PARTY,
)
async def reserve_seats(server: Server, room_id: RoomPath, data: JSONBody[NewReservation]) -> ReservationInfo:
    """For a party, all or none. Reserving again extends the time."""
    return await server.rooms.reserve(
        Reserve(room=room_id, players=data.players, ttl_s=data.ttl_s, options=data.options)
    )


@route(
    *(delete, f"{_ROOM}/reservations/{{player_id:str}}", "seats", "Release a reserved seat", Scope.ROOMS),
    *("expired", "throttled"),
)
async def release_seat(server: Server, room_id: RoomPath, player_id: PlayerPath) -> None:
    """A seat that its player has taken stays taken."""
    await server.rooms.release(Release(room=room_id, players=[player_id]))


@route(
    *(delete, f"{_ROOM}/seats/{{player_id:str}}", "seats", "Kick a player", Scope.ADMIN, "not_seated", "throttled"),
    example={"reason": "be nice"},
)
async def kick_player(
    server: Server, room_id: RoomPath, player_id: PlayerPath, params: NamedDependency[ReasonQuery]
) -> None:
    """The seat is freed, and the player is told why."""
    await server.rooms.kick(room_id, player_id, params.reason)


# Spectators


@route(get, f"{_ROOM}/spectators", "seats", "List a room's spectators", Scope.READ, "expired")
async def list_spectators(server: Server, room_id: RoomPath, params: NamedDependency[PageQuery]) -> SpectatorPage:
    """Those who watch without a seat, connected or held."""
    return server.rooms.spectators(room_id, limit=params.limit, cursor=params.cursor)


@route(
    *(delete, f"{_ROOM}/spectators/{{player_id:str}}", "seats", "Kick a spectator", Scope.ADMIN, "throttled"),
    example={"reason": "no phones"},
)
async def kick_spectator(
    server: Server, room_id: RoomPath, player_id: PlayerPath, params: NamedDependency[ReasonQuery]
) -> None:
    """They watch the room no more, and are told why."""
    await server.rooms.kick_spectator(room_id, player_id, params.reason)


# Placements take a while: poll, or follow the events.

_PLACEMENTS = "/v1/placements"
_PLACEMENT = "/v1/placements/{placement_id:str}"
_MATCH = {
    "queue": "europe",
    "kind": "arena",
    "players": [
        {"id": "guest-7Jm2", "latencies_ms": {"eu-west": 21, "eu-north": 48}},
        {"id": "guest-Xa40", "latencies_ms": {"eu-west": 35, "eu-north": 30}},
    ],
}


@route(get, "/v1/queues", "placements", "List queues", Scope.READ)
async def list_queues(server: Server) -> QueueList:
    """Where placements can be started."""
    return QueueList(server.placements.queues())


@route(get, _PLACEMENTS, "placements", "List placements", Scope.READ)
async def list_placements(server: Server) -> PlacementList:
    """The pending ones, and those that ended recently."""
    return PlacementList(*await server.placements.list())


@route(
    *(post, _PLACEMENTS, "placements", "Start a placement", Scope.ROOMS),
    *("not_found", "refused", "conflict", "throttled", "failed"),
    example=_MATCH,
    status_code=202,
    response_headers=[LOCATION],
)
async def start_placement(server: Server, data: JSONBody[StartPlacement]) -> Answer[PlacementInfo]:
    """With an `id` of your own it is safe to send again: the response is the same placement."""
    placement = await server.placements.start(data)
    return Answer(placement, headers=location("placements", placement.id))


@route(get, _PLACEMENT, "placements", "Get a placement", Scope.READ)
async def get_placement(server: Server, placement_id: PlacementPath) -> PlacementInfo:
    """Pending until it is fulfilled, cancelled, timed_out or failed; it has a room once it is fulfilled."""
    return await server.placements.get(placement_id)


@route(delete, _PLACEMENT, "placements", "Stop a placement", Scope.ROOMS, "conflict", "throttled", status_code=200)
async def stop_placement(server: Server, placement_id: PlacementPath) -> PlacementInfo:
    """Only while it is pending."""
    return await server.placements.stop(placement_id)
