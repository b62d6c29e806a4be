"""Placements: have a room made where it is best for its players. They take a while; ask, or read the events."""

from litestar import delete, get, post
from litestar.params import JSONBody

from holdfast.http.answers import Answer, path_to
from holdfast.http.bodies import PlacementList, QueueList
from holdfast.http.keys import Scope
from holdfast.http.operations import LOCATION, Node, PlacementPath, needs
from holdfast.schemas.placement import PlacementInfo
from holdfast.schemas.requests import StartPlacement

_PATH = "/v1/placements"
_TAGS = ["placements"]
_MATCH = {
    "queue": "europe",
    "kind": "arena",
    "players": [
        {"id": "guest-7Jm2", "latencies_ms": {"eu-west": 21, "eu-north": 48}},
        {"id": "guest-Xa40", "latencies_ms": {"eu-west": 35, "eu-north": 30}},
    ],
}


@get("/v1/queues", tags=_TAGS, summary="List queues", opt=needs(Scope.READ))
async def list_queues(backend: Node) -> QueueList:
    """Where placements can be started."""
    return QueueList(backend.list_queues())


@get(_PATH, tags=_TAGS, summary="List placements", opt=needs(Scope.READ))
async def list_placements(backend: Node) -> PlacementList:
    """Those that are pending, and those that ended a short while ago."""
    return PlacementList(backend.list_placements())


@post(
    _PATH,
    tags=_TAGS,
    summary="Start a placement",
    status_code=202,
    opt=needs(Scope.ROOMS, "not_found", "refused", "conflict", "throttled", "failed", example=_MATCH),
    response_headers=[LOCATION],
)
async def start_placement(backend: Node, data: JSONBody[StartPlacement]) -> Answer[PlacementInfo]:
    """With an `id` of your own, asking again is safe: the same placement is answered."""
    placement = await backend.start_placement(data)
    return Answer(placement, headers={"Location": path_to("placements", placement.id)})


@get(f"{_PATH}/{{placement_id:str}}", tags=_TAGS, summary="Look at a placement", opt=needs(Scope.READ, "not_found"))
async def get_placement(backend: Node, placement_id: PlacementPath) -> PlacementInfo:
    """Pending until it is fulfilled, cancelled, timed_out or failed; its room is there once it is fulfilled."""
    return backend.get_placement(placement_id)


@delete(
    f"{_PATH}/{{placement_id:str}}",
    tags=_TAGS,
    summary="Stop a placement",
    status_code=200,
    opt=needs(Scope.ROOMS, "not_found", "conflict", "throttled"),
)
async def stop_placement(backend: Node, placement_id: PlacementPath) -> PlacementInfo:
    """While it is pending."""
    return await backend.stop_placement(placement_id)
