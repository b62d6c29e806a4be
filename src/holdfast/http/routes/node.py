"""The node itself: its health, numbers and settings, its events, its metrics, and the packet log."""

from litestar import Response, delete, get, put
from litestar.di import NamedDependency
from msgspec import UNSET

from holdfast.http.bodies import EventQuery, Health, PacketQuery, PacketTargetList
from holdfast.http.errors import ProblemError
from holdfast.http.keys import Scope
from holdfast.http.requests import ApiRequest, context_of
from holdfast.http.routes.shared import PATH, LastEventId, Server, TargetPath, number_in, operation
from holdfast.http.streams import MEDIA_TYPE as EVENT_STREAM
from holdfast.http.streams import EventAnswer, EventStream
from holdfast.schemas.node import NodeInfo, OverviewInfo, PacketTarget, SettingsInfo

# Every Prometheus reads this version, whatever it asks for. Litestar adds the charset.
_PROMETHEUS = "text/plain; version=0.0.4"
_PACKET_LOG = "/v1/packet-log"


@get("/v1/node", **operation("node", "Get the node's status", Scope.READ))
async def get_node(server: Server) -> NodeInfo:
    """How full it is, and whether it takes new rooms."""
    return server.health.info()


@get(
    "/v1/events",
    **operation("node", "Follow events", Scope.READ, "throttled", example={"after": 41}),
    media_type=EVENT_STREAM,
)
async def read_events(
    server: Server, request: ApiRequest, params: NamedDependency[EventQuery], last_event_id: LastEventId = None
) -> EventAnswer:
    """Server-sent events: each has an id, and as its data an EventInfo in JSON.

    After a pause, continue from the last id that was received. A "gap" says that the pause was too long, and that some
    events are lost. A comment is sent every 15 seconds when nothing happens. A reader that is too slow is cut off.
    """
    after = None if params.after is UNSET else params.after
    if last_event_id is not None:
        # Browsers reconnect to the same URL, and send here how far they got.
        after = number_in("Last-Event-ID", last_event_id)
    return EventAnswer(EventStream(context_of(request).streams, server.events.read(after)))


@get("/livez", **operation("node", "Check liveness", None))
async def livez() -> Health:
    """Answered as long as the node answers at all. Needs no key."""
    return Health("live")


@get("/readyz", **operation("node", "Check readiness", None, "not_ready"))
async def readyz(server: Server) -> Health:
    """Whether the node is healthy and takes new rooms, and if not, why. Needs no key."""
    node = server.health.info()
    if not (node.is_ready and node.is_healthy):
        reasons = node.reasons or ["the node does not say why"]
        raise ProblemError("not_ready", "; ".join(reasons), reasons=reasons)
    return Health("ready")


@get("/metrics", **operation("node", "Get metrics", Scope.READ), media_type=_PROMETHEUS)
async def read_metrics(server: Server, request: ApiRequest) -> Response[bytes]:
    """Everything that the node counts and measures, in the text format of Prometheus."""
    text = await server.metrics.text(sessions_max=context_of(request).limits.metrics_sessions_max)
    return Response(text, media_type=_PROMETHEUS)


@get("/v1/overview", **operation("node", "Get an overview", Scope.READ))
async def get_overview(server: Server) -> OverviewInfo:
    """Players, sessions and rooms, and what has been counted and measured since the start."""
    return await server.node.overview()


@get("/v1/overview/live", **operation("node", "Follow the overview", Scope.READ, "throttled"), media_type=EVENT_STREAM)
async def watch_overview(server: Server, request: ApiRequest) -> EventAnswer:
    """Server-sent events: now and every second an "overview", whose body is an OverviewInfo; after each, the newest
    events of that second, at most a hundred.

    One stream for everything that a dashboard shows: browsers open at most six connections to a server.
    """
    return EventAnswer(EventStream(context_of(request).streams, server.node.watch(), waits=True))


@get("/v1/settings", **operation("node", "Get the settings", Scope.READ))
async def get_settings(server: Server) -> SettingsInfo:
    """Where clients connect, how they sign in, what is kept, and every limit. No secrets."""
    return server.node.settings()


# Packets are written to the node's log, and never sent over HTTP.


@get(_PACKET_LOG, **operation("node", "List whose packets are logged", Scope.ADMIN))
async def list_packet_targets(server: Server) -> PacketTargetList:
    """Each ends automatically."""
    return PacketTargetList(server.packets.targets())


@put(
    f"{_PACKET_LOG}/{{target:str}}",
    **operation("node", "Log packets", Scope.ADMIN, *PATH, "throttled", example={"for_s": 60}),
    status_code=200,
)
async def log_packets(server: Server, target: TargetPath, params: NamedDependency[PacketQuery]) -> PacketTarget:
    """Every payload of a session or an address goes to the node's log from now on, without its secrets.

    Sending it again starts the time anew.
    """
    return server.packets.follow(target, None if params.for_s is UNSET else params.for_s)


@delete(f"{_PACKET_LOG}/{{target:str}}", **operation("node", "Stop logging packets", Scope.ADMIN, *PATH))
async def stop_logging_packets(server: Server, target: TargetPath) -> None:
    """Before it ends automatically."""
    server.packets.leave(target)


HANDLERS = [
    *(get_node, read_events, livez, readyz, read_metrics),
    *(get_overview, watch_overview, get_settings),
    *(list_packet_targets, log_packets, stop_logging_packets),
]
