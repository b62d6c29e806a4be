"""The command `holdfast`."""

import click

import holdfast
from holdfast.cli.demo.command import demo
from holdfast.cli.new.command import new
from holdfast.cli.operate.packets import packets
from holdfast.cli.operate.placements import placements
from holdfast.cli.operate.players import players
from holdfast.cli.operate.sessions import sessions
from holdfast.cli.removed import key
from holdfast.cli.rooms.commands import rooms
from holdfast.cli.serve import serve
from holdfast.cli.types.command import types


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(holdfast.__version__, prog_name="holdfast")
def main() -> None:
    """The session layer for multiplayer games: connections break, sessions don't.

    Begin with `holdfast demo` to see it work and `holdfast new mygame` for a game to change; `holdfast serve game.py`
    runs one.
    """


main.add_command(serve)
main.add_command(demo)
main.add_command(key)
main.add_command(rooms)
main.add_command(sessions)
main.add_command(players)
main.add_command(placements)
main.add_command(packets)
main.add_command(types)
main.add_command(new)
