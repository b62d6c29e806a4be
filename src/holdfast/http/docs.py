"""The page at /docs: the OpenAPI document for people, as plain HTML that loads nothing from anywhere."""

import json
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from shlex import quote
from string import Template
from typing import Any
from urllib.parse import urlencode

from holdfast.http.errors import KINDS

SECURITY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'"
)

_TEMPLATE = Template(Path(__file__).with_name("docs.html").read_text("utf-8"))
_NO_KEYS = "No API key is set: only programs on this machine have access, and they may do everything."
_KEYS = (
    "An API key is required, sent as Authorization: Bearer <key>. Its scope is read, rooms (and read), "
    "or admin (everything)."
)


def page(document: dict[str, Any], base_url: str) -> str:
    """The whole page, with examples that can be pasted into a shell."""
    return _TEMPLATE.substitute(
        title=_text(document["info"]["title"]),
        about=_text(document["info"]["description"]),
        keys=_text(_KEYS if _has_keys(document) else _NO_KEYS),
        contents="".join(_contents(document)),
        groups="".join(_groups(document, base_url)),
        structs="".join(_structs(document)),
        problems="".join(_problems()),
    )


def _has_keys(document: dict[str, Any]) -> bool:
    return "securitySchemes" in document["components"]


def _operations(document: dict[str, Any], tag: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if tag in operation["tags"]:
                yield method, path, operation


def _contents(document: dict[str, Any]) -> Iterator[str]:
    for tag in document["tags"]:
        name = tag["name"]
        links = (
            f'<li><a href="#{operation["operationId"]}">{_text(operation["summary"])}</a></li>'
            for _, _, operation in _operations(document, name)
        )
        yield f'<a href="#{name}"><strong>{name}</strong></a><ul>{"".join(links)}</ul>\n'
    yield '<a href="#structs"><strong>structs</strong></a>\n<a href="#problems"><strong>problems</strong></a>\n'


def _groups(document: dict[str, Any], base_url: str) -> Iterator[str]:
    for tag in document["tags"]:
        yield f'<h2 id="{tag["name"]}">{_text(tag["name"])}</h2>\n<p>{_text(tag["description"])}</p>\n'
        for method, path, operation in _operations(document, tag["name"]):
            yield _article(method, path, operation, _curl(method, base_url + path, operation))


def _article(method: str, path: str, operation: dict[str, Any], example: str) -> str:
    scopes = [scope for requirement in operation.get("security", ()) for scope in requirement["key"]]
    parts = [
        f'<article id="{operation["operationId"]}"><h3>{_text(operation["summary"])}</h3>',
        f'<div class="route"><code><span class="method {method}">{method.upper()}</span> {_text(path)}</code>',
        *(f' <span class="scope">needs a key with the scope {_text(scope)}</span>' for scope in scopes),
        f"</div><p>{_text(operation['description'])}</p>",
        _table("Parameters", map(_parameter, operation["parameters"])),
        *_body(operation),
        _table("Answers", (_response(status, answer) for status, answer in operation["responses"].items())),
        f"<h4>Example</h4><pre>{_text(example)}</pre></article>\n",
    ]
    return "".join(parts)


def _parameter(parameter: dict[str, Any]) -> tuple[str, str, str]:
    where = f"{parameter['in']}{', required' if parameter['required'] else ''}"
    what = f"{_text(parameter['description'])} {_kind(parameter['schema'])}"
    return f"<code>{_text(parameter['name'])}</code>", f'<span class="dim">{where}</span>', what


def _body(operation: dict[str, Any]) -> Iterator[str]:
    if "requestBody" in operation:
        for media_type, content in operation["requestBody"]["content"].items():
            yield f"<h4>Body</h4><p>{_kind(content['schema'])}, as {_text(media_type)}</p>"


def _response(status: str, response: dict[str, Any]) -> tuple[str, str]:
    what = [_text(response["description"])]
    for media_type, content in response.get("content", {}).items():
        if "examples" not in content:
            what.append(f" {_kind(content['schema'])}, as {_text(media_type)}.")
    for name, header in response.get("headers", {}).items():
        what.append(f" <code>{_text(name)}</code>: {_text(header['description'])}")
    text = "".join(what)
    for code in KINDS:
        text = text.replace(f"`{code}`", f'<a href="#problem-{code}"><code>{code}</code></a>')
    return f"<code>{status}</code>", text.replace("\n", "<br>")


def _structs(document: dict[str, Any]) -> Iterator[str]:
    for name, schema in document["components"]["schemas"].items():
        required = schema.get("required", ())
        rows = (
            (
                f"<code>{_text(field)}</code>",
                f'<span class="dim">{"" if field in required else "optional"}</span>',
                f"{_text(inner.get('description', ''))} {_kind(inner)}",
            )
            for field, inner in schema["properties"].items()
        )
        description = _text(schema.get("description", ""))
        yield f'<article id="struct-{name}"><h3>{name}</h3><p>{description}</p>{_table("", rows)}</article>\n'


def _problems() -> Iterator[str]:
    for code, kind in KINDS.items():
        row = (f"<code>{code}</code>", str(kind.status), _text(kind.title))
        yield f'<tr id="problem-{code}">{"".join(f"<td>{cell}</td>" for cell in row)}</tr>\n'


def _table(title: str, rows: Iterable[tuple[str, ...]]) -> str:
    lines = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    heading = f"<h4>{title}</h4>" if title else ""
    return f"{heading}<table>{''.join(lines)}</table>" if lines else ""


def _kind(schema: dict[str, Any]) -> str:
    """A schema in a few words."""
    match schema:
        case {"$ref": reference}:
            name = str(reference).rpartition("/")[2]
            return f'<a href="#struct-{name}"><code>{name}</code></a>'
        case {"contentSchema": inner}:
            return _kind(inner)
        case {"properties": properties}:
            fields = (f"{_text(name)}: {_kind(inner)}" for name, inner in properties.items())
            return f'<span class="dim">each with {", ".join(fields)}</span>'
        case {"enum": choices}:
            words = " or ".join(f"<code>{_text(json.dumps(choice))}</code>" for choice in choices)
        case {"anyOf": options}:
            words = " or ".join(_kind(option) for option in options)
        case {"type": "array", "items": items}:
            words = f"list of {_kind(items)}"
        case {"type": kind}:
            words = _text(kind)
        case _:
            words = "anything"
    return f'<span class="dim">{words}{_bounds(schema)}</span>'


def _bounds(schema: dict[str, Any]) -> str:
    names = {
        "minimum": "at least {}",
        "exclusiveMinimum": "more than {}",
        "maximum": "at most {}",
        "minLength": "not empty",
        "maxLength": "at most {} characters",
        "minItems": "at least {}",
        "maxItems": "at most {}",
        "maxProperties": "at most {}",
    }
    words = [sentence.format(schema[name]) for name, sentence in names.items() if name in schema]
    if schema.get("default") not in (None, "", [], {}):
        words.append(f"{_text(json.dumps(schema['default']))} if it is missing")
    return "".join(f", {word}" for word in words)


def _curl(method: str, url: str, operation: dict[str, Any]) -> str:
    """A line for a shell."""
    query = {}
    for parameter in operation["parameters"]:
        match parameter:
            case {"in": "path", "name": name}:
                url = url.replace(f"{{{name}}}", _example(parameter["examples"]))
            case {"in": "query", "name": name, "examples": examples}:
                query[name] = _example(examples)
            case _:
                pass
    # A stream has no end that curl could wait for.
    words = ["curl -N" if "text/event-stream" in str(operation["responses"]) else "curl"]
    if method != "get":
        words += ["-X", method.upper()]
    words.append(quote(f"{url}?{urlencode(query, doseq=True)}" if query else url))
    if operation.get("security"):
        words.append('-H "Authorization: Bearer $HOLDFAST_API_KEY"')
    if "requestBody" in operation:
        example = _example(operation["requestBody"]["content"]["application/json"]["examples"])
        words += ['-H "Content-Type: application/json"', f"\\\n  -d {quote(json.dumps(example))}"]
    return " ".join(words)


def _example(examples: dict[str, Any]) -> Any:
    return next(iter(examples.values()))["value"]


def _text(value: Any) -> str:
    return escape(str(value))
