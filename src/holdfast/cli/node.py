"""A client of a running node's HTTP API, and the options of commands that use it."""

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import click

from holdfast.cli.options import API_KEY_VARIABLE
from holdfast.cli.showing import Show, show
from holdfast.http.api import DEFAULT_HOST, DEFAULT_PORT

_PAGE = 100

# The environment's proxy is for the web, not for a node next door.
_open = build_opener(ProxyHandler({})).open


@dataclass(frozen=True, slots=True)
class Node:
    """A node's HTTP API: its URL and the key for it."""

    url: str
    key: str = ""
    timeout_s: float = 30.0

    def ask(
        self,
        method: str,
        *path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        tells_missing: bool = True,
    ) -> Any:
        """Send a request; returns the answer, or raises a `ClickException` with the node's error.

        Nodes that did not answer are named on stderr, unless the command does that.
        """
        text = self._send(method, *path, query=query, body=body)
        if not text:
            return None
        try:
            content = json.loads(text)
        except ValueError:
            raise self._not_holdfast() from None
        if not isinstance(content, dict):
            raise self._not_holdfast()
        if tells_missing and (missing := content.get("missing")):
            click.echo(f"Not shown: what is on {', '.join(missing)}, which did not answer.", err=True)
        return content

    def fetch(self, *path: str) -> bytes:
        """Download a file."""
        return self._send("GET", *path)

    def _send(self, method: str, *path: str, query: Mapping[str, Any] | None = None, body: Any = None) -> bytes:
        address = f"{self.url}/v1/{'/'.join(quote(part, safe='') for part in path)}"
        if query:
            address += f"?{urlencode({key: value for key, value in query.items() if value}, doseq=True)}"
        request = Request(address, method=method)  # noqa: S310 - the scheme is checked where the address is given
        request.add_header("Accept", "application/json, application/problem+json")
        if self.key:
            request.add_header("Authorization", f"Bearer {self.key}")
        if body is not None:
            request.add_header("Content-Type", "application/json")
            request.data = json.dumps(body).encode()
        try:
            with _open(request, timeout=self.timeout_s) as answer:
                content: bytes = answer.read()
                return content
        except HTTPError as error:
            raise click.ClickException(_problem(error)) from None
        except (URLError, HTTPException, OSError) as error:
            reason = getattr(error, "reason", error)
            raise click.ClickException(
                f"No node answers at {self.url} ({reason}). Is `holdfast serve` running, with its HTTP API? "
                "Give its address with --url."
            ) from None

    def items(self, *path: str, query: Mapping[str, Any], limit: int | None) -> list[dict[str, Any]]:
        """The items of a list: up to a limit, page by page, or all of a list that has no pages."""
        found: list[dict[str, Any]] = []
        cursor = ""
        while True:
            place = {} if limit is None else {"limit": min(limit - len(found), _PAGE), "cursor": cursor}
            page = self.ask("GET", *path, query={**query, **place})
            items = next((value for value in (page or {}).values() if isinstance(value, list)), None)
            if items is None or not all(isinstance(item, dict) for item in items):
                raise self._not_holdfast()
            found += items
            if hint := page.get("hint"):
                click.echo(f"Hint: {hint}.", err=True)
            cursor = page.get("cursor", "")
            if not cursor or limit is None or len(found) >= limit:
                return found[:limit]

    def _not_holdfast(self) -> click.ClickException:
        return click.ClickException(f"The server at {self.url} is not a Holdfast node.")


def _problem(error: HTTPError) -> str:
    try:
        problem = json.loads(error.read())
        detail = str(problem.get("detail") or problem["title"])
    except (ValueError, LookupError, AttributeError):
        return f"The node answered with {error.code} {error.reason}."
    hint = f" Give one with --api-key or ${API_KEY_VARIABLE}." if error.code == 401 else ""  # noqa: PLR2004 - HTTP
    # A detail that points at a column ends with the pointer's line.
    full_stop = "" if "\n" in detail or detail.endswith(".") else "."
    return f"{detail}{full_stop}{hint}"


def _checked(_context: click.Context, _parameter: click.Parameter, url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise click.BadParameter(f"invalid URL {url!r}: use an address such as http://{DEFAULT_HOST}:{DEFAULT_PORT}")
    return url.rstrip("/")


def asks_node(shown: Show | None = None) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Give a command its `node`, and print what it returns; one that prints for itself gets `as_json` too."""

    def decorate(command: Callable[..., Any]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(*, url: str, api_key: str, as_json: bool, **arguments: Any) -> None:
            node = Node(url, api_key)
            if shown is None:
                command(node=node, as_json=as_json, **arguments)
            else:
                show(command(node=node, **arguments), shown, as_json=as_json)

        for option in _OPTIONS:
            run = option(run)
        return run

    return decorate


limit_option = click.option(
    "--limit", type=click.IntRange(1), default=100, show_default=True, help="List at most this many."
)

_OPTIONS = (
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    click.option(
        "--api-key",
        envvar=API_KEY_VARIABLE,
        default="",
        metavar="KEY",
        help=f"The API key, if the node needs one; safer in ${API_KEY_VARIABLE}, where other users cannot see it.",
    ),
    click.option(
        "--url",
        envvar="HOLDFAST_URL",
        default=f"http://{DEFAULT_HOST}:{DEFAULT_PORT}",
        show_default=True,
        callback=_checked,
        help="The address of the node's HTTP API; also $HOLDFAST_URL.",
    ),
)
