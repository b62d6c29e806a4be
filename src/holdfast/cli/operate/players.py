"""`holdfast players`: who is on a running node, and who is not welcome there."""

import re
from datetime import UTC, datetime
from typing import Any

import click

from holdfast.cli.operate.node import Node, of_node
from holdfast.cli.operate.sessions import done, limit_option
from holdfast.cli.operate.showing import Column, ago, show_list, show_one
from holdfast.cli.operate.timeline import show_timeline

_PLAYERS: list[Column] = [
    ("id", lambda item: item["id"]),
    ("sessions", lambda item: ", ".join(item["sessions"])),
    ("rooms", lambda item: ", ".join(item["rooms"])),
]
_BANS: list[Column] = [
    ("banned", lambda item: item["subject"]),
    ("until", lambda item: _moment(item["until"]) if item["until"] else "for good"),
    ("since", lambda item: ago(item["since"])),
    ("reason", lambda item: item["why"]),
]
_UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"(\d+(?:\.\d+)?) ?(s|min|m|h|d|w)")


def _span(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    """2h, 30min, 7d: in seconds."""
    if text is None:
        return None
    found = _SPAN.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise click.BadParameter(f"{text!r} is no span of time; write it as in 90s, 30min, 2h, 7d or 2w")
    return float(found[1]) * _UNITS_S[found[2]]


def _until(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    """An ISO date, in this machine's time zone unless it names one."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is no date; write it as in 2030-01-31 or 2030-01-31T18:00Z") from None


def _moment(wall_s: float) -> str:
    return f"{datetime.fromtimestamp(wall_s, UTC):%Y-%m-%d %H:%M} UTC"


_address = click.option("--address", default="", metavar="RANGE", help="A range of addresses, as in 203.0.113.0/24.")


def _subject(player_id: str | None, address: str) -> dict[str, str]:
    if bool(player_id) == bool(address):
        raise click.UsageError("Name a player by ID, or give an --address: one of them.")
    return {"address": address} if address else {"player": str(player_id)}


@click.group()
def players() -> None:
    """Look at who is on a running node; kick, ban and sign out."""


@players.command("list")
@limit_option
@of_node
def list_players(*, node: Node, limit: int, as_json: bool) -> None:
    """List players: who has a session, a seat, or a seat that is reserved."""
    found = list(node.pages("players", {}, limit))
    show_list(found, _PLAYERS, as_json=as_json, empty="Nobody is here.")


@players.command("show")
@click.argument("player_id")
@of_node
def show_player(*, node: Node, player_id: str, as_json: bool) -> None:
    """Show where a player is."""
    show_one(node.ask("GET", "players", player_id), as_json=as_json)


@players.command("explain")
@click.argument("player_id")
@of_node
def explain_player(*, node: Node, player_id: str, as_json: bool) -> None:
    """Say why a player's latest session dropped or ended."""
    show_timeline(node.ask("GET", "players", player_id, "timeline"), as_json=as_json)


@players.command("kick")
@click.argument("room_id")
@click.argument("player_id")
@click.option("--reason", default="", help="What they are told.")
@of_node
def kick_player(*, node: Node, room_id: str, player_id: str, reason: str, as_json: bool) -> None:
    """Free a player's seat in a room."""
    node.ask("DELETE", "rooms", room_id, "seats", player_id, query={"reason": reason})
    done(f"Player {player_id} is out of room {room_id}.", {"kicked": player_id, "room": room_id}, as_json=as_json)


@players.command("ban")
@click.argument("player_id", metavar="[ID]", required=False)
@_address
@click.option("--for", "for_s", callback=_span, metavar="SPAN", help="How long: 30min, 2h, 7d. Without it for good.")
@click.option("--until", callback=_until, metavar="DATE", help="Until when: 2030-01-31, 2030-01-31T18:00Z.")
@click.option("--why", default="", help="What they are told.")
@of_node
def ban_player(
    *,
    node: Node,
    player_id: str | None,
    address: str,
    for_s: float | None,
    until: float | None,
    why: str,
    as_json: bool,
) -> None:
    """Keep a player, or a range of addresses, out: their sessions end at once."""
    request: dict[str, Any] = {**_subject(player_id, address), "why": why}
    if for_s is not None and until is not None:
        raise click.UsageError("Say --for or --until: one of them.")
    if for_s is not None:
        request["for_s"] = for_s
    if until is not None:
        request["until"] = until
    ban = node.ask("POST", "bans", body=request)
    how_long = f"until {_moment(ban['until'])}" if ban["until"] else "for good"
    done(f"Banned {how_long}: {ban['subject']}.", ban, as_json=as_json)


@players.command("unban")
@click.argument("player_id", metavar="[ID]", required=False)
@_address
@of_node
def unban_player(*, node: Node, player_id: str | None, address: str, as_json: bool) -> None:
    """Let a player, or a range of addresses, in again."""
    [(kind, name)] = _subject(player_id, address).items()
    subject = f"{kind}:{name}"
    node.ask("DELETE", "bans", subject)
    done(f"No longer banned: {subject}.", {"unbanned": subject}, as_json=as_json)


@players.command("bans")
@limit_option
@of_node
def list_bans(*, node: Node, limit: int, as_json: bool) -> None:
    """List who is banned, until when and why."""
    found = list(node.pages("bans", {}, limit))
    show_list(found, _BANS, as_json=as_json, empty="Nobody is banned.")


@players.command("sign-out")
@click.argument("player_id", metavar="ID")
@click.option("--why", default="", help="What they are told.")
@of_node
def sign_out_player(*, node: Node, player_id: str, why: str, as_json: bool) -> None:
    """End all sessions of a player; tickets and JWTs of before do not count any more."""
    node.ask("POST", "players", player_id, "sign-out", query={"reason": why})
    done(f"Player {player_id} is signed out everywhere.", {"signed_out": player_id}, as_json=as_json)
