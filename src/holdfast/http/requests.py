"""What was asked, taken apart: bodies and query strings become structs, strictly, or a problem that says where."""

from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec
from litestar import Request
from litestar.exceptions import InternalServerException
from litestar.exceptions.http_exceptions import RequestEntityTooLarge
from msgspec import Struct
from msgspec.inspect import ListType, StructType, type_info

from holdfast.http.problems import Mistaken, ProblemError, mistaken

_JSON = "application/json"


class ApiRequest(Request[Any, Any, Any]):
    """A request whose body is JSON, and exactly what its handler's `data` says: "5" is not 5."""

    async def body(self) -> bytes:
        """The body, if it is one that we take."""
        if self.content_type[0].lower() != _JSON:
            raise ProblemError("unsupported_media_type", f"send JSON, and say so with Content-Type: {_JSON}")
        try:
            body = await super().body()
        except RequestEntityTooLarge:
            limit = self.route_handler.resolve_request_max_body_size()
            raise ProblemError("too_large", f"a body has at most {limit} bytes") from None
        except InternalServerException:
            # Nobody is there to read this, and it is no bug either.
            raise Mistaken("body", "$", "it ended too early") from None
        if not body:
            raise Mistaken("body", "$", "it is empty; send a JSON object")
        return body

    async def json(self) -> Any:
        """The body as the struct that the handler asks for."""
        field = self.route_handler.parsed_data_field
        assert field is not None
        try:
            return msgspec.json.decode(await self.body(), type=field.annotation)
        except (ValueError, RecursionError) as error:
            raise mistaken("body", error) from None


async def asked(request: ApiRequest) -> Any:
    """The query string as the struct that the handler's `asked` says; it is how handlers take parameters."""
    wanted: type[Struct] = request.route_handler.parsed_fn_signature.parameters["asked"].annotation
    values: dict[str, Any] = {}
    for name, value in _parameters(request):
        if name in _lists(wanted):
            values.setdefault(name, []).append(value)
        elif name in values:
            raise Mistaken("query", name, "it is given twice")
        else:
            values[name] = value
    if unknown := values.keys() - set(wanted.__struct_fields__):
        raise Mistaken("query", min(unknown), f"unknown; there is {', '.join(wanted.__struct_fields__)}")
    try:
        return msgspec.convert(values, wanted, strict=False)
    except msgspec.ValidationError as error:
        raise mistaken("query", error) from None


def check_no_query(request: Request[Any, Any, Any]) -> None:
    """Refuse parameters where there are none: who gives them expects them to matter."""
    for name, _ in _parameters(request):
        raise Mistaken("query", name, "unknown; there are no parameters here")


def _parameters(request: Request[Any, Any, Any]) -> list[tuple[str, str]]:
    query = request.scope["query_string"].decode("ascii", "replace")
    return parse_qsl(query, keep_blank_values=True)


@cache
def _lists(wanted: type[Struct]) -> frozenset[str]:
    """The parameters that may be repeated."""
    info = type_info(wanted)
    assert isinstance(info, StructType)
    return frozenset(field.name for field in info.fields if isinstance(field.type, ListType))


def escape_path(raw: bytes) -> str:
    """A path as the router can split it: decoded, but for the slashes within ids."""
    segments = raw.decode("ascii", "replace").split("/")
    return "/".join(unquote(segment).replace("%", "%25").replace("/", "%2F") for segment in segments)


def unescape(value: str) -> str:
    """An id as it was meant, of a path that `escape_path` wrote."""
    return value.replace("%2F", "/").replace("%25", "%")
