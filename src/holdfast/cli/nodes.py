"""Commands for the nodes of a cluster: list and drain them, and move rooms between them."""

import time
from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource

from holdfast.cli.node import Node, asks_node
from holdfast.cli.showing import Column, Item, ago, counted, show, table_of

_WAIT_S = 0.5


def _state(item: Item) -> str:
    if item["state"] != "alive" or not item.get("is_draining"):
        return str(item["state"])
    return "drained" if item.get("is_drained") else "draining"


def _heard(item: Item) -> str:
    return "this one" if item.get("is_self") else f"{item['heard_s']:.1f} s ago"


_NODES: list[Column] = [
    "name",
    ("state", _state),
    "region",
    ("address", lambda item: item.get("address", "")),
    "version",
    ("load", lambda item: f"{100 * item['load']:.0f} %"),
    *("rooms", "sessions", "connections"),
    ("started", lambda item: ago(item["started_at"]) if item["started_at"] else ""),
    ("heard", _heard),
    "life",
    ("not well", lambda item: "; ".join(item["reasons"])),
]


def _show_nodes(content: Mapping[str, Any]) -> None:
    if not content["cluster"]:
        click.echo("This server is not a node of a cluster; it is alone.")
    table_of(_NODES, empty="There are no nodes.")(content["nodes"])


@click.group(invoke_without_command=True)
@asks_node()
def nodes(*, node: Node, as_json: bool) -> None:
    """List and drain the nodes of a cluster, through any of them; without a command, list them."""
    context = click.get_current_context()
    if context.invoked_subcommand is None:
        show(node.ask("GET", "nodes"), _show_nodes, as_json=as_json)
        return
    for name in ("url", "api_key", "as_json"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"Put options behind the command: holdfast nodes {context.invoked_subcommand} …")


@nodes.command("list")
@asks_node(_show_nodes)
def list_nodes(*, node: Node) -> Any:
    """List the nodes: how they are, and what they have."""
    return node.ask("GET", "nodes")


def _show_drained(item: Item) -> None:
    name = item["name"]
    if not item["is_draining"]:
        click.echo(f"Node {name} takes rooms and players again.")
    elif not item["is_drained"]:
        click.echo(f"Node {name} is draining: it hands its rooms over. See how far it is with: holdfast nodes list")
    else:
        left = f" {counted(item['rooms'], 'room')} in its memory only would end with it." if item["rooms"] else ""
        click.echo(f"Node {name} is drained: it may be stopped.{left}")


@nodes.command("drain")
@click.argument("name")
@click.option("--wait", is_flag=True, help="Return once everything that can go on elsewhere is elsewhere.")
@click.option("--cancel", is_flag=True, help="Let a node that is draining take rooms and players again.")
@asks_node(_show_drained)
def drain_node(*, node: Node, name: str, wait: bool, cancel: bool) -> Any:
    """Let the node NAME hand over its durable rooms and take nothing new: no player drops.

    It goes on running until you stop it. Rooms that are in its memory only stay, and end with it.
    """
    if wait and cancel:
        raise click.UsageError("Give either --wait or --cancel.")
    item = node.ask("DELETE" if cancel else "POST", "nodes", name, "drain")
    while wait and not item["is_drained"]:
        time.sleep(_WAIT_S)
        found = [each for each in node.ask("GET", "nodes")["nodes"] if each["life"] == item["life"]]
        if not found or found[0]["state"] in {"dead", "left"}:
            raise click.ClickException(f"Node {name} has gone before it was drained: others take over its rooms.")
        item = found[0]
        if not item["is_draining"]:
            raise click.ClickException(f"Node {name} is no longer draining: somebody has cancelled that.")
    return item
