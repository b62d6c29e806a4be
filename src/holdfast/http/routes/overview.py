"""The node at a glance: its numbers, once or every second, and how it was set up."""

from litestar import get

from holdfast.http.context import context_of
from holdfast.http.events import MEDIA_TYPE, EventAnswer, EventStream
from holdfast.http.keys import Scope
from holdfast.http.operations import Node, needs
from holdfast.http.requests import ApiRequest
from holdfast.schemas.node import OverviewInfo, SettingsInfo

_TAGS = ["node"]


@get("/v1/overview", tags=_TAGS, summary="See the node at a glance", opt=needs(Scope.READ))
async def get_overview(backend: Node) -> OverviewInfo:
    """Who is here, and what has been counted and measured since the start."""
    return await backend.overview()


@get(
    "/v1/overview/live",
    tags=_TAGS,
    summary="Watch the node",
    media_type=MEDIA_TYPE,
    opt=needs(Scope.READ, "throttled"),
)
async def watch_overview(backend: Node, request: ApiRequest) -> EventAnswer:
    """Server-sent events: now and every second an "overview", whose body is an OverviewInfo; after each, the newest
    events of that second, at most a hundred.

    One stream for all that a dashboard shows: browsers open six connections to a server, and not more.
    """
    return EventAnswer(EventStream(context_of(request.app).streams, backend.overviews(), waits=True))


@get("/v1/settings", tags=_TAGS, summary="See the settings in force", opt=needs(Scope.READ))
async def get_settings(backend: Node) -> SettingsInfo:
    """Where clients connect, how they sign in, what is kept, and every limit. No secrets."""
    return backend.settings()
