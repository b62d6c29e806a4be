"""What is inside rooms: their kinds, their state, what is said in them; and a word to everybody in one."""

from litestar import get, post
from litestar.params import JSONBody

from holdfast.http.bodies import NewBroadcast
from holdfast.http.context import context_of
from holdfast.http.events import MEDIA_TYPE, EventAnswer, EventStream
from holdfast.http.keys import Scope
from holdfast.http.operations import Node, RoomPath, needs
from holdfast.http.requests import ApiRequest
from holdfast.schemas.node import KindList
from holdfast.schemas.room import BroadcastInfo, RoomState

_PATH = "/v1/rooms/{room_id:str}"
_TAGS = ["rooms"]
_NOTICE = {"type": "notice", "body": {"text": "The server restarts in five minutes."}}


@get("/v1/kinds", tags=_TAGS, summary="List the kinds of rooms", opt=needs(Scope.READ))
async def list_kinds(backend: Node) -> KindList:
    """Their settings, and the messages that players may send in them, each with a JSON Schema."""
    return KindList(backend.kinds())


@get(
    f"{_PATH}/state",
    tags=_TAGS,
    summary="Look into a room",
    opt=needs(Scope.READ, "not_found", "refused", "throttled", "failed"),
)
async def get_room_state(backend: Node, room_id: RoomPath) -> RoomState:
    """The game's state, and the data of its players, as they are now."""
    return backend.room_state(room_id)


@get(
    f"{_PATH}/messages",
    tags=_TAGS,
    summary="Read what is said in a room",
    media_type=MEDIA_TYPE,
    opt=needs(Scope.ADMIN, "not_found", "throttled"),
)
async def read_messages(backend: Node, request: ApiRequest, room_id: RoomPath) -> EventAnswer:
    """Server-sent events: a "message" each, with its direction (in: from a player), player, type and body.

    Secrets are hidden. If there are too many messages to show, a "gap" says how many were left out.
    """
    return EventAnswer(EventStream(context_of(request.app).streams, backend.room_messages(room_id), waits=True))


@post(
    f"{_PATH}/broadcast",
    tags=_TAGS,
    summary="Say something to everybody in a room",
    status_code=200,
    opt=needs(Scope.ROOMS, "not_found", "refused", "throttled", "failed", example=_NOTICE),
)
async def broadcast(backend: Node, room_id: RoomPath, data: JSONBody[NewBroadcast]) -> BroadcastInfo:
    """As the game itself would: reliably, also to players whose seat is held. Their clients must know the type."""
    return BroadcastInfo(await backend.broadcast(room_id, data.type, data.body))
