"""Placements: create a room on the best node for its players. That takes a while: poll, or follow the events."""

from litestar import delete, get, post
from litestar.params import JSONBody

from holdfast.http.bodies import PlacementList, QueueList
from holdfast.http.keys import Scope
from holdfast.http.responses import Answer, path_to
from holdfast.http.routes.shared import BODY, LOCATION, PATH, PlacementPath, Server, operation
from holdfast.schemas.placement import PlacementInfo
from holdfast.schemas.requests import StartPlacement

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


@get("/v1/queues", **operation("placements", "List queues", Scope.READ))
async def list_queues(server: Server) -> QueueList:
    """Where placements can be started."""
    return QueueList(server.placements.queues())


@get(_PLACEMENTS, **operation("placements", "List placements", Scope.READ))
async def list_placements(server: Server) -> PlacementList:
    """The pending ones, and those that ended recently."""
    return PlacementList(server.placements.list())


@post(
    _PLACEMENTS,
    **operation(
        "placements",
        "Start a placement",
        Scope.ROOMS,
        *(*BODY, "not_found", "refused", "conflict", "throttled", "failed"),
        example=_MATCH,
    ),
    status_code=202,
    response_headers=[LOCATION],
)
async def start_placement(server: Server, data: JSONBody[StartPlacement]) -> Answer[PlacementInfo]:
    """With an `id` of your own it is safe to send again: the response is the same placement."""
    placement = server.placements.start(data)
    return Answer(placement, headers={"Location": path_to("placements", placement.id)})


@get(_PLACEMENT, **operation("placements", "Get a placement", Scope.READ, *PATH))
async def get_placement(server: Server, placement_id: PlacementPath) -> PlacementInfo:
    """Pending until it is fulfilled, cancelled, timed_out or failed; it has a room once it is fulfilled."""
    return server.placements.get(placement_id)


@delete(
    _PLACEMENT,
    **operation("placements", "Stop a placement", Scope.ROOMS, *PATH, "conflict", "throttled"),
    status_code=200,
)
async def stop_placement(server: Server, placement_id: PlacementPath) -> PlacementInfo:
    """Only while it is pending."""
    return server.placements.stop(placement_id)


HANDLERS = [list_queues, list_placements, start_placement, get_placement, stop_placement]
