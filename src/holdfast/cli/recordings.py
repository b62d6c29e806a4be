"""`holdfast rooms replay|rerun|recording|fork`: recordings of rooms, on a running node or in files."""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast.cli.loading import load
from holdfast.cli.node import Node, asks_node
from holdfast.cli.showing import Item, counted, printable
from holdfast.core.errors import Refused
from holdfast.core.recording import NotARecording, RecordingReader, Replayed
from holdfast.core.recording_file import from_bytes
from holdfast.core.room import Room
from holdfast.core.room_file import to_json
from holdfast.schemas.recording import RerunInfo
from holdfast.server.operate.recordings import turn_info
from holdfast.server.operate.rerun import Rerun
from holdfast.server.server import Server

_BODY_CHARS_MAX = 60
_CHANGED_MAX = 4
_PAGE = 100

_turn_option = click.option("--turn", type=click.IntRange(1), help="Show the state at the end of this turn.")


def open_recording(file: Path) -> RecordingReader:
    """A recording in a file; a `ClickException` says what is wrong with it."""
    try:
        return from_bytes(file.read_bytes())
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror}.") from None
    except NotARecording as error:
        raise click.ClickException(f"{file} cannot be opened: {error}.") from None


def recording_of(source: str, node: Node) -> RecordingReader:
    """The whole recording of a room on the node, or in a file."""
    if Path(source).is_file():
        return open_recording(Path(source))
    try:
        return from_bytes(node.fetch("rooms", source, "recording", "file"))
    except NotARecording as error:
        raise click.ClickException(f"The node's answer cannot be read: {error}.") from None


# replay


@click.command("replay", short_help="Show a room's recording turn by turn.")
@click.argument("source", metavar="ROOM_ID|FILE")
@_turn_option
@click.option("--first", type=click.IntRange(1), help="List turns from this one on.")
@click.option("--last", type=click.IntRange(1), default=50, show_default=True, help="List so many of the newest turns.")
@click.option("--player", default="", metavar="PLAYER_ID", help="Only what this player was sent.")
@asks_node()
def replay(*, node: Node, source: str, turn: int | None, as_json: bool, **which: Any) -> None:
    """Show the turns of a recorded room: when each was, why, what it changed, and what it sent.

    The room runs on a node or has ended there lately, or its recording is in a FILE. With --turn, show the whole state
    at the end of one turn. A recording has every player's secrets; with --player, only what that player was sent is
    shown.
    """
    found = _Local(open_recording(Path(source))) if Path(source).is_file() else _Remote(node, source)
    try:
        if turn is not None:
            shown = found.state(turn, which["player"])
            click.echo(json.dumps(shown, indent=2, ensure_ascii=False) if as_json else _state_text(shown))
            return
        turns = found.turns(**which)
    except NotARecording as error:
        raise click.ClickException(f"{source} cannot be replayed: {error}.") from None
    if as_json:
        click.echo(json.dumps(turns, indent=2, ensure_ascii=False))
        return
    for each in turns:
        for line in _lines(each):
            click.echo(line)
    if not turns:
        click.echo("There are no turns.")


class _Remote:
    """A recording on a node."""

    def __init__(self, node: Node, room_id: str) -> None:
        self._node = node
        self._path = ("rooms", room_id, "recording")

    def turns(self, *, first: int | None, last: int, player: str) -> list[Item]:
        kept = self._node.ask("GET", *self._path)
        number = first or max(kept["first"], kept["last"] - last + 1)
        end = kept["last"] if first is None else min(kept["last"], first + last - 1)
        turns: list[Item] = []
        while number <= end:
            limit = min(_PAGE, end - number + 1)
            query = {"first": number, "limit": limit, "player": player}
            turns += self._node.ask("GET", *self._path, "turns", query=query)["turns"]
            number += limit
        return turns

    def state(self, turn: int, player: str) -> Item:
        shown: Item = self._node.ask("GET", *self._path, "state", query={"turn": turn, "player": player})
        return shown


class _Local:
    """A recording in a file."""

    def __init__(self, reader: RecordingReader) -> None:
        self._reader = reader

    def turns(self, *, first: int | None, last: int, player: str) -> list[Item]:
        _not_for_player(player)
        reader = self._reader
        begin = first or max(reader.first, reader.last - last + 1)
        return [self._shown(each) for each in reader.replay(begin, min(reader.last, begin + last - 1))]

    def state(self, turn: int, player: str) -> Item:
        _not_for_player(player)
        if turn not in self._reader:
            raise click.ClickException(
                f"The recording has no turn {turn}: it has {self._reader.first} to {self._reader.last}."
            )
        replayed = next(self._reader.replay(turn, turn))
        return {"turn": self._shown(replayed), "state": to_json(replayed.state)}

    def _shown(self, replayed: Replayed) -> Item:
        shown: Item = msgspec.to_builtins(turn_info(self._reader.head, replayed))
        return shown


def _not_for_player(player: str) -> None:
    if player:
        raise click.ClickException(
            "--player needs the room's node: a file does not know what the game shares with whom."
        )


# As text


def _lines(turn: Item) -> Iterator[str]:
    at = datetime.fromtimestamp(turn["at"], UTC).strftime("%H:%M:%S.%f")[:-3]
    head = click.style(f"{turn['number']:>6}", bold=True)
    yield f"{head}  {at}  {printable(_cause(turn))}"
    if turn["error_code"]:
        yield click.style(f"          ! {turn['error_code']}: {printable(turn['error'])}", fg="red")
    if turn["changed"]:
        more = len(turn["changed"]) - _CHANGED_MAX
        paths = ", ".join(turn["changed"][:_CHANGED_MAX]) + (f" and {more} more" if more > 0 else "")
        yield f"          ~ {printable(paths)}"
    for sent in turn["sent"]:
        name, players = sent["name"], sent["players"]
        to = ", ".join(players) if len(players) <= _CHANGED_MAX else counted(len(players), "player")
        body = _short(sent["body"]) if sent["body"] is not None else f"({sent['bytes']} bytes)"
        yield f"          > {printable(name)} {printable(body)} to {printable(to)}"


def _cause(turn: Item) -> str:
    match turn["kind"]:
        case "":
            return "a turn"
        case "message" | "ask" | "latest":
            return f"{turn['player']}: {turn['name']} {_short(turn['body'])}"
        case "tick":
            return f"tick {_short(turn['body'])}"
        case kind:
            about = f" {turn['player']}" if turn["player"] else ""
            body = f" {_short(turn['body'])}" if turn["body"] else ""
            return f"{kind} {turn['name']}{about}{body}"


def _short(body: Any) -> str:
    text = json.dumps(body, ensure_ascii=False)
    return text if len(text) <= _BODY_CHARS_MAX else f"{text[: _BODY_CHARS_MAX - 1]}…"


def _state_text(shown: Item) -> str:
    return "\n".join([*_lines(shown["turn"]), json.dumps(shown["state"], indent=2, ensure_ascii=False)])


# rerun


@click.command("rerun", short_help="Take a recording's turns again, on today's code.")
@click.argument("source", metavar="ROOM_ID|FILE")
@click.argument("game")
@click.option("--first", type=click.IntRange(1), help="Begin with this turn, and not with the oldest one.")
@click.option("--until", type=click.IntRange(1), help="End with this turn, and not with the newest one.")
@asks_node()
def rerun(*, node: Node, source: str, game: str, first: int | None, until: int | None, as_json: bool) -> None:
    """Take the turns of a recorded room again, on the code of GAME, and name the first one that ends otherwise.

    GAME is a Python file (game.py) or module, as for `holdfast serve`. It runs in this process, without players: their
    messages, and the results of spawned work, are those of the recording. Effects are not carried out.

    The command fails (exit code 1) if a turn differs.
    """
    reader = recording_of(source, node)
    if not reader.last:
        raise click.ClickException("There are no turns.")
    begin, end = max(first or 1, reader.first), min(until or reader.last, reader.last)
    if begin > end:
        raise click.ClickException(f"The recording has turns {reader.first} to {reader.last}.")
    loaded = load(game)
    rooms = loaded.rooms if loaded.server is None else loaded.server.room_types
    kind = next((room for room in rooms if room.kind == reader.head.kind), None)
    if kind is None:
        raise click.ClickException(f"{game} has no rooms of the kind {reader.head.kind!r}.")
    try:
        found = asyncio.run(_taken_again(reader, kind, begin, end))
    except (Refused, NotARecording, ValueError) as error:
        raise click.ClickException(f"{source} cannot be taken again: {error}.") from None
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(found), indent=2, ensure_ascii=False))
    else:
        for line in _rerun_lines(found):
            click.echo(line)
    if found.turn is not None:
        sys.exit(1)


async def _taken_again(reader: RecordingReader, kind: type[Room[Any]], first: int, last: int) -> RerunInfo:
    # Turns that failed fail again: the recording has said so.
    logger = logging.getLogger("holdfast")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        async with Server([kind], listen=[], store="memory:") as server:
            return await Rerun(reader, kind, server.parts.rooms, server.parts.lifecycle).run(first, last)
    finally:
        logger.setLevel(level)


def _rerun_lines(found: RerunInfo) -> Iterator[str]:
    skipped = [str(number) for number in found.skipped]
    also = ""
    if skipped:
        some = ", ".join(skipped[:_CHANGED_MAX]) + (", …" if len(skipped) > _CHANGED_MAX else "")
        also = f"; {counted(len(skipped), 'turn')} could not be repeated ({some})"
    if found.turn is None:
        yield f"Turns {found.first} to {found.last} end as they were recorded{also}."
        return
    yield f"Turn {found.turn.number} differs{also}."
    yield from _lines(msgspec.to_builtins(found.turn))
    if found.problem:
        yield click.style(f"          ! {printable(found.problem)}", fg="red")
    for each in found.differences:
        was, now = (printable(_short(value)) for value in (each.recorded, each.now))
        yield f"          ≠ {printable(each.path)}: {was} was recorded, and is {now} now"


# recording, fork


@click.command("recording", short_help="Download a room's recording.")
@click.argument("room_id")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write; without it, print it.")
@asks_node()
def download(*, node: Node, room_id: str, output: Path | None, as_json: bool) -> None:
    """Download the recording of a room as a file: for `rooms replay` and `rooms rerun` elsewhere, and for tests.

    It holds everything, the secrets of all players too: only its owner can read the file that -o writes.
    """
    if as_json:
        click.echo(json.dumps(node.ask("GET", "rooms", room_id, "recording"), indent=2))
        return
    data = node.fetch("rooms", room_id, "recording", "file")
    if output is None:
        stdout = sys.stdout.buffer
        if stdout.isatty():
            raise click.UsageError("A recording is not text: write it to a file, with -o FILE or > FILE.")
        stdout.write(data)
        return
    try:
        write_private(output, data)
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error.strerror}.") from None


def write_private(file: Path, data: bytes) -> None:
    """Write a file that only its owner can read; an incomplete one does not take the place of another."""
    unfinished = file.with_name(f".{file.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        opened.write(data)
    unfinished.replace(file)


@click.command("fork", short_help="Make a new room from a recorded turn.")
@click.argument("room_id")
@click.option("--turn", type=click.IntRange(1), required=True, help="The new room goes on from the end of this turn.")
@asks_node(
    "Forked: room {id} ({kind}) goes on from there, with {players} seats held. It is private; its code is {code}."
)
def fork(*, node: Node, room_id: str, turn: int) -> Any:
    """Make a new, private room that goes on from the end of a turn, as to reproduce a bug.

    It has the same state, players' data, timers and random numbers. Its seats are held for the same players, who join
    it by its id; the room that was recorded goes on.
    """
    return node.ask("POST", "rooms", room_id, "forks", body={"turn": turn})


COMMANDS = (replay, rerun, download, fork)
