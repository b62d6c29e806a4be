"""`holdfast players`, `sessions` and `packets`: who is on a running node, who is banned, and what they send."""

import re
from datetime import UTC, datetime
from typing import Any

import click

from holdfast.cli.operate.node import Node, limit_option, of_node
from holdfast.cli.operate.showing import Column, ago, done, latency, show_list, show_one, show_timeline, span

_PLAYERS: list[Column] = ["id", "sessions", "rooms"]
_BANS: list[Column] = [
    ("banned", lambda item: item["subject"]),
    ("until", lambda item: _moment(item["until"]) if item["until"] else "for good"),
    ("since", lambda item: ago(item["since"])),
    ("reason", lambda item: item["why"]),
]
_SESSIONS: list[Column] = [
    "id",
    "player",
    "status",
    "room",
    "transport",
    ("latency", latency),
    ("age", lambda item: span(item.get("age_s", 0))),
    "drops",
    "resumes",
]
_TARGETS: list[Column] = ["target", "kind", ("ends in", lambda item: span(item["ends_in_s"]))]

_UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"(\d+(?:\.\d+)?) ?(s|min|m|h|d|w)")

_address = click.option("--address", default="", metavar="RANGE", help="A range of addresses, as in 203.0.113.0/24.")
_reason = click.option("--reason", default="", help="The reason that the player is given.")
_why = click.option("--why", default="", help="The reason that the player is given.")


def _duration(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    """2h, 30min or 7d, in seconds."""
    if text is None:
        return None
    found = _SPAN.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise click.BadParameter(
            f"invalid duration {text!r}: use a number above 0 with s, m, h, d or w, such as 90s, 2h or 7d"
        )
    return float(found[1]) * _UNITS_S[found[2]]


def _date(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    """An ISO date, in this machine's time zone unless it names one."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError):
        raise click.BadParameter(f"invalid date {text!r}: use a date such as 2030-01-31 or 2030-01-31T18:00Z") from None


def _moment(wall_s: float) -> str:
    return f"{datetime.fromtimestamp(wall_s, UTC):%Y-%m-%d %H:%M} UTC"


def _subject(player_id: str | None, address: str) -> dict[str, str]:
    if bool(player_id) == bool(address):
        raise click.UsageError("Give either a player's ID or an --address.")
    return {"address": address} if address else {"player": str(player_id)}


# Players


@click.group()
def players() -> None:
    """List the players on a running node; kick, ban and sign out."""


@players.command("list")
@limit_option
@of_node
def list_players(*, node: Node, limit: int, as_json: bool) -> None:
    """List the players who have a session, a seat or a reserved seat."""
    found = list(node.pages("players", {}, limit))
    show_list(found, _PLAYERS, as_json=as_json, empty="There are no players.")


@players.command("show")
@click.argument("player_id")
@of_node
def show_player(*, node: Node, player_id: str, as_json: bool) -> None:
    """Show a player's sessions and rooms."""
    show_one(node.ask("GET", "players", player_id), as_json=as_json)


@players.command("explain")
@click.argument("player_id")
@of_node
def explain_player(*, node: Node, player_id: str, as_json: bool) -> None:
    """Explain why a player's latest session dropped or ended."""
    show_timeline(node.ask("GET", "players", player_id, "timeline"), as_json=as_json)


@players.command("kick")
@click.argument("room_id")
@click.argument("player_id")
@_reason
@of_node
def kick_player(*, node: Node, room_id: str, player_id: str, reason: str, as_json: bool) -> None:
    """Remove a player from a room and free the seat."""
    node.ask("DELETE", "rooms", room_id, "seats", player_id, query={"reason": reason})
    fact = {"kicked": player_id, "room": room_id}
    done(f"Player {player_id} was removed from room {room_id}.", fact, as_json=as_json)


@players.command("ban")
@click.argument("player_id", metavar="[ID]", required=False)
@_address
@click.option("--for", "for_s", callback=_duration, metavar="DURATION", help="30min, 2h or 7d; by default for good.")
@click.option("--until", callback=_date, metavar="DATE", help="2030-01-31 or 2030-01-31T18:00Z.")
@_why
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
    """Ban a player or a range of addresses, and end their sessions."""
    request: dict[str, Any] = {**_subject(player_id, address), "why": why}
    if for_s is not None and until is not None:
        raise click.UsageError("Give either --for or --until.")
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
    """Lift the ban of a player or a range of addresses."""
    [(kind, name)] = _subject(player_id, address).items()
    subject = f"{kind}:{name}"
    node.ask("DELETE", "bans", subject)
    done(f"No longer banned: {subject}.", {"unbanned": subject}, as_json=as_json)


@players.command("bans")
@limit_option
@of_node
def list_bans(*, node: Node, limit: int, as_json: bool) -> None:
    """List the bans."""
    found = list(node.pages("bans", {}, limit))
    show_list(found, _BANS, as_json=as_json, empty="There are no bans.")


@players.command("sign-out")
@click.argument("player_id", metavar="ID")
@_why
@of_node
def sign_out_player(*, node: Node, player_id: str, why: str, as_json: bool) -> None:
    """End all sessions of a player, and reject tickets and JWTs issued before now."""
    node.ask("POST", "players", player_id, "sign-out", query={"reason": why})
    done(f"Player {player_id} is signed out everywhere.", {"signed_out": player_id}, as_json=as_json)


# Sessions


@click.group()
def sessions() -> None:
    """List, explain and end the sessions of a running node."""


@sessions.command("list")
@click.option("--player", default="", metavar="ID", help="Only the sessions of this player.")
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
    """Show all details of a session."""
    show_one(node.ask("GET", "sessions", session_id), as_json=as_json)


@sessions.command("explain")
@click.argument("session_id")
@of_node
def explain_session(*, node: Node, session_id: str, as_json: bool) -> None:
    """Explain why a session dropped or ended; ended sessions are remembered for a while."""
    show_timeline(node.ask("GET", "sessions", session_id, "timeline"), as_json=as_json)


@sessions.command("end")
@click.argument("session_id")
@_reason
@of_node
def end_session(*, node: Node, session_id: str, reason: str, as_json: bool) -> None:
    """End a session for good and free its seat."""
    node.ask("DELETE", "sessions", session_id, query={"reason": reason})
    done(f"Session {session_id} has ended.", {"ended": session_id}, as_json=as_json)


# Packets


@click.group()
def packets() -> None:
    """Log the payloads of single sessions or addresses on a running node."""


@packets.command("on")
@click.argument("target")
@click.option(
    "--for",
    "for_s",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="How long; by default ten minutes.",
)
@of_node
def log_packets(*, node: Node, target: str, for_s: float | None, as_json: bool) -> None:
    """Log every payload of TARGET: a session's id, an address (203.0.113.7) or a range of them (203.0.113.0/24).

    Passwords, tokens and credentials are not logged. Logging stops by itself after a while.
    """
    started = node.ask("PUT", "packet-log", target, query={"for_s": for_s})
    done(f"Logging the packets of {started['target']} for {span(started['ends_in_s'])}.", started, as_json=as_json)


@packets.command("off")
@click.argument("target")
@of_node
def stop_logging_packets(*, node: Node, target: str, as_json: bool) -> None:
    """Stop logging the payloads of TARGET."""
    node.ask("DELETE", "packet-log", target)
    done(f"No longer logging the packets of {target}.", {"stopped": target}, as_json=as_json)


@packets.command("list")
@of_node
def list_packet_targets(*, node: Node, as_json: bool) -> None:
    """List the sessions and addresses whose payloads are logged."""
    found = node.ask("GET", "packet-log")["targets"]
    show_list(found, _TARGETS, as_json=as_json, empty="No packets are being logged.")
