"""`holdfast placements`: have rooms made on the best node, and see how far that is."""

from typing import Any

import click

from holdfast.cli.operate.node import Node, of_node
from holdfast.cli.operate.rooms import properties_of
from holdfast.cli.operate.showing import Column, ago, show_list, show_one

_PLACEMENTS: list[Column] = [
    ("id", lambda item: item["id"]),
    ("queue", lambda item: item["queue"]),
    ("status", lambda item: item["status"]),
    ("players", lambda item: len(item["players"])),
    ("room", lambda item: item["room"]["id"] if item.get("room") else ""),
    ("started", lambda item: ago(item.get("started_at", 0))),
    ("reason", lambda item: item.get("reason", "")),
]
_QUEUES: list[Column] = [
    ("name", lambda item: item["name"]),
    ("destinations", lambda item: ", ".join(item["destinations"])),
    ("timeout", lambda item: f"{item['timeout_s']:g} s"),
    ("pending", lambda item: item.get("pending", 0)),
]


@click.group()
def placements() -> None:
    """Start, watch and stop placements on a running node."""


@placements.command("list")
@of_node
def list_placements(*, node: Node, as_json: bool) -> None:
    """List placements: pending ones, and those that ended a short while ago."""
    found = node.ask("GET", "placements")
    show_list(_items(found, "placements"), _PLACEMENTS, as_json=as_json, empty="There are no placements.")


@placements.command("queues")
@of_node
def list_queues(*, node: Node, as_json: bool) -> None:
    """List the queues in which a placement can be started."""
    found = node.ask("GET", "queues")
    empty = "The node has no queues: give its Server some, as in queues=[Queue('default', ('*',))]."
    show_list(_items(found, "queues"), _QUEUES, as_json=as_json, empty=empty)


@placements.command("show")
@click.argument("placement_id")
@of_node
def show_placement(*, node: Node, placement_id: str, as_json: bool) -> None:
    """Show how far a placement is."""
    show_one(node.ask("GET", "placements", placement_id), as_json=as_json)


@placements.command("start")
@click.argument("queue")
@click.argument("kind")
@click.option("--player", "players", multiple=True, metavar="ID", help="Keep a seat for this player; repeatable.")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="Of the room; repeatable.")
@click.option("--id", "placement_id", default="", help="Your own id: starting the same again changes nothing.")
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
    """Have a room of a KIND made on the best node of a QUEUE."""
    request = {
        "queue": queue,
        "kind": kind,
        "players": [{"id": player} for player in players],
        "properties": properties_of(properties),
        "id": placement_id,
    }
    show_one(node.ask("POST", "placements", body=request), as_json=as_json)


@placements.command("stop")
@click.argument("placement_id")
@of_node
def stop_placement(*, node: Node, placement_id: str, as_json: bool) -> None:
    """Give up a placement that is still pending."""
    show_one(node.ask("DELETE", "placements", placement_id), as_json=as_json)


def _items(answer: Any, name: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = answer[name] if isinstance(answer, dict) else answer
    return items
