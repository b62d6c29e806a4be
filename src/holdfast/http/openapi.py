"""The OpenAPI 3.1 document: Litestar describes the routes, msgspec the structs.

Litestar's own schemas of structs say less than msgspec checks (limits within lists and options, unknown fields), and it
cannot take a query string apart into a struct: so schemas and query parameters are msgspec's.
"""

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import msgspec
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme, Tag
from msgspec import Struct

from holdfast.http.errors import Problem
from holdfast.http.responses import EVENT_STREAM
from holdfast.schemas.node import EventInfo

TAGS = {
    "nodes": "The nodes of a cluster: list and drain them, and move rooms between them.",
    "rooms": "Running games: find, create, read, change and end them.",
    "seats": "Places in a room: reserved, taken, or held for a player who dropped.",
    "sessions": "A player's presence on this node, one for each device.",
    "players": "Everybody with a session, a seat or a reservation.",
    "bans": "Banned players and ranges of addresses.",
    "accounts": "Names and passwords to sign in with.",
    "tickets": "Sign in players of a backend.",
    "recordings": "What happened in a room, turn by turn, and new rooms from any turn of it.",
    "placements": "Create a room on the best node for its players.",
    "node": "The node's health, numbers and events.",
    "documents": "Pages and documents.",
}
"""The groups of routes, in the order in which they are shown."""

_ABOUT = """\
Rooms, seats, sessions, players and placements of one Holdfast node, for backends and operators.

Bodies and responses are JSON; a response has every field. Times are seconds since 1970, durations are in seconds (_s) \
or milliseconds (_ms). Unknown fields and parameters are refused. Errors are problem documents (RFC 9457); decide by \
their code.
"""
_REFERENCE = "#/components/schemas/{name}"
_SCALARS = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]
# What `Any` stands for in a request: the values of a room's properties.
_PROPERTY = {
    "anyOf": [*_SCALARS, {"type": "array", "items": {"anyOf": _SCALARS}}],
    "description": "Text, a number, true or false, or a list of these.",
}
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
_KEY = SecurityScheme(type="http", scheme="bearer", description="An API key, sent as: Authorization: Bearer <key>")


def openapi_config(*, has_keys: bool) -> OpenAPIConfig:
    """How Litestar describes the routes."""
    return OpenAPIConfig(
        title="Holdfast",
        version="1",
        description=_ABOUT,
        components=Components(security_schemes={"key": _KEY} if has_keys else None),
        operation_id_creator=lambda handler, _method, _path: handler.handler_name,
        tags=[Tag(name=name, description=sentence) for name, sentence in TAGS.items()],
        use_handler_docstrings=True,
    )


def complete(document: dict[str, Any], handlers: Sequence[HTTPRouteHandler], *, has_keys: bool) -> dict[str, Any]:
    """Litestar's document of these routes, completed."""
    by_name = {handler.handler_name: handler for handler in handlers}
    for operations in document["paths"].values():
        for operation in operations.values():
            _complete(operation, by_name[operation["operationId"]], has_keys=has_keys)
    schemas = _schemas(handlers, names=document["components"]["schemas"])
    return {
        **document,
        "paths": dict(sorted(document["paths"].items())),
        "components": {**document["components"], "schemas": schemas},
    }


def _complete(operation: dict[str, Any], handler: HTTPRouteHandler, *, has_keys: bool) -> None:
    example = handler.opt["example"] or {}
    parameters = operation.setdefault("parameters", [])
    for parameter in parameters:
        parameter["schema"] = _without_null(parameter["schema"])
    if params := handler.parsed_fn_signature.parameters.get("params"):
        parameters += _query_parameters(params.annotation, example)
    if "requestBody" in operation:
        operation["requestBody"]["content"]["application/json"]["examples"] = {"example": {"value": example}}
    for response in operation["responses"].values():
        for media_type, content in response.get("content", {}).items():
            if media_type == EVENT_STREAM:
                content["schema"] = _EVENT
            for each in content.get("examples", {}).values():
                # Litestar repeats the name of an example inside of it, which OpenAPI does not allow.
                each.pop("id", None)
        for header in response.get("headers", {}).values():
            header["schema"] = {"type": "string"}
    if not has_keys:
        operation.pop("security", None)


def _query_parameters(struct: type[Struct], example: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name, schema in _components([struct])[struct.__name__]["properties"].items():
        parameter = {"name": name, "in": "query", "required": False, "description": schema.pop("description", "")}
        parameter["schema"] = _without_null(schema)
        if name in example:
            parameter["examples"] = {"example": {"value": example[name]}}
        yield parameter


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Null cannot be sent in a query or a header: such a parameter is left out."""
    options = schema.get("anyOf") or schema.get("oneOf") or []
    if {"type": "null"} not in options:
        return schema
    option: dict[str, Any]
    [option] = [option for option in options if option != {"type": "null"}]
    return option | {name: value for name, value in schema.items() if name not in {"anyOf", "oneOf", "default"}}


def _schemas(handlers: Iterable[HTTPRouteHandler], names: Iterable[str]) -> dict[str, Any]:
    """msgspec's schemas of the structs that Litestar refers to by these names."""
    requests = _components(handler.parsed_data_field.annotation for handler in handlers if handler.parsed_data_field)
    for schema in requests.values():
        for field in schema["properties"].values():
            if "propertyNames" in field:
                field.setdefault("additionalProperties", _PROPERTY)
    returned = [handler.parsed_fn_signature.return_type for handler in handlers]
    fields = [field for answer in returned for field in (answer, *(answer.inner_types or ()))]
    answers = _components([EventInfo, *(field.annotation for field in fields if field.is_subclass_of(Struct))])
    for schema in answers.values():
        # Responses have every field, except for problem documents.
        schema["required"] = list(schema["properties"])
        for field in schema["properties"].values():
            field.pop("default", None)
    found = _components([Problem]) | requests | answers
    missing = set(names) - found.keys()
    assert not missing, f"structs without a schema: {missing}"
    return dict(sorted(found.items()))


def _components(structs: Iterable[type[Struct]]) -> dict[str, Any]:
    """The schemas of these structs and of those within them, with the docstrings of their fields."""
    waiting = list(structs)
    _, schemas = msgspec.json.schema_components(waiting, ref_template=_REFERENCE)
    done: set[type[Struct]] = set()
    while waiting:
        struct = waiting.pop()
        if struct in done:
            continue
        done.add(struct)
        properties, docs = schemas[struct.__name__]["properties"], field_docs(struct)
        for field in msgspec.structs.fields(struct):
            waiting += _structs_in(field.type)
            if field.name in docs:
                properties[field.encode_name]["description"] = docs[field.name]
    return schemas


def _structs_in(annotation: Any) -> Iterator[type[Struct]]:
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _structs_in(argument)


def field_docs(struct: type[Struct]) -> dict[str, str]:
    """The docstring under each field; none where there is no source, as in a frozen program."""
    sentences: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        sentences |= _docs_in(base.__module__).get(base.__name__, {})
    return sentences


@cache
def _docs_in(module: str) -> dict[str, dict[str, str]]:
    """The docstrings of the fields of each class in a module."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError):
        return {}
    found: dict[str, dict[str, str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            sentences = found[node.name] = {}
            for pair in pairwise(node.body):
                match pair:
                    case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                        sentences[name] = inspect.cleandoc(text)
                    case _:
                        pass
    return found
