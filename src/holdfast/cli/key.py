"""`holdfast key`: the key of a server whose TCP links are encrypted."""

from pathlib import Path

import click

from holdfast.transports.keys import ServerKey

_file = click.argument("file", type=click.Path(path_type=Path))


@click.group()
def key() -> None:
    """Make the key of a server, and show what its clients pin."""


@key.command()
@_file
def new(file: Path) -> None:
    """Make a key, keep it in FILE, and print its public half.

    FILE can be read by nobody but you: `holdfast serve --tcp-key FILE` needs it, and nobody else does. The public half
    is for the game's clients, as in `holdfast.connect(url, server_key=…)`.
    """
    made = ServerKey.new()
    try:
        made.write(file)
    except FileExistsError:
        raise click.ClickException(f"{file} exists already: clients may have pinned its key. Choose another.") from None
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}.") from None
    click.echo(made.public)


@key.command()
@_file
def show(file: Path) -> None:
    """Print the public half of the key in FILE: what clients pin."""
    click.echo(read_key(file).public)


def read_key(file: Path) -> ServerKey:
    """The key in a file, or an error that says what to do."""
    try:
        return ServerKey.read(file)
    except OSError as error:
        raise click.ClickException(f"The key {file} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise click.ClickException(f"{error}.") from None
