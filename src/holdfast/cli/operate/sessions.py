"""`holdfast sessions` and `holdfast players`: who is on a running node."""

import click

from holdfast.cli.ids import TakesIds
from holdfast.cli.operate.node import Node, of_node
from holdfast.cli.operate.showing import Column, show_list, show_one, span

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
_PLAYERS: list[Column] = [
    ("id", lambda item: item["id"]),
    ("sessions", lambda item: ", ".join(item["sessions"])),
    ("rooms", lambda item: ", ".join(item["rooms"])),
]
_limit = click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="How many at most.")


@click.group()
def sessions() -> None:
    """Look at the sessions of a running node, and end them."""


@sessions.command("list")
@click.option("--player", default="", metavar="ID", help="Only those of this player.")
@_limit
@of_node
def list_sessions(*, node: Node, player: str, limit: int, as_json: bool) -> None:
    """List sessions."""
    found = list(node.pages("sessions", {"player": player}, limit))
    show_list(found, _SESSIONS, as_json=as_json, empty="There are no sessions.")


@sessions.command("show", cls=TakesIds)
@click.argument("session_id")
@of_node
def show_session(*, node: Node, session_id: str, as_json: bool) -> None:
    """Show everything about one session."""
    show_one(node.ask("GET", "sessions", session_id), as_json=as_json)


@sessions.command("end", cls=TakesIds)
@click.argument("session_id")
@click.option("--reason", default="", help="What its player is told.")
@of_node
def end_session(*, node: Node, session_id: str, reason: str, as_json: bool) -> None:
    """End a session for good: its seat is freed, and its player is told why."""
    node.ask("DELETE", "sessions", session_id, query={"reason": reason})
    _done(f"Session {session_id} has ended.", {"ended": session_id}, as_json=as_json)


@click.group()
def players() -> None:
    """Look at who is on a running node, and throw them out of rooms."""


@players.command("list")
@_limit
@of_node
def list_players(*, node: Node, limit: int, as_json: bool) -> None:
    """List players: who has a session, a seat, or a seat that is reserved."""
    found = list(node.pages("players", {}, limit))
    show_list(found, _PLAYERS, as_json=as_json, empty="Nobody is here.")


@players.command("show", cls=TakesIds)
@click.argument("player_id")
@of_node
def show_player(*, node: Node, player_id: str, as_json: bool) -> None:
    """Show where a player is."""
    show_one(node.ask("GET", "players", player_id), as_json=as_json)


@players.command("kick", cls=TakesIds)
@click.argument("room_id")
@click.argument("player_id")
@click.option("--reason", default="", help="What they are told.")
@of_node
def kick_player(*, node: Node, room_id: str, player_id: str, reason: str, as_json: bool) -> None:
    """Free a player's seat in a room."""
    node.ask("DELETE", "rooms", room_id, "seats", player_id, query={"reason": reason})
    _done(f"Player {player_id} is out of room {room_id}.", {"kicked": player_id, "room": room_id}, as_json=as_json)


def _done(sentence: str, fact: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        show_one(fact, as_json=True)
    else:
        click.echo(sentence)
