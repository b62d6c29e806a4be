"""What there is to ask: for programs and for people."""

from typing import Any

from litestar import Response, get

from holdfast.http.context import context_of
from holdfast.http.docs import SECURITY_POLICY, page
from holdfast.http.operations import needs
from holdfast.http.requests import ApiRequest

_TAGS = ["documents"]


@get("/openapi.json", tags=_TAGS, summary="Get this API's OpenAPI document", opt=needs(None))
async def openapi(request: ApiRequest) -> dict[str, Any]:
    """OpenAPI 3.1. Needs no key."""
    return context_of(request.app).document


@get("/docs", tags=_TAGS, summary="Read about this API", media_type="text/html", opt=needs(None))
async def docs(request: ApiRequest) -> Response[str]:
    """A page for people, which loads nothing from elsewhere. Needs no key."""
    text = page(context_of(request.app).document, str(request.base_url).rstrip("/"))
    return Response(text, headers={"Content-Security-Policy": SECURITY_POLICY})
