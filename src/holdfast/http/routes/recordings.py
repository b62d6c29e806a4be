"""Recordings of rooms: everything that happened, turn by turn, with every secret."""

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from holdfast.http.api import Scope
from holdfast.http.bodies import TurnQuery, TurnsQuery
from holdfast.http.responses import Answer
from holdfast.http.routes.shared import LOCATION, RoomPath, Server, location, route
from holdfast.schemas.recording import ForkRequest, RecordingInfo, TurnPage, TurnState
from holdfast.schemas.room import RoomInfo

_RECORDING = "/v1/rooms/{room_id:str}/recording"
_FILE = "application/octet-stream"


@route(get, _RECORDING, "recordings", "Get a room's recording", Scope.ADMIN)
async def get_recording(server: Server, room_id: RoomPath) -> RecordingInfo:
    """Which turns are kept. Also of a room that ended recently."""
    return server.recordings.get(room_id)


@route(get, f"{_RECORDING}/turns", "recordings", "List turns", Scope.ADMIN, "refused", example={"first": 1})
async def list_turns(server: Server, room_id: RoomPath, params: NamedDependency[TurnsQuery]) -> TurnPage:
    """From a number on; the newest ones without it. Each with its cause, what it changed, and what it sent.

    With `player`, only what that player was sent: turns that they know nothing of are left out.
    """
    return await server.recordings.turns(room_id, first=params.first, limit=params.limit, player=params.player)


@route(get, f"{_RECORDING}/state", "recordings", "Get the state at a turn", Scope.ADMIN, "refused", example={"turn": 1})
async def get_recorded_state(server: Server, room_id: RoomPath, params: NamedDependency[TurnQuery]) -> TurnState:
    """All that is saved of the room, as it was at the end of the turn; with `player`, what that player saw of it."""
    return await server.recordings.turn(room_id, params.turn, player=params.player)


@route(get, f"{_RECORDING}/file", "recordings", "Download a recording", Scope.ADMIN, media_type=_FILE)
async def download_recording(server: Server, room_id: RoomPath) -> Response[bytes]:
    """For `holdfast rooms replay FILE` and `holdfast.testing.replay`."""
    headers = {"Content-Disposition": 'attachment; filename="room.recording"'}
    return Response(server.recordings.file(room_id), media_type=_FILE, headers=headers)


@route(
    *(post, "/v1/rooms/{room_id:str}/forks", "recordings", "Fork a room", Scope.ADMIN),
    *("refused", "throttled", "failed"),
    example={"turn": 1},
    response_headers=[LOCATION],
)
async def fork_room(server: Server, room_id: RoomPath, data: JSONBody[ForkRequest]) -> Answer[RoomInfo]:
    """A new, private room that goes on from the end of a turn. Its seats are held for the same players, who join it."""
    room = await server.recordings.fork(room_id, data.turn)
    return Answer(room, status_code=201, headers=location("rooms", room.id))
