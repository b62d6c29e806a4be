"""What `holdfast serve` says when it listens."""

from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

import holdfast
from holdfast import Room, Server
from holdfast.cli.listen_options import listen_facts
from holdfast.cli.loading import Game
from holdfast.cli.reload.supervised import Supervised
from holdfast.http.api import HttpApi
from holdfast.http.static import PLAY
from holdfast.server.durability.recovery import Recovery
from holdfast.transports.links import peer_name

FORGETFUL = "memory:"
"""The store that keeps nothing when the process ends, the guests' secret neither."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """What outlives the process: by default nothing, with a store of the game's own whatever that keeps."""

    store: str
    is_lazy: bool = False
    forgets_guests: bool = False
    supervised: Supervised | None = None


def announce(console: Console, server: Server, game: Game, keeping: Keeping) -> None:
    """Say what is served, where, and what will outlive the process."""
    console.print(Text.assemble(("Holdfast", "bold"), f" {holdfast.__version__} serves {game.name}"), soft_wrap=True)
    for name, fact in _facts(server, game, keeping):
        if fact:
            console.print(Text.assemble((f"  {name:<10}", "dim"), fact), soft_wrap=True)
    console.print("Ctrl-C ends it.", style="dim")


def _facts(server: Server, game: Game, keeping: Keeping) -> list[tuple[str, str]]:
    facts = [("rooms", ", ".join(map(_room_words, game.rooms)))]
    facts += listen_facts(server)
    if isinstance(server.http, HttpApi) and server.http.web is not None:
        facts.append(("play", f"{server.http.scheme}://{peer_name(server.addresses['http'])}{PLAY}/"))
    if keeping.supervised is not None:
        facts += keeping.supervised.facts(server.room_types)
    recovery = server.node.recovery
    if recovery is not None:
        is_temporary = keeping.supervised is not None and keeping.store == keeping.supervised.store
        where = "temporary, until this command ends; --store keeps it" if is_temporary else keeping.store
        facts.append(("store", where or "of the game's own"))
        if game.server is not None or any(room.durability != "memory" for room in game.rooms):
            facts.append(("recovered", _recovered(server, recovery, is_lazy=keeping.is_lazy)))
        else:
            facts.append(
                ("", 'no room is durable, so none is saved: set durability = "commit" on those that should be')
            )
        if keeping.store == FORGETFUL:
            facts.append(("", "it is in memory: when this process ends, everything is forgotten"))
    if keeping.forgets_guests:
        facts.append(("guests", "will not be known after a restart; see --store and --secret-file"))
    return facts


def _room_words(room: type[Room[Any]]) -> str:
    durability = "" if room.durability == "memory" else f", {room.durability}"
    return f"{room.kind} ({room.max_players:g} seats{durability})"


def _recovered(server: Server, recovery: Recovery, *, is_lazy: bool) -> str:
    words = f"{_count(len(server.rooms), 'room')}, {_count(len(server.sessions), 'session')}"
    if is_lazy:
        words += "; others come back when they are asked for"
    if recovery.set_aside:
        words += f"; {_count(len(recovery.set_aside), 'record')} set aside, see the log"
    return words


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
