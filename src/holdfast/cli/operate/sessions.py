"""`holdfast sessions`: who is connected to a running node, or was a moment ago."""

from collections.abc import Mapping
from typing import Any

import click

from holdfast.cli.operate.node import Node, of_node
from holdfast.cli.operate.showing import Column, show_list, show_one, span
from holdfast.cli.operate.timeline import show_timeline

_SESSIONS: list[Column] = [
    ("id", lambda item: item["id"]),
    ("player", lambda item: item["player"]),
    ("status", lambda item: item["status"]),
    ("room", lambda item: item.get("room", "")),
    ("over", lambda item: item.get("transport", "")),
    ("latency", lambda item: f"{item['latency_ms']:.0f} ms" if item.get("latency_ms") else ""),
    ("age", lambda item: span(item.get("age_s", 0))),
    ("drops", lambda item: item.get("drops", 0)),
    ("resumes", lambda item: item.get("resumes", 0)),
]
limit_option = click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="How many at most.")


@click.group()
def sessions() -> None:
    """Look at the sessions of a running node, and end them."""


@sessions.command("list")
@click.option("--player", default="", metavar="ID", help="Only those of this player.")
@limit_option
@of_node
def list_sessions(*, node: Node, player: str, limit: int, as_json: bool) -> None:
    """List sessions."""
    found = list(node.pages("sessions", {"player": player}, limit))
    show_list(found, _SESSIONS, as_json=as_json, empty="There are no sessions.")


@sessions.command("show")
@click.argument("session_id")
@of_node
def show_session(*, node: Node, session_id: str, as_json: bool) -> None:
    """Show everything about one session."""
    show_one(node.ask("GET", "sessions", session_id), as_json=as_json)


@sessions.command("explain")
@click.argument("session_id")
@of_node
def explain_session(*, node: Node, session_id: str, as_json: bool) -> None:
    """Say why a session dropped or ended, also for a while after its end."""
    show_timeline(node.ask("GET", "sessions", session_id, "timeline"), as_json=as_json)


@sessions.command("end")
@click.argument("session_id")
@click.option("--reason", default="", help="What its player is told.")
@of_node
def end_session(*, node: Node, session_id: str, reason: str, as_json: bool) -> None:
    """End a session for good: its seat is freed, and its player is told why."""
    node.ask("DELETE", "sessions", session_id, query={"reason": reason})
    done(f"Session {session_id} has ended.", {"ended": session_id}, as_json=as_json)


def done(sentence: str, fact: Mapping[str, Any], *, as_json: bool) -> None:
    """Say that something was done: a sentence, or the fact of it."""
    if as_json:
        show_one(fact, as_json=True)
    else:
        click.echo(sentence)
