"""The command `holdfast`."""

from importlib import import_module

import click

import holdfast
from holdfast.core import channel

# The module of each command, imported only when the command is run or listed in the help.
_COMMANDS = {
    "serve": "holdfast.cli.serve",
    "bench": "holdfast.cli.bench.command",
    "demo": "holdfast.cli.demo.command",
    "key": "holdfast.cli.options",
    "nodes": "holdfast.cli.nodes",
    "rooms": "holdfast.cli.rooms",
    "store": "holdfast.cli.store",
    "sessions": "holdfast.cli.operate",
    "players": "holdfast.cli.operate",
    "placements": "holdfast.cli.operate",
    "packets": "holdfast.cli.operate",
    "broadcast": "holdfast.cli.operate",
    "top": "holdfast.cli.top",
    "types": "holdfast.cli.types",
    "new": "holdfast.cli.new",
}


# What is compiled is a library, and no file of Python.
_BUILD = "pure Python" if str(channel.__file__).endswith(".py") else "compiled"


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = getattr(import_module(_COMMANDS[cmd_name]), cmd_name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(f"{holdfast.__version__} ({_BUILD})", prog_name="holdfast")
def main() -> None:
    """The session layer for multiplayer games: connections break, sessions don't.

    Run `holdfast demo` to see it work, `holdfast new mygame` to start a game of your own, and `holdfast serve game.py`
    to run it.
    """
