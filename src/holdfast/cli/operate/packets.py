"""`holdfast packets`: whose payloads a running node writes into its log."""

import click

from holdfast.cli.operate.node import Node, of_node
from holdfast.cli.operate.showing import Column, show_list, show_one, span

_TARGETS: list[Column] = [
    ("target", lambda item: item["target"]),
    ("kind", lambda item: item["kind"]),
    ("ends in", lambda item: span(item["ends_in_s"])),
]


@click.group()
def packets() -> None:
    """Look into what single sessions or addresses say and hear, in the log of a running node."""


@packets.command("on")
@click.argument("target")
@click.option("--for", "for_s", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Ten minutes if not.")
@of_node
def log_packets(*, node: Node, target: str, for_s: float | None, as_json: bool) -> None:
    """Log every payload of TARGET: a session's id, an address (203.0.113.7) or a range of them (203.0.113.0/24).

    Passwords, tokens and credentials are not shown. It ends by itself.
    """
    told = node.ask("PUT", "packet-log", target, query={"for_s": for_s})
    if as_json:
        show_one(told, as_json=True)
    else:
        click.echo(f"The packets of {told['target']} are logged for {span(told['ends_in_s'])}.")


@packets.command("off")
@click.argument("target")
@of_node
def stop_logging_packets(*, node: Node, target: str, as_json: bool) -> None:
    """Log the payloads of TARGET no more."""
    node.ask("DELETE", "packet-log", target)
    if as_json:
        show_one({"stopped": target}, as_json=True)
    else:
        click.echo(f"The packets of {target} are not logged any more.")


@packets.command("list")
@of_node
def list_packet_targets(*, node: Node, as_json: bool) -> None:
    """List whose payloads are logged."""
    found = node.ask("GET", "packet-log")["targets"]
    show_list(found, _TARGETS, as_json=as_json, empty="Nobody's packets are logged.")
