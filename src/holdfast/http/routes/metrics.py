"""The node in numbers, for Prometheus."""

from litestar import Response, get

from holdfast.http.context import context_of
from holdfast.http.keys import Scope
from holdfast.http.operations import Node, needs
from holdfast.http.requests import ApiRequest

# Every Prometheus reads this, whatever else it asks for. Litestar adds the charset.
_MEDIA_TYPE = "text/plain; version=0.0.4"


@get("/metrics", tags=["node"], summary="Measure the node", media_type=_MEDIA_TYPE, opt=needs(Scope.READ))
async def read_metrics(backend: Node, request: ApiRequest) -> Response[bytes]:
    """Everything that the node counts and measures, in the text format of Prometheus."""
    context = context_of(request.app)
    text = await backend.metrics(sessions_max=context.limits.metrics_sessions_max)
    return Response(text, media_type=_MEDIA_TYPE)
