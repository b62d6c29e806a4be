"""The rooms and placements of a running node: list, create, change and end them through its HTTP API."""

import json
from collections.abc import Iterator
from typing import Any

import click

from holdfast.cli.operate.node import Node, of_node
from holdfast.cli.operate.showing import Column, Item, ago, latency, show_list, show_one, span

_ROOMS: list[Column] = [
    "id",
    "kind",
    "name",
    "phase",
    ("seats", lambda item: f"{item['players']} of {item['max_players']}"),
    ("open", lambda item: item.get("open_seats", 0)),
    ("access", lambda item: ", ".join(_restrictions(item)) or "open"),
    "code",
    ("created", lambda item: ago(item.get("created_at", 0))),
    ("properties", lambda item: json.dumps(item["properties"], ensure_ascii=False) if item["properties"] else ""),
]
_SEATS: list[Column] = [
    "player",
    "state",
    "session",
    ("latency", latency),
    ("until", lambda item: f"{span(item['expires_in_s'])} more" if item.get("expires_in_s") else ""),
    ("host", lambda item: "host" if item.get("is_host") else ""),
]
_PLACEMENTS: list[Column] = [
    "id",
    "queue",
    "status",
    ("players", lambda item: len(item["players"])),
    ("room", lambda item: item["room"]["id"] if item.get("room") else ""),
    ("started", lambda item: ago(item.get("started_at", 0))),
    "reason",
]
_QUEUES: list[Column] = ["name", "destinations", ("timeout", lambda item: f"{item['timeout_s']:g} s"), "pending"]


def _restrictions(item: Item) -> Iterator[str]:
    """Why not everybody can join."""
    if item.get("visibility") == "private":
        yield "private"
    if item.get("is_locked") or item.get("join_policy") == "deny_all":
        yield "locked"
    if item.get("has_password"):
        yield "password"


def _properties(words: tuple[str, ...]) -> dict[str, Any]:
    """KEY=VALUE as properties: the value is JSON if it can be parsed as JSON, else text."""
    properties: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise click.UsageError(f"A property must be KEY=VALUE; got {word!r}.")
        try:
            properties[key] = json.loads(value)
        except ValueError:
            properties[key] = value
    return properties


# Rooms: `holdfast rooms` adds these commands to its own.


def list_running(node: Node, request: dict[str, Any], limit: int, *, as_json: bool) -> None:
    """Print the rooms of a node that match a search."""
    found = list(node.pages("rooms", request, limit))
    empty = "No rooms match." if any(request.values()) else "There are no rooms."
    show_list(found, _ROOMS, as_json=as_json, empty=empty)


@click.command("show")
@click.argument("room_id")
@of_node
def show_room(*, node: Node, room_id: str, as_json: bool) -> None:
    """Show all details of a room on a running node."""
    show_one(node.ask("GET", "rooms", room_id), as_json=as_json)


@click.command("seats")
@click.argument("room_id")
@of_node
def show_seats(*, node: Node, room_id: str, as_json: bool) -> None:
    """Show the seats of a room on a running node."""
    found = node.ask("GET", "rooms", room_id, "seats")["seats"]
    show_list(found, _SEATS, as_json=as_json, empty="No seats are taken.")


@click.command("create")
@click.argument("kind")
@click.option("--name", default="", help="The room's name.")
@click.option(
    "--property", "properties", multiple=True, metavar="KEY=VALUE", help="A property to search by; repeatable."
)
@click.option("--max-players", type=click.IntRange(1), help="The number of seats, at most that of the kind.")
@click.option("--private", is_flag=True, help="Do not list the room; players join by id or code.")
@click.option("--key", "idempotency_key", default="", help="An idempotency key: the same key returns the same room.")
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
    """Create a room on a running node."""
    request: dict[str, Any] = {"kind": kind, "name": name, "properties": _properties(properties)}
    if max_players is not None:
        request["max_players"] = max_players
    if private:
        request["visibility"] = "private"
    if idempotency_key:
        request["idempotency_key"] = idempotency_key
    show_one(node.ask("POST", "rooms", body=request), as_json=as_json)


@click.command("end")
@click.argument("room_id")
@click.option("--reason", default="", help="The reason, for the log and for clients.")
@of_node
def end_room(*, node: Node, room_id: str, reason: str, as_json: bool) -> None:
    """End a room on a running node: all players leave, then it is deleted."""
    show_one(node.ask("DELETE", "rooms", room_id, query={"reason": reason}), as_json=as_json)


# Placements


@click.group()
def placements() -> None:
    """Start, list and stop placements on a running node."""


@placements.command("list")
@of_node
def list_placements(*, node: Node, as_json: bool) -> None:
    """List pending placements and those that ended recently."""
    found = node.ask("GET", "placements")["placements"]
    show_list(found, _PLACEMENTS, as_json=as_json, empty="There are no placements.")


@placements.command("queues")
@of_node
def list_queues(*, node: Node, as_json: bool) -> None:
    """List the queues in which placements can be started."""
    empty = "The node has no queues: give its Server some, as in queues=[Queue('default', ('*',))]."
    show_list(node.ask("GET", "queues")["queues"], _QUEUES, as_json=as_json, empty=empty)


@placements.command("show")
@click.argument("placement_id")
@of_node
def show_placement(*, node: Node, placement_id: str, as_json: bool) -> None:
    """Show the progress of a placement."""
    show_one(node.ask("GET", "placements", placement_id), as_json=as_json)


@placements.command("start")
@click.argument("queue")
@click.argument("kind")
@click.option("--player", "players", multiple=True, metavar="ID", help="Reserve a seat for this player; repeatable.")
@click.option(
    "--property", "properties", multiple=True, metavar="KEY=VALUE", help="A property of the room; repeatable."
)
@click.option("--id", "placement_id", default="", help="Your own id: a second start with the same id changes nothing.")
@of_node
def start_placement(
    *,
    node: Node,
    queue: str,
    kind: str,
    players: tuple[str, ...],
    properties: tuple[str, ...],
    placement_id: str,
    as_json: bool,
) -> None:
    """Create a room of a KIND on the best node of a QUEUE."""
    request = {
        "queue": queue,
        "kind": kind,
        "players": [{"id": player} for player in players],
        "properties": _properties(properties),
        "id": placement_id,
    }
    show_one(node.ask("POST", "placements", body=request), as_json=as_json)


@placements.command("stop")
@click.argument("placement_id")
@of_node
def stop_placement(*, node: Node, placement_id: str, as_json: bool) -> None:
    """Stop a pending placement."""
    show_one(node.ask("DELETE", "placements", placement_id), as_json=as_json)
