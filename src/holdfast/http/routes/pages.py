"""Pages and documents: the OpenAPI document, the documentation, and the dashboard. They hold no secrets and need no
key; the dashboard asks the API for what it shows."""

import asyncio
from typing import Any

from litestar import Response, get

from holdfast.http.docs import SECURITY_POLICY
from holdfast.http.errors import ProblemError
from holdfast.http.requests import ApiRequest, context_of
from holdfast.http.routes.shared import PATH, AssetPath, operation
from holdfast.http.static import HEADERS


@get("/openapi.json", **operation("documents", "Get the OpenAPI document", None))
async def openapi(request: ApiRequest) -> Response[Any]:
    """OpenAPI 3.1. Needs no key."""
    # In a thread: it is created for the first reader, who needs no key, and must not block the event loop.
    text = await asyncio.to_thread(context_of(request).document)
    return Response(text, media_type="application/json")


@get("/docs", **operation("documents", "Read the documentation", None), media_type="text/html")
async def docs(request: ApiRequest) -> Response[str]:
    """A page for people, which loads nothing from elsewhere. Needs no key."""
    # Not the Host header, which anybody may set.
    host, port = request.scope["server"] or ("localhost", None)
    address = f"[{host}]" if ":" in host else host
    base_url = f"http://{address}:{port}" if port else f"http://{address}"
    text = await asyncio.to_thread(context_of(request).docs, base_url)
    return Response(text, headers={"Content-Security-Policy": SECURITY_POLICY})


@get("/", **operation("documents", "Open the dashboard", None), media_type="text/html")
async def dashboard(request: ApiRequest) -> Response[bytes]:
    """A page for people, which loads nothing from elsewhere. It asks for an API key itself, if one is needed."""
    return Response(context_of(request).site.page, media_type="text/html", headers=HEADERS)


@get(
    "/assets/{name:str}",
    **operation("documents", "Get a file of the dashboard", None, *PATH),
    media_type="text/javascript",
)
async def dashboard_file(request: ApiRequest, name: AssetPath) -> Response[bytes]:
    """Its script or its style."""
    file = context_of(request).site.files.get(name)
    if file is None:
        raise ProblemError("not_found", "there is no such file")
    return Response(file.content, media_type=file.media_type, headers=HEADERS)


HANDLERS = [openapi, docs, dashboard, dashboard_file]
