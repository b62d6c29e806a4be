"""`holdfast types game.py`: write the types of a game's messages for its clients."""

from difflib import unified_diff
from pathlib import Path
from typing import Any

import click

from holdfast import Room
from holdfast.cli.loading import Game, load
from holdfast.cli.types.typescript import Unmappable, typescript


@click.command()
@click.argument("game")
# There is one language so far.
@click.option(
    "--lang", type=click.Choice(["ts"]), default="ts", show_default=True, expose_value=False, help="Language."
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to this file instead of printing.",
)
@click.option("--check", is_flag=True, help="Write nothing; fail and show the difference if FILE is not up to date.")
def types(game: str, *, out: Path | None, check: bool) -> None:
    """Write the types of a game's messages, for its clients.

    GAME is a Python file (game.py) or module (games.arena). Each kind of room gets an interface with the messages that
    clients send (those that its @on handlers take) and the messages that it sends to them (its `sends`, or every
    message of the project that no handler takes).

    The interface has a version, which clients give when they create and join rooms. If the messages have changed since
    then, the server rejects such a client and says what to do.
    """
    if check and out is None:
        raise click.UsageError("--check needs a file to compare with: give --out FILE.")
    try:
        text = typescript(_rooms(load(game)), Path(game).name)
    except Unmappable as error:
        raise click.ClickException(f"{game}: {error}.") from None
    if out is None:
        click.echo(text, nl=False)
    elif check:
        _check(out, text, game)
    else:
        try:
            out.write_text(text, "utf-8")
        except OSError as error:
            raise click.ClickException(f"{out} cannot be written: {error.strerror}.") from None
        click.echo(f"Wrote {out}.")


def _rooms(game: Game) -> list[type[Room[Any]]]:
    return game.rooms if game.server is None else game.server.room_types


def _check(file: Path, text: str, game: str) -> None:
    try:
        old = file.read_text("utf-8")
    except FileNotFoundError:
        old = ""
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{file} cannot be read: {error}.") from None
    if old == text:
        return
    diff = unified_diff(old.splitlines(True), text.splitlines(True), str(file), f"holdfast types {game}")
    click.echo("".join(diff), nl=False)
    raise click.ClickException(f"{file} is not up to date: run `holdfast types {game} --out {file}`.")
