"""The page at /docs: the OpenAPI document for people, as plain HTML that loads nothing from anywhere."""

import json
from collections.abc import Iterable
from html import escape
from itertools import starmap
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

_BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "minLength": "not empty",
    "maxLength": "at most {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "maxProperties": "at most {}",
}


def page(document: dict[str, Any], base_url: str) -> str:
    """The whole page, with examples that can be pasted into a shell."""
    contents, groups = [], []
    for tag in document["tags"]:
        name = tag["name"]
        links = []
        groups.append(f'<h2 id="{name}">{_text(name)}</h2>\n<p>{_text(tag["description"])}</p>\n')
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if name in operation["tags"]:
                    links.append(f'<li><a href="#{operation["operationId"]}">{_text(operation["summary"])}</a></li>')
                    groups.append(_article(method, path, operation, _curl(method, base_url + path, operation)))
        contents.append(f'<a href="#{name}"><strong>{name}</strong></a><ul>{"".join(links)}</ul>\n')
    contents += [f'<a href="#{each}"><strong>{each}</strong></a>\n' for each in ("structs", "problems")]
    return _TEMPLATE.substitute(
        title=_text(document["info"]["title"]),
        about=_text(document["info"]["description"]),
        keys=_text(_KEYS if "securitySchemes" in document["components"] else _NO_KEYS),
        contents="".join(contents),
        groups="".join(groups),
        structs="".join(starmap(_struct, document["components"]["schemas"].items())),
        problems="".join(
            f'<tr id="problem-{code}"><td><code>{code}</code></td><td>{status}</td><td>{_text(title)}</td></tr>\n'
            for code, (status, title) in KINDS.items()
        ),
    )


def _article(method: str, path: str, operation: dict[str, Any], example: str) -> str:
    scopes = [scope for requirement in operation.get("security", ()) for scope in requirement["key"]]
    bodies = operation.get("requestBody", {}).get("content", {})
    parts = [
        f'<article id="{operation["operationId"]}"><h3>{_text(operation["summary"])}</h3>',
        f'<div class="route"><code><span class="method {method}">{method.upper()}</span> {_text(path)}</code>',
        *(f' <span class="scope">needs a key with the scope {_text(scope)}</span>' for scope in scopes),
        f"</div><p>{_text(operation['description'])}</p>",
        _table("Parameters", map(_parameter, operation["parameters"])),
        *(f"<h4>Body</h4><p>{_kind(body['schema'])}, as {_text(type_)}</p>" for type_, body in bodies.items()),
        _table("Answers", starmap(_response, operation["responses"].items())),
        f"<h4>Example</h4><pre>{_text(example)}</pre></article>\n",
    ]
    return "".join(parts)


def _parameter(parameter: dict[str, Any]) -> tuple[str, str, str]:
    where = f"{parameter['in']}{', required' if parameter['required'] else ''}"
    what = f"{_text(parameter['description'])} {_kind(parameter['schema'])}"
    return f"<code>{_text(parameter['name'])}</code>", f'<span class="dim">{where}</span>', what


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


def _struct(name: str, schema: dict[str, Any]) -> str:
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
    return f'<article id="struct-{name}"><h3>{name}</h3><p>{description}</p>{_table("", rows)}</article>\n'


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
    words = [sentence.format(schema[name]) for name, sentence in _BOUNDS.items() if name in schema]
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
