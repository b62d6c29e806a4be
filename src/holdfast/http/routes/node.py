"""The node itself: its health, numbers and settings, its events, its metrics, the packet log, and pages for people."""

import asyncio
from typing import Any

from litestar import Response, delete, get, post, put
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec import UNSET

from holdfast.http.api import Scope
from holdfast.http.bodies import EventQuery, Health, NewNodeBroadcast, NodeQuery, PacketQuery, PacketTargetList
from holdfast.http.docs import SECURITY_POLICY
from holdfast.http.errors import ProblemError
from holdfast.http.requests import ApiRequest, caller_of, context_of
from holdfast.http.responses import EVENT_STREAM, EventAnswer, EventStream
from holdfast.http.routes.shared import AssetPath, LastEventId, Server, TargetPath, position_in, route
from holdfast.http.static import HEADERS
from holdfast.schemas.node import NodeBroadcastInfo, NodeInfo, OverviewInfo, PacketTarget, SettingsInfo

# Every Prometheus reads this version, whatever it asks for. Litestar adds the charset.
_PROMETHEUS = "text/plain; version=0.0.4"
_PACKET_LOG = "/v1/packet-log"


@route(get, "/v1/node", "node", "Get the node's status", Scope.READ)
async def get_node(server: Server) -> NodeInfo:
    """How full it is, and whether it takes new rooms."""
    return server.health.info()


@route(
    *(post, "/v1/broadcast", "node", "Send a message to everybody", Scope.ADMIN),
    *("not_found", "throttled"),
    example={"text": "The server restarts in 5 minutes."},
    status_code=200,
)
async def broadcast_to_node(server: Server, request: ApiRequest, data: JSONBody[NewNodeBroadcast]) -> NodeBroadcastInfo:
    """To every session on all nodes, connected or held, with or without a seat: reliably, and beside the messages of
    rooms.

    The game's clients hear it if they read the messages of their session.
    """
    return await server.everywhere.broadcast(
        text=data.text,
        message_type=data.type,
        body=data.body,
        role=data.role,
        kind=data.kind,
        by=caller_of(request),
    )


@route(
    *(get, "/v1/events", "node", "Follow events", Scope.READ, "throttled"),
    example={"after": 41},
    media_type=EVENT_STREAM,
)
async def read_events(
    server: Server, request: ApiRequest, params: NamedDependency[EventQuery], last_event_id: LastEventId = None
) -> EventAnswer:
    """Server-sent events of all nodes: each has an id, and as its data an EventInfo in JSON, with its node.

    After a pause, continue from the last id that was received, on any node. A "gap" says that some events are lost,
    because the pause was too long or a node has gone; a "missing" names a node that does not answer. A comment is sent
    every 15 seconds when nothing happens. A reader that is too slow is cut off.
    """
    after = "" if params.after is UNSET else params.after
    if last_event_id is not None:
        # Browsers reconnect to the same URL, and send here how far they got.
        after = position_in("Last-Event-ID", last_event_id)
    return EventAnswer(EventStream(context_of(request).streams, server.events.read(after)))


@route(get, "/livez", "node", "Check liveness", None)
async def livez() -> Health:
    """Answered as long as the node answers at all. Needs no key."""
    return Health("live")


@route(get, "/readyz", "node", "Check readiness", None, "not_ready")
async def readyz(server: Server) -> Health:
    """Whether the node is healthy and takes new rooms, and if not, why. Needs no key."""
    node = server.health.info()
    if not (node.is_ready and node.is_healthy):
        reasons = node.reasons or ["the node does not say why"]
        raise ProblemError("not_ready", "; ".join(reasons), reasons=reasons)
    return Health("ready")


@route(get, "/metrics", "node", "Get metrics", Scope.READ, media_type=_PROMETHEUS)
async def read_metrics(server: Server, request: ApiRequest) -> Response[bytes]:
    """Everything that the node counts and measures, in the text format of Prometheus."""
    text = await server.metrics.text(sessions_max=context_of(request).limits.metrics_sessions_max)
    return Response(text, media_type=_PROMETHEUS)


@route(get, "/v1/overview", "node", "Get an overview", Scope.READ, "not_found", "throttled")
async def get_overview(server: Server, params: NamedDependency[NodeQuery]) -> OverviewInfo:
    """Players, sessions and rooms, and what has been counted and measured since the start: of all nodes together, and
    the most important numbers of each."""
    return await (server.overview.of(params.node) if params.node else server.overview.overview())


@route(get, "/v1/overview/live", "node", "Follow the overview", Scope.READ, "throttled", media_type=EVENT_STREAM)
async def watch_overview(server: Server, request: ApiRequest) -> EventAnswer:
    """Server-sent events: now and every second an "overview", whose body is an OverviewInfo; after each, the newest
    events of that second, at most a hundred. Both are of all nodes.

    One stream for everything that a dashboard shows: browsers open at most six connections to a server.
    """
    return EventAnswer(EventStream(context_of(request).streams, server.overview.watch(), waits=True))


@route(get, "/v1/settings", "node", "Get the settings", Scope.READ, "not_found", "throttled")
async def get_settings(server: Server, params: NamedDependency[NodeQuery]) -> SettingsInfo:
    """Where clients connect, how they sign in, what is kept, and every limit: of the node that answers, or of another
    one. No secrets."""
    return await server.overview.settings_of(params.node)


# Packets are written to the node's log, and never sent over HTTP.


@route(get, _PACKET_LOG, "node", "List whose packets are logged", Scope.ADMIN)
async def list_packet_targets(server: Server) -> PacketTargetList:
    """Each ends automatically."""
    return PacketTargetList(server.packets.targets())


@route(
    *(put, f"{_PACKET_LOG}/{{target:str}}", "node", "Log packets", Scope.ADMIN, "throttled"),
    example={"for_s": 60},
    status_code=200,
)
async def log_packets(server: Server, target: TargetPath, params: NamedDependency[PacketQuery]) -> PacketTarget:
    """Every payload of a session or an address goes to the node's log from now on, without its secrets.

    Sending it again starts the time anew.
    """
    return server.packets.follow(target, None if params.for_s is UNSET else params.for_s)


@route(delete, f"{_PACKET_LOG}/{{target:str}}", "node", "Stop logging packets", Scope.ADMIN)
async def stop_logging_packets(server: Server, target: TargetPath) -> None:
    """Before it ends automatically."""
    server.packets.leave(target)


# Pages and documents hold no secrets and need no key; the dashboard asks the API for what it shows.


@route(get, "/openapi.json", "documents", "Get the OpenAPI document", None)
async def openapi(request: ApiRequest) -> Response[Any]:
    """OpenAPI 3.1. Needs no key."""
    # In a thread: it is created for the first reader, who needs no key, and must not block the event loop.
    text = await asyncio.to_thread(context_of(request).document)
    return Response(text, media_type="application/json")


@route(get, "/docs", "documents", "Read the documentation", None, media_type="text/html")
async def docs(request: ApiRequest) -> Response[str]:
    """A page for people, which loads nothing from elsewhere. Needs no key."""
    # Not the Host header, which anybody may set.
    host, port = request.scope["server"] or ("localhost", None)
    address = f"[{host}]" if ":" in host else host
    base_url = f"{request.scope['scheme']}://{address}" + (f":{port}" if port else "")
    text = await asyncio.to_thread(context_of(request).docs, base_url)
    return Response(text, headers={"Content-Security-Policy": SECURITY_POLICY})


@route(get, "/", "documents", "Open the dashboard", None, media_type="text/html")
async def dashboard(request: ApiRequest) -> Response[bytes]:
    """A page for people, which loads nothing from elsewhere. It asks for an API key itself, if one is needed."""
    return Response(context_of(request).site.page, media_type="text/html", headers=HEADERS)


@route(get, "/assets/{name:str}", "documents", "Get a file of the dashboard", None, media_type="text/javascript")
async def dashboard_file(request: ApiRequest, name: AssetPath) -> Response[bytes]:
    """Its script or its style."""
    file = context_of(request).site.files.get(name)
    if file is None:
        raise ProblemError("not_found", "there is no such file")
    return Response(file.content, media_type=file.media_type, headers=HEADERS)
