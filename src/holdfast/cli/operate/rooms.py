"""The rooms of a running node: found, made, changed and ended through its API."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

from holdfast.cli.operate.node import Node, of_node
from holdfast.cli.operate.showing import Column, ago, show_list, show_one, span

_ROOMS: list[Column] = [
    ("id", lambda item: item["id"]),
    ("kind", lambda item: item["kind"]),
    ("name", lambda item: item.get("name", "")),
    ("phase", lambda item: item["phase"]),
    ("seats", lambda item: f"{item['players']} of {item['max_players']}"),
    ("open", lambda item: item.get("open_seats", 0)),
    ("access", lambda item: ", ".join(_hindrances(item)) or "open"),
    ("code", lambda item: item.get("code", "")),
    ("made", lambda item: ago(item.get("created_at", 0))),
    ("properties", lambda item: json.dumps(item["properties"], ensure_ascii=False) if item["properties"] else ""),
]
_SEATS: list[Column] = [
    ("player", lambda item: item["player"]),
    ("state", lambda item: item["state"]),
    ("session", lambda item: item.get("session", "")),
    ("latency", lambda item: f"{item['latency_ms']:.0f} ms" if item.get("latency_ms") else ""),
    ("until", lambda item: f"{span(item['expires_in_s'])} more" if item.get("expires_in_s") else ""),
    ("host", lambda item: "host" if item.get("is_host") else ""),
]


def _hindrances(item: Mapping[str, Any]) -> Iterator[str]:
    """Why not everybody can join."""
    if item.get("visibility") == "private":
        yield "private"
    if item.get("is_locked") or item.get("join_policy") == "deny_all":
        yield "locked"
    if item.get("has_password"):
        yield "password"


def list_running(node: Node, request: dict[str, Any], limit: int, *, as_json: bool) -> None:
    """The rooms of a node, as a search finds them."""
    found = list(node.pages("rooms", request, limit))
    empty = "There are no such rooms." if any(request.values()) else "No rooms."
    show_list(found, _ROOMS, as_json=as_json, empty=empty)


@click.command("show")
@click.argument("room_id")
@of_node
def show_room(*, node: Node, room_id: str, as_json: bool) -> None:
    """Show everything about a room of a running node."""
    show_one(node.ask("GET", "rooms", room_id), as_json=as_json)


@click.command("seats")
@click.argument("room_id")
@of_node
def show_seats(*, node: Node, room_id: str, as_json: bool) -> None:
    """Show who has a seat in a room of a running node."""
    found = node.ask("GET", "rooms", room_id, "seats")
    seats = found["seats"] if isinstance(found, dict) else found
    show_list(seats, _SEATS, as_json=as_json, empty="Nobody has a seat.")


@click.command("create")
@click.argument("kind")
@click.option("--name", default="", help="What it is called.")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="Searchable; repeatable.")
@click.option("--max-players", type=click.IntRange(1), help="Fewer seats than the kind has.")
@click.option("--private", is_flag=True, help="Joined by id or code only, and not listed.")
@click.option("--key", "idempotency_key", default="", help="Making it again with the same key gives the same room.")
@of_node
def create_room(
    *,
    node: Node,
    kind: str,
    name: str,
    properties: tuple[str, ...],
    max_players: int | None,
    idempotency_key: str,
    private: bool,
    as_json: bool,
) -> None:
    """Make a room on a running node."""
    request: dict[str, Any] = {"kind": kind, "name": name, "properties": properties_of(properties)}
    if max_players is not None:
        request["max_players"] = max_players
    if private:
        request["visibility"] = "private"
    if idempotency_key:
        request["idempotency_key"] = idempotency_key
    show_one(node.ask("POST", "rooms", body=request), as_json=as_json)


@click.command("end")
@click.argument("room_id")
@click.option("--reason", default="", help="Why, for the log and for who asks.")
@of_node
def end_room(*, node: Node, room_id: str, reason: str, as_json: bool) -> None:
    """End a room of a running node: everybody leaves, then it is gone."""
    show_one(node.ask("DELETE", "rooms", room_id, query={"reason": reason}), as_json=as_json)


def properties_of(words: tuple[str, ...]) -> dict[str, Any]:
    """KEY=VALUE as properties: a value that is JSON counts as that, anything else is text."""
    properties: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise click.UsageError(f"A property is KEY=VALUE; got {word!r}.")
        try:
            properties[key] = json.loads(value)
        except ValueError:
            properties[key] = value
    return properties
