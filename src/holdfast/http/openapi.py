"""The OpenAPI 3.1 document, drawn from the routes and from the structs that they take and answer.

Litestar draws one too, but its schemas say less than msgspec checks: limits within lists and options, and that unknown
fields are refused. These are msgspec's own.
"""

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from litestar import Litestar, Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import HeaderParameter, PathParameter
from litestar.routes import HTTPRoute
from msgspec import Struct

from holdfast.http.events import MEDIA_TYPE as EVENT_STREAM
from holdfast.http.keys import Scope
from holdfast.http.problems import KINDS, MEDIA_TYPE, Problem, problem
from holdfast.http.wording import field_sentences
from holdfast.schemas.node import EventInfo

TAGS = {
    "rooms": "Running games: find, make, look at, change and end them.",
    "seats": "Places in a room: reserved, taken, or held for a player who dropped.",
    "sessions": "A player's presence on this node, one for each device.",
    "players": "Who is here.",
    "bans": "Who is not welcome: players, and ranges of addresses.",
    "accounts": "Who signs in with a name and a password.",
    "tickets": "Sign players in whom a backend knows.",
    "placements": "Have a room made where it is best for its players.",
    "node": "How this node is, and what happens on it.",
    "documents": "What there is to ask.",
}
"""The groups of routes, in the order in which they are shown."""

_ABOUT = """\
Rooms, seats, sessions, players and placements of one Holdfast node, for backends and operators.

Bodies and answers are JSON; in an answer every field is there. Times are seconds since 1970, durations are in seconds \
(_s) or milliseconds (_ms). What is not understood is refused: unknown fields and parameters too. Errors are problem \
documents (RFC 9457); decide by their code.
"""
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_REFERENCE = "#/components/schemas/{name}"
_SCALARS = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]
# What `Any` stands for in a request: the values of a room's properties.
_PROPERTY = {
    "anyOf": [*_SCALARS, {"type": "array", "items": {"anyOf": _SCALARS}}],
    "description": "Text, a number, true or false, or a list of these.",
}
# One event of a stream.
_EVENT = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"$ref": _REFERENCE.format(name=EventInfo.__name__)},
        },
    },
}
_DONE = {200: "Done.", 201: "Made.", 202: "Started.", 204: "Done; there is nothing to say."}


def document(app: Litestar, *, has_keys: bool) -> dict[str, Any]:
    """What can be asked of this app."""
    handlers = sorted(_handlers(app), key=lambda found: (found[0], _METHODS.index(found[1])))
    paths: dict[str, dict[str, Any]] = {}
    for path, method, handler in handlers:
        paths.setdefault(path, {})[method.lower()] = _operation(handler, has_keys=has_keys)
    components: dict[str, Any] = {"schemas": _schemas([handler for _, _, handler in handlers])}
    if has_keys:
        scheme = {"type": "http", "scheme": "bearer", "description": "An API key, sent as: Authorization: Bearer <key>"}
        components["securitySchemes"] = {"key": scheme}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": "1", "description": _ABOUT},
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": sentence} for name, sentence in TAGS.items()],
        "paths": paths,
        "components": components,
    }


def _handlers(app: Litestar) -> Iterator[tuple[str, str, HTTPRouteHandler]]:
    for route in app.routes:
        if isinstance(route, HTTPRoute):
            for handler in route.route_handlers:
                # Litestar adds OPTIONS by itself.
                yield from ((route.path_format, method, handler) for method in handler.http_methods & set(_METHODS))


def _operation(handler: HTTPRouteHandler, *, has_keys: bool) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": handler.fn.__name__,
        "summary": handler.summary,
        "description": inspect.getdoc(handler.fn) or "",
        "tags": list(handler.tags or ()),
        "parameters": list(_parameters(handler)),
        "responses": {str(handler.status_code): _success(handler), **_refusals(handler)},
    }
    body = handler.parsed_data_field
    if body is not None:
        content: dict[str, Any] = {"schema": _reference(body.annotation)}
        content["examples"] = {"example": {"value": handler.opt["example"]}}
        operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    scope: Scope | None = handler.opt["scope"]
    if has_keys:
        operation["security"] = [{"key": [scope.value]}] if scope is not None else []
    return operation


def _parameters(handler: HTTPRouteHandler) -> Iterator[dict[str, Any]]:
    for name, field in handler.parsed_fn_signature.parameters.items():
        match field.kwarg_definition:
            case PathParameter(description=description, examples=[example]):
                schema = {"type": "string", "minLength": 1}
                parameter = {"name": name, "in": "path", "required": True, "description": description}
                yield {**parameter, "schema": schema, "example": example.value}
            case HeaderParameter(name=header, description=description, schema_extra=extra):
                schema = {"type": "string", **(extra or {})}
                yield {"name": header, "in": "header", "required": False, "description": description, "schema": schema}
            case _:
                pass
    if asked := handler.parsed_fn_signature.parameters.get("asked"):
        struct = _components([asked.annotation])[asked.annotation.__name__]
        for name, schema in struct["properties"].items():
            description = schema.pop("description", "")
            parameter = {"name": name, "in": "query", "required": False, "description": description}
            parameter["schema"] = _without_null(schema)
            if name in (handler.opt["example"] or {}):
                parameter["example"] = handler.opt["example"][name]
            yield parameter


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Null cannot be sent in a query: such a parameter is left out."""
    match schema:
        case {"anyOf": [option, {"type": "null"}]}:
            assert isinstance(option, dict)
            return option
        case _:
            return schema


def _success(handler: HTTPRouteHandler) -> dict[str, Any]:
    response: dict[str, Any] = {"description": _DONE[handler.status_code]}
    if headers := {
        header.name: {"description": header.description, "schema": {"type": "string"}}
        for header in sorted(handler.resolve_response_headers(), key=lambda header: header.name)
    }:
        response["headers"] = headers
    answer = _answer_of(handler)
    if answer is not None:
        response["content"] = {"application/json": {"schema": _reference(answer)}}
    elif handler.media_type.startswith("text/"):
        schema = _EVENT if handler.media_type == EVENT_STREAM else {"type": "string"}
        response["content"] = {str(handler.media_type): {"schema": schema}}
    elif handler.parsed_fn_signature.return_type.annotation is not type(None):
        response["content"] = {"application/json": {"schema": {"type": "object"}}}
    return response


def _answer_of(handler: HTTPRouteHandler) -> type[Struct] | None:
    answer = handler.parsed_fn_signature.return_type
    if answer.is_subclass_of(Response) and answer.inner_types:
        answer = answer.inner_types[0]
    return answer.annotation if answer.is_subclass_of(Struct) else None


def _refusals(handler: HTTPRouteHandler) -> dict[str, Any]:
    codes = {"invalid", "not_allowed", "internal", *handler.opt["refuses"]}
    if handler.opt["scope"] is not None:
        codes.add("not_authenticated")
    if handler.parsed_data_field is not None:
        codes |= {"too_large", "unsupported_media_type"}
    if any(isinstance(field.kwarg_definition, PathParameter) for field in _fields(handler)):
        codes.add("path_too_long")
    by_status: dict[str, list[str]] = {}
    for code, kind in KINDS.items():
        if code in codes:
            by_status.setdefault(str(kind.status), []).append(code)
    return {status: _refusal(together) for status, together in by_status.items()}


def _fields(handler: HTTPRouteHandler) -> Iterable[Any]:
    return handler.parsed_fn_signature.parameters.values()


def _refusal(codes: list[str]) -> dict[str, Any]:
    lines = [f"`{code}`: {KINDS[code].title}." for code in codes]
    examples = {code: {"value": msgspec.to_builtins(problem(code, "a sentence for people"))} for code in codes}
    content = {"schema": _reference(Problem), "examples": examples}
    return {"description": "\n".join(lines), "content": {MEDIA_TYPE: content}}


def _reference(struct: type[Struct]) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(name=struct.__name__)}


def _schemas(handlers: list[HTTPRouteHandler]) -> dict[str, Any]:
    requests = _components(handler.parsed_data_field.annotation for handler in handlers if handler.parsed_data_field)
    for schema in requests.values():
        for field in schema["properties"].values():
            if "propertyNames" in field:
                field.setdefault("additionalProperties", _PROPERTY)
    answers = _components([EventInfo, *(answer for handler in handlers if (answer := _answer_of(handler)))])
    for schema in answers.values():
        # Whole structs are answered.
        schema["required"] = list(schema["properties"])
        for field in schema["properties"].values():
            field.pop("default", None)
    return dict(sorted((_components([Problem]) | requests | answers).items()))


def _components(structs: Iterable[type[Struct]]) -> dict[str, Any]:
    """The schemas of these structs and of those within them, with what their source says of each field."""
    found = set(structs)
    _, schemas = msgspec.json.schema_components(found, ref_template=_REFERENCE)
    for struct in _with_parts(found):
        properties = schemas[struct.__name__]["properties"]
        for name, sentence in field_sentences(struct).items():
            properties[_encoded(struct, name)]["description"] = sentence
    return schemas


def _encoded(struct: type[Struct], name: str) -> str:
    return struct.__struct_encode_fields__[struct.__struct_fields__.index(name)]


def _with_parts(structs: set[type[Struct]]) -> set[type[Struct]]:
    """These structs and the structs in their fields."""
    found: set[type[Struct]] = set()
    waiting = list(structs)
    while waiting:
        struct = waiting.pop()
        if struct not in found:
            found.add(struct)
            for field in msgspec.structs.fields(struct):
                waiting += _structs_in(field.type)
    return found


def _structs_in(annotation: Any) -> Iterator[type[Struct]]:
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _structs_in(argument)
