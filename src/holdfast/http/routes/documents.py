"""What there is to ask: for programs and for people."""

from litestar import Response, get

from holdfast.http.context import context_of
from holdfast.http.docs import SECURITY_POLICY
from holdfast.http.operations import needs
from holdfast.http.requests import ApiRequest

_TAGS = ["documents"]


@get("/openapi.json", tags=_TAGS, summary="Get this API's OpenAPI document", opt=needs(None))
async def openapi(request: ApiRequest) -> Response[bytes]:
    """OpenAPI 3.1. Needs no key."""
    return Response(context_of(request.app).document_json, media_type="application/json")


@get("/docs", tags=_TAGS, summary="Read about this API", media_type="text/html", opt=needs(None))
async def docs(request: ApiRequest) -> Response[str]:
    """A page for people, which loads nothing from elsewhere. Needs no key."""
    # Not what the Host header says: anybody may write that.
    host, port = request.scope["server"] or ("localhost", None)
    address = f"[{host}]" if ":" in host else host
    text = context_of(request.app).page(f"http://{address}:{port}" if port else f"http://{address}")
    return Response(text, headers={"Content-Security-Policy": SECURITY_POLICY})
