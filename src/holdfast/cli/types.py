"""`holdfast types`: what a game's rooms say and share, as types for clients in other languages."""

from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any

import click

from holdfast.cli.loading import load
from holdfast.cli.proto_file import FRAMES_FILE, frames_file, game_file, renumbered
from holdfast.cli.python_types import python_types
from holdfast.cli.typescript import Unmappable, typescript
from holdfast.core.room import Room

_WRITERS = {"ts": typescript, "py": python_types, "proto": game_file}


@click.command()
@click.argument("game")
@click.option(
    "--lang",
    type=click.Choice([*_WRITERS]),
    default="ts",
    show_default=True,
    help="ts: TypeScript. py: Python. proto: protobuf, for the codec holdfast.v1.protobuf.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to this file instead of printing. With --lang proto, holdfast.proto is written beside it.",
)
@click.option("--check", is_flag=True, help="Write nothing; fail and show the difference if FILE is not up to date.")
@click.option(
    "--renumber",
    is_flag=True,
    help="Of protobuf: fields may have other numbers than in FILE. Old clients misread them.",
)
def types(game: str, *, lang: str, out: Path | None, check: bool, renumber: bool) -> None:
    """Write the types of a game's messages and of what its rooms share, for its clients.

    GAME is a Python file (game.py) or module (games.arena). In TypeScript each kind of room gets an interface with the
    messages that clients send (those that its @on handlers take), the messages that it sends to them (its `sends`, or
    every message of the project that no handler takes), the options that players join with (its `join_options`), and
    what it shares: its `state`, what everybody sees of a `player`, and what a player sees of their own data (`mine`).
    Python has the same as classes; protobuf has the messages and the options: what is shared travels as MessagePack.

    The interface has a version, which clients give when they create and join rooms. If the messages have changed since
    then, the server rejects such a client and says what to do.
    """
    if check and out is None:
        raise click.UsageError("--check needs a file to compare with: give --out FILE.")
    command = f"holdfast types {game}" + ("" if lang == "ts" else f" --lang {lang}")
    try:
        loaded = load(game)
        rooms = loaded.rooms if loaded.server is None else loaded.server.room_types
        files = _files(lang, rooms, game, out)
    except Unmappable as error:
        raise click.ClickException(f"{game}: {error}.") from None
    if out is None:
        click.echo(files[None], nl=False)
        return
    if lang == "proto" and not renumber:
        _check_numbers(out, files[out])
    for file, text in files.items():
        assert file is not None
        if check:
            _check(file, text, f"{command} --out {out}")
        else:
            _write(file, text)


def _files(lang: str, rooms: Sequence[type[Room[Any]]], game: str, out: Path | None) -> dict[Path | None, str]:
    files: dict[Path | None, str] = {out: _WRITERS[lang](rooms, Path(game).name)}
    if lang == "proto" and out is not None:
        files[out.with_name(FRAMES_FILE)] = frames_file()
    return files


def _check_numbers(file: Path, text: str) -> None:
    problems = renumbered(_read(file), text)
    if problems:
        raise click.ClickException(
            f"{file}: fields would get other numbers, and clients that are out there would misread them:"
            f" {'; '.join(problems)}. Add new fields at the end, or give a field its number, as in"
            ' Annotated[float, Meta(extra={"protobuf": 2})]; --renumber if no client has the file.'
        )


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, "utf-8")
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}.") from None
    click.echo(f"Wrote {file}.")


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{file} cannot be read: {error}.") from None


def _check(file: Path, text: str, command: str) -> None:
    old = _read(file)
    if old == text:
        return
    diff = unified_diff(old.splitlines(True), text.splitlines(True), str(file), command)
    click.echo("".join(diff), nl=False)
    raise click.ClickException(f"{file} is not up to date: run `{command}`.")
