"""`holdfast new mygame`: write a small game that runs."""

import re
from pathlib import Path

import click

from holdfast.http.api import DEFAULT_HOST, DEFAULT_PORT
from holdfast.http.static import CLIENT_FILE, PLAY

_TEMPLATE = Path(__file__).with_name("template")
# Valid as the name of a folder, a package and a file on every system.
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")


def _name(_context: click.Context, _parameter: click.Parameter, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise click.BadParameter(
            "use at most 40 lower-case letters, digits, - and _, with a letter first, as in my-game."
        )
    return name


@click.command()
@click.argument("name", callback=_name)
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="The folder to write to; by default NAME, in the current folder.",
)
def new(name: str, folder: Path | None) -> None:
    """Write a small game that runs: a server, a web page, a test and a bot.

    NAME is the name of the game. Nothing is overwritten: the folder must be new or empty.
    """
    folder = folder or Path(name)
    try:
        if folder.exists() and any(folder.iterdir()):
            raise click.ClickException(f"{folder} is not empty: choose another folder with --dir, or another name.")
        for relative, text in _files(name).items():
            file = folder / relative
            file.parent.mkdir(parents=True, exist_ok=True)
            # Fails if somebody else has just created it.
            with file.open("x", encoding="utf-8", newline="\n") as empty:
                empty.write(text)
    except OSError as error:
        raise click.ClickException(f"{folder} cannot be written: {error.strerror}.") from None
    click.echo(_next_steps(name, folder))


def _files(name: str) -> dict[Path, str]:
    """The text of each file, by its path."""
    found: dict[Path, str] = {}
    for source in sorted(_TEMPLATE.rglob("*.tmpl")):
        # Not hidden in the template: packaging tools leave hidden files out.
        relative = source.relative_to(_TEMPLATE).with_suffix("")
        where = relative.with_name(".gitignore") if relative.name == "gitignore" else relative
        found[where] = source.read_text("utf-8").replace("{{name}}", name)
    return found


def _next_steps(name: str, folder: Path) -> str:
    steps = [
        f"Created a game in {folder}. Run it and open http://{DEFAULT_HOST}:{DEFAULT_PORT}{PLAY}/ in two windows:",
        "",
        f"  cd {folder}",
        f"  holdfast serve game.py --web web --store sqlite:{name}.db --reload",
        "",
        "Test it with dropped connections and crashes: pytest",
        "Load it with players: holdfast bench game.py --bot bot.py",
    ]
    if not CLIENT_FILE.is_file():
        steps += [
            "",
            "The page does not work yet: this installation has no JavaScript client. Build it with `make web`.",
        ]
    return "\n".join(steps)
