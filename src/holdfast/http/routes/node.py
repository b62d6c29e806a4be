"""The node itself: how it is, and what happens on it."""

from litestar import get
from litestar.di import NamedDependency
from msgspec import UNSET

from holdfast.http.bodies import EventQuery, Health
from holdfast.http.context import context_of
from holdfast.http.events import MEDIA_TYPE, EventAnswer, EventStream
from holdfast.http.keys import Scope
from holdfast.http.operations import LastEventId, Node, needs, number_in
from holdfast.http.problems import ProblemError
from holdfast.http.requests import ApiRequest
from holdfast.schemas.node import NodeInfo

_TAGS = ["node"]


@get("/v1/node", tags=_TAGS, summary="Look at the node", opt=needs(Scope.READ))
async def get_node(backend: Node) -> NodeInfo:
    """How full it is, and whether it takes new rooms."""
    return backend.node()


@get(
    "/v1/events",
    tags=_TAGS,
    summary="Read what happens",
    media_type=MEDIA_TYPE,
    opt=needs(Scope.READ, "throttled", example={"after": 41}),
)
async def read_events(
    backend: Node, request: ApiRequest, asked: NamedDependency[EventQuery], last_event_id: LastEventId = None
) -> EventAnswer:
    """Server-sent events: each has an id, and as its data an EventInfo in JSON.

    Who was away goes on after the last id that it has seen. A "gap" is told to those who were away for too long: some
    events are lost to them. A comment comes every 15 seconds when nothing happens. Who reads too slowly is cut off.
    """
    after = None if asked.after is UNSET else asked.after
    if last_event_id is not None:
        # Browsers ask again with the same URL when they come back, and tell here how far they got.
        after = number_in("Last-Event-ID", last_event_id)
    return EventAnswer(EventStream(context_of(request.app).streams, backend.events(after)))


@get("/livez", tags=_TAGS, summary="Is it alive?", opt=needs(None))
async def livez() -> Health:
    """Answered as long as the node answers at all. Needs no key."""
    return Health("live")


@get("/readyz", tags=_TAGS, summary="Is it ready?", opt=needs(None, "not_ready"))
async def readyz(backend: Node) -> Health:
    """Whether the node is well and takes new rooms, and why not. Needs no key."""
    node = backend.node()
    if not (node.is_ready and node.is_healthy):
        reasons = node.reasons or ["the node does not say why"]
        raise ProblemError("not_ready", "; ".join(reasons), reasons=reasons)
    return Health("ready")
