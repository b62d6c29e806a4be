"""Commands that operate a running node through its HTTP API: its rooms, players, sessions, packets and placements, and
messages to everybody."""

import json
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

from holdfast.cli.node import Node, asks_node, limit_option
from holdfast.cli.showing import Column, Item, Show, ago, show_one, show_room, show_timeline, span, table_of

_UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"(\d+(?:\.\d+)?) ?(s|min|m|h|d|w)")

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_address = click.option("--address", default="", metavar="RANGE", help="A range of addresses, as in 203.0.113.0/24.")


def _reason(name: str) -> Decorator:
    return click.option(name, "reason", default="", help="The reason that the player is given.")


@click.group()
def players() -> None:
    """List the players on a running node; kick, ban and sign out; grant and revoke roles."""


@click.group()
def sessions() -> None:
    """List, explain, limit and end the sessions of a running node."""


@click.group()
def packets() -> None:
    """Log the payloads of single sessions or addresses on a running node."""


@click.group()
def placements() -> None:
    """Start, list and stop placements on a running node."""


@click.group()
def rooms() -> None:
    """Operate the rooms of a running node; list, export, import and delete the rooms in a store.

    Commands for a running node use its HTTP API: see --url. STORE is what `holdfast serve --store` was given, as in
    sqlite:game.db. `list` and `export` work while a server uses the store; stop it before `import` and `delete`.
    """


# What is shown in lists


def _moment(wall_s: float) -> str:
    return f"{datetime.fromtimestamp(wall_s, UTC):%Y-%m-%d %H:%M} UTC"


def _access(room: Item) -> str:
    """Why not everybody can join."""
    restrictions = {
        "private": room.get("visibility") == "private",
        "locked": room.get("is_locked") or room.get("join_policy") == "deny_all",
        "password": room.get("has_password"),
    }
    return ", ".join(word for word, applies in restrictions.items() if applies) or "open"


ROOMS: list[Column] = [
    *("id", "node", "kind", "name", "phase"),
    ("seats", lambda item: f"{item['players']} of {item['max_players']}"),
    ("open", lambda item: item.get("open_seats", 0)),
    ("watching", lambda item: item.get("spectators") or ""),
    ("access", _access),
    *("code", "created_at"),
    ("properties", lambda item: json.dumps(item["properties"], ensure_ascii=False) if item["properties"] else ""),
]
_SEATS: list[Column] = [
    *("player", "name", "state", "session", "latency_ms"),
    ("until", lambda item: f"{span(item['expires_in_s'])} more" if item.get("expires_in_s") else ""),
    ("is", lambda item: ", ".join(word for word in ("host", "agent") if item.get(f"is_{word}"))),
]
_SPECTATORS: list[Column] = [
    *("player", "name", "state", "session", "latency_ms"),
    ("until", lambda item: f"{span(item['expires_in_s'])} more" if item.get("expires_in_s") else ""),
]
_BANS: list[Column] = [
    ("banned", lambda item: item["subject"]),
    ("until", lambda item: _moment(item["until"]) if item["until"] else "for good"),
    ("since", lambda item: ago(item["since"])),
    ("reason", lambda item: item["why"]),
]
_PLACEMENTS: list[Column] = [
    *("id", "queue", "status"),
    ("players", lambda item: len(item["players"])),
    ("room", lambda item: item["room"]["id"] if item.get("room") else ""),
    *("started_at", "reason"),
]
_PLAYERS: list[Column] = ["id", "nodes", "name", "account", "roles", "sessions", "rooms"]
_SESSIONS: list[Column] = [
    *("id", "node", "player", "name", "status", "room", "transport", "latency_ms", "age_s", "drops", "resumes"),
]
_ROLES: list[Column] = ["player", "granted", "revoked"]
_TARGETS: list[Column] = ["target", "kind", ("ends in", lambda item: span(item["ends_in_s"]))]
_QUEUES: list[Column] = ["name", "destinations", ("timeout", lambda item: f"{item['timeout_s']:g} s"), "pending"]


_NO_ROLES = "No roles were granted or revoked."


# Commands that send one request and show its answer


def _add(group: click.Group, name: str, route: str, shown: Show, about: str, *options: Decorator, **fact: str) -> None:
    """Add a command: the names in its route are its arguments, and its options are sent as the query.

    LIST is a GET whose answer is a list, in pages if there is a `--limit`. Where the answer is empty, a fact is shown
    instead: each word of it stands for an argument.
    """
    method, _, path = route.partition(" ")
    arguments = re.findall(r"{(\w+)}", path)

    @asks_node(shown)
    def run(*, node: Node, limit: int | None = None, **given: Any) -> Any:
        parts = [part.format_map(given) for part in path.split("/")]
        query = {key: value for key, value in given.items() if key not in arguments}
        if method == "LIST":
            return node.items(*parts, query=query, limit=limit)
        answer = node.ask(method, *parts, query=query)
        return {word: given[argument] for word, argument in fact.items()} or answer

    decorators: list[Decorator] = [*(click.argument(each) for each in arguments), *options]
    command: Callable[..., Any] = run
    for decorator in reversed(decorators):
        command = decorator(command)
    group.command(name, help=about)(command)


@rooms.command("show")
@click.argument("room_id")
@asks_node(show_room)
def show_a_room(*, node: Node, room_id: str) -> Any:
    """Show all details of a room on a running node, and its contents.

    You see everything. What clients do not is marked: [private] is for its own player, [hidden] for nobody.
    """
    room = node.ask("GET", "rooms", room_id)
    if room["status"] == "active":
        try:
            room["contents"] = node.ask("GET", "rooms", room_id, "state")
        except click.ClickException as error:
            click.echo(f"Its contents are not shown: {error.message}", err=True)
    return room


_add(
    *(rooms, "seats", "LIST rooms/{room_id}/seats", table_of(_SEATS, empty="No seats are taken.")),
    "Show the seats of a room on a running node.",
)
_add(
    *(rooms, "spectators", "LIST rooms/{room_id}/spectators", table_of(_SPECTATORS, empty="Nobody watches this room.")),
    "Show who watches a room on a running node.",
    limit_option,
)


@rooms.command("move")
@click.argument("room_id")
@click.option("--to", required=True, metavar="NODE", help="The name of the node, as `holdfast nodes` lists it.")
@asks_node("Room {room} is on node {node} now.")
def move_room(*, node: Node, room_id: str, to: str) -> Any:
    """Move a durable room to another node of the cluster, in the middle of its game: nobody drops."""
    return node.ask("POST", "rooms", room_id, "move", body={"to": to})


_add(
    *(rooms, "end", "DELETE rooms/{room_id}", show_one),
    "End a room on a running node: all players leave, then it is deleted.",
    click.option("--reason", default="", help="The reason, for the log and for clients."),
)
_add(
    *(players, "list", "LIST players", table_of(_PLAYERS, empty="There are no players.")),
    "List the players who have a session, a seat or a reserved seat.",
    click.option("--search", default="", metavar="TEXT", help="Only those with this in their id or name."),
    limit_option,
)
_add(players, "bans", "LIST bans", table_of(_BANS, empty="There are no bans."), "List the bans.", limit_option)
_add(players, "show", "GET players/{player_id}", show_one, "Show a player's sessions and rooms.")
_add(
    *(players, "explain", "GET players/{player_id}/timeline", show_timeline),
    "Explain why a player's latest session dropped or ended.",
)
_add(
    *(players, "kick", "DELETE rooms/{room_id}/seats/{player_id}", "Player {kicked} was removed from room {room}."),
    "Remove a player from a room and free the seat.",
    _reason("--reason"),
    kicked="player_id",
    room="room_id",
)
_add(
    *(players, "sign-out", "POST players/{player_id}/sign-out", "Player {signed_out} is signed out everywhere."),
    "End all sessions of a player, and reject tickets and JWTs issued before now.",
    _reason("--why"),
    signed_out="player_id",
)
_add(players, "roles", "LIST roles", table_of(_ROLES, empty=_NO_ROLES), "List granted and revoked roles.", limit_option)
_add(
    *(players, "grant", "PUT players/{player_id}/roles/{role}", "Player {player} has the role {role}."),
    "Give a player a role, at once and until it is revoked, whatever the authenticator says.",
    player="player_id",
    role="role",
)
_add(
    *(players, "revoke", "DELETE players/{player_id}/roles/{role}", "Player {player} does not have the role {role}."),
    "Take a role from a player, at once and until it is granted, whatever the authenticator says.",
    player="player_id",
    role="role",
)
_add(
    *(players, "reset-roles", "DELETE players/{player_id}/roles", "Player {player} has the roles of the sign-in."),
    "Undo everything that was granted to a player and revoked from them.",
    player="player_id",
)
_add(
    *(sessions, "list", "LIST sessions", table_of(_SESSIONS, empty="There are no sessions.")),
    "List sessions.",
    click.option("--player", default="", metavar="ID", help="Only the sessions of this player."),
    click.option("--search", default="", metavar="TEXT", help="Only those with this in an id or the player's name."),
    limit_option,
)
_add(sessions, "show", "GET sessions/{session_id}", show_one, "Show all details of a session.")
_add(
    *(sessions, "explain", "GET sessions/{session_id}/timeline", show_timeline),
    "Explain why a session dropped or ended; ended sessions are remembered for a while.",
)
_add(
    *(sessions, "end", "DELETE sessions/{session_id}", "Session {ended} has ended."),
    "End a session for good and free its seat.",
    _reason("--reason"),
    ended="session_id",
)
_add(
    *(packets, "list", "LIST packet-log", table_of(_TARGETS, empty="No packets are being logged.")),
    "List the sessions and addresses whose payloads are logged.",
)
_add(
    *(packets, "off", "DELETE packet-log/{target}", "No longer logging the packets of {stopped}."),
    "Stop logging the payloads of TARGET.",
    stopped="target",
)
_add(
    *(placements, "list", "LIST placements", table_of(_PLACEMENTS, empty="There are no placements.")),
    "List pending placements and those that ended recently.",
)
_NO_QUEUES = "The node has no queues: give its Server some, as in queues=[Queue('default', ('*',))]."
_add(
    *(placements, "queues", "LIST queues", table_of(_QUEUES, empty=_NO_QUEUES)),
    "List the queues in which placements can be started.",
)
_add(placements, "show", "GET placements/{placement_id}", show_one, "Show the progress of a placement.")
_add(placements, "stop", "DELETE placements/{placement_id}", show_one, "Stop a pending placement.")


# Rooms and placements


def _pairs(_context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> dict[str, Any]:
    """Each KEY=VALUE: the value is JSON if it can be parsed as JSON, else text."""
    pairs: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise click.UsageError(f"{parameter.opts[0]} must be KEY=VALUE; got {word!r}.")
        try:
            pairs[key] = json.loads(value)
        except ValueError:
            pairs[key] = value
    return pairs


def _pair(option: str, name: str, about: str) -> Decorator:
    return click.option(option, name, multiple=True, metavar="KEY=VALUE", callback=_pairs, help=about)


_config = _pair("--config", "config", "A value for the room's on_create, which nobody else sees; repeatable.")


@rooms.command("create")
@click.argument("kind")
@click.option("--name", default="", help="The room's name.")
@_pair("--property", "properties", "A property to search by; repeatable.")
@_config
@click.option("--max-players", type=click.IntRange(1), help="The number of seats, at most that of the kind.")
@click.option("--private", is_flag=True, help="Do not list the room; players join by id or code.")
@click.option("--key", "idempotency_key", default="", help="An idempotency key: the same key returns the same room.")
@asks_node(show_one)
def create_room(*, node: Node, private: bool, max_players: int | None, **request: Any) -> Any:
    """Create a room on a running node."""
    if max_players is not None:
        request["max_players"] = max_players
    if private:
        request["visibility"] = "private"
    return node.ask("POST", "rooms", body=request)


@placements.command("start")
@click.argument("queue")
@click.argument("kind")
@click.option("--player", "players", multiple=True, metavar="ID", help="Reserve a seat for this player; repeatable.")
@_pair("--option", "options", "What each of them joins with, unless they say otherwise; repeatable.")
@_pair("--property", "properties", "A property of the room; repeatable.")
@_config
@click.option("--id", default="", help="Your own id: a second start with the same id changes nothing.")
@asks_node(show_one)
def start_placement(*, node: Node, players: tuple[str, ...], options: dict[str, Any], **request: Any) -> Any:
    """Create a room of a KIND on the best node of a QUEUE."""
    party = [{"id": player, **({"options": options} if options else {})} for player in players]
    return node.ask("POST", "placements", body={**request, "players": party})


# Players and sessions


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


def _subject(player_id: str | None, address: str) -> dict[str, str]:
    if bool(player_id) == bool(address):
        raise click.UsageError("Give either a player's ID or an --address.")
    return {"address": address} if address else {"player": str(player_id)}


def _show_ban(ban: Item) -> None:
    how_long = f"until {_moment(ban['until'])}" if ban["until"] else "for good"
    click.echo(f"Banned {how_long}: {ban['subject']}.")


@players.command("ban")
@click.argument("player_id", metavar="[ID]", required=False)
@_address
@click.option("--for", "for_s", callback=_duration, metavar="DURATION", help="30min, 2h or 7d; by default for good.")
@click.option("--until", callback=_date, metavar="DATE", help="2030-01-31 or 2030-01-31T18:00Z.")
@_reason("--why")
@asks_node(_show_ban)
def ban_player(
    *, node: Node, player_id: str | None, address: str, for_s: float | None, until: float | None, reason: str
) -> Any:
    """Ban a player or a range of addresses, and end their sessions."""
    request: dict[str, Any] = {**_subject(player_id, address), "why": reason}
    if for_s is not None and until is not None:
        raise click.UsageError("Give either --for or --until.")
    if for_s is not None:
        request["for_s"] = for_s
    if until is not None:
        request["until"] = until
    return node.ask("POST", "bans", body=request)


@players.command("unban")
@click.argument("player_id", metavar="[ID]", required=False)
@_address
@asks_node("No longer banned: {unbanned}.")
def unban_player(*, node: Node, player_id: str | None, address: str) -> Any:
    """Lift the ban of a player or a range of addresses."""
    [(kind, name)] = _subject(player_id, address).items()
    node.ask("DELETE", "bans", f"{kind}:{name}")
    return {"unbanned": f"{kind}:{name}"}


def _limits(_context: click.Context, _parameter: click.Parameter, words: tuple[str, ...]) -> dict[str, float | None]:
    """NAME=VALUE as limits; the node knows which there are."""
    limits: dict[str, float | None] = {}
    for word in words:
        name, _, value = word.partition("=")
        try:
            number = None if value == "default" else float(value.replace("_", ""))
        except ValueError:
            number = math.nan
        if not name or (number is not None and not math.isfinite(number)):
            raise click.UsageError(
                f"A limit must be NAME=VALUE, as in messages_per_s=500 or idle_s=default; got {word!r}."
            )
        limits[name.strip().replace("-", "_")] = number
    return limits


def _show_limits(session: Item) -> None:
    limits = ", ".join(f"{name} = {value:g}" for name, value in session["limits"].items())
    click.echo(f"Limits of session {session['id']}: {limits or 'those of the server'}.")


@sessions.command("limit")
@click.argument("session_id")
@click.argument("limits", nargs=-1, required=True, metavar="NAME=VALUE...", callback=_limits)
@asks_node(_show_limits)
def limit_session(*, node: Node, session_id: str, limits: dict[str, float | None]) -> Any:
    """Change limits of one session, at once, as in messages_per_s=500; `default` undoes a change.

    A limit of 0 for idle_s and session_age_max_s means that there is none.
    """
    return node.ask("PATCH", "sessions", session_id, body={"limits": limits})


# Everybody


def _show_sent(sent: Item) -> None:
    count = sent["sessions"]
    click.echo(
        f"Sent to {count} session{'' if count == 1 else 's'}." if count else "There is no session to send it to."
    )


def _body(_context: click.Context, _parameter: click.Parameter, text: str | None) -> Any:
    try:
        body = json.loads(text) if text is not None else {}
    except ValueError as error:
        raise click.BadParameter(f"it is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise click.BadParameter('it must be a JSON object, such as {"wave": 3}')
    return body


@click.command()
@click.argument("text", required=False, default="")
@click.option("--role", default="", help="Only to sessions with this role.")
@click.option("--kind", default="", help="Only to players and spectators in rooms of this kind.")
@click.option("--type", "type_", default="", metavar="NAME", help="Instead of a text: the wire name of a message.")
@click.option("--body", callback=_body, metavar="JSON", help="The fields of that message.")
@asks_node(_show_sent)
def broadcast(*, node: Node, text: str, type_: str, **request: Any) -> Any:
    """Send a TEXT to every session of a running node: `holdfast broadcast "The server restarts in 5 minutes."`

    Players who are away get it when they return. Clients hear it if they read the messages of their session.
    """
    if bool(text.strip()) is bool(type_):
        raise click.UsageError("Give either a TEXT or a --type.")
    return node.ask("POST", "broadcast", body={**request, "text": text, "type": type_})


# Packets


def _show_target(started: Item) -> None:
    click.echo(f"Logging the packets of {started['target']} for {span(started['ends_in_s'])}.")


@packets.command("on")
@click.argument("target")
@click.option(
    *("--for", "for_s"),
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="How long; by default ten minutes.",
)
@asks_node(_show_target)
def log_packets(*, node: Node, target: str, for_s: float | None) -> Any:
    """Log every payload of TARGET: a session's id, an address (203.0.113.7) or a range of them (203.0.113.0/24).

    Passwords, tokens and credentials are not logged. Logging stops by itself after a while.
    """
    return node.ask("PUT", "packet-log", target, query={"for_s": for_s})
