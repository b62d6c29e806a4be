"""The dashboard: its page, and the script and the style that the page loads. They hold nothing secret and need no key;
what they show, they ask the API for."""

from typing import Annotated

from litestar import Response, get
from litestar.openapi.spec import Example
from litestar.params import PathParameter

from holdfast.http.context import context_of
from holdfast.http.operations import needs
from holdfast.http.problems import ProblemError
from holdfast.http.requests import ApiRequest
from holdfast.http.site import HEADERS

_TAGS = ["documents"]

AssetPath = Annotated[
    str, PathParameter(description="The name of a file of the page.", examples=[Example(value="dashboard.js")])
]


@get("/", tags=_TAGS, summary="Open the dashboard", media_type="text/html", opt=needs(None))
async def dashboard(request: ApiRequest) -> Response[bytes]:
    """A page for people, which loads nothing from elsewhere. It asks for an API key itself, if one is needed."""
    return Response(context_of(request.app).site.page, media_type="text/html", headers=HEADERS)


@get(
    "/assets/{name:str}",
    tags=_TAGS,
    summary="Get a file of the dashboard",
    media_type="text/javascript",
    opt=needs(None, "not_found"),
)
async def dashboard_file(request: ApiRequest, name: AssetPath) -> Response[bytes]:
    """Its script or its style."""
    file = context_of(request.app).site.files.get(name)
    if file is None:
        raise ProblemError("not_found", "there is no such file")
    return Response(file.content, media_type=file.media_type, headers=HEADERS)
