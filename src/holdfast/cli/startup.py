"""What `holdfast serve` prints when it listens."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

import holdfast
from holdfast import Server, WebSocket
from holdfast.cli.loading import Game
from holdfast.cli.reload import Supervised
from holdfast.cli.showing import counted
from holdfast.http.api import HttpApi
from holdfast.http.static import PLAY
from holdfast.transports.links import peer_name

IN_MEMORY = "memory:"
"""The store that keeps nothing when the process ends, not even the key for guest credentials."""

Fact = tuple[str, str]
"""A label, which is empty for a note on the line before, and its text."""


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What outlives the process; the store is "" if there is none, or the game's own."""

    store: str
    is_lazy: bool = False
    forgets_guests: bool = False
    supervised: Supervised | None = None


def announce(console: Console, server: Server, game: Game, store_info: StoreInfo) -> None:
    """Print what is served, where, and what will outlive the process."""
    console.print(Text.assemble(("Holdfast", "bold"), f" {holdfast.__version__} serves {game.name}"), soft_wrap=True)
    for label, fact in _facts(server, game, store_info):
        if fact:
            console.print(Text.assemble((f"  {label:<10}", "dim"), fact), soft_wrap=True)
    console.print("Press Ctrl-C to stop.", style="dim")


def _facts(server: Server, game: Game, store_info: StoreInfo) -> Iterator[Fact]:
    rooms = []
    for room in game.rooms:
        durability = "" if room.durability == "memory" else f", {room.durability}"
        rooms.append(f"{room.kind} ({room.max_players:g} seats{durability})")
    yield "rooms", ", ".join(rooms)
    yield from _listening(server)
    if isinstance(server.http, HttpApi) and server.http.web is not None:
        yield "play", f"{server.http.scheme}://{peer_name(server.addresses['http'])}{PLAY}/"
    if store_info.supervised is not None:
        yield from store_info.supervised.facts(server.room_types)
    yield from _stored(server, game, store_info)
    if store_info.forgets_guests:
        yield "guests", "lose their identity when the server restarts; see --store and --secret-file"


def _listening(server: Server) -> Iterator[Fact]:
    """Where it listens, and who may connect."""
    listeners = server.listeners
    yield from server.urls.items()
    for tls in listeners.certificates:
        yield "tls", f"{tls.certificate}, read again when it changes"
    if any(each.insecure and each.is_readable for each in listeners.listen):
        yield "", "insecure: unencrypted traffic can be read and changed on its way"
    if listeners.origins:
        yield "origins", ", ".join(listeners.origins)
    elif any(isinstance(each, WebSocket) and each.is_public for each in listeners.listen):
        yield "origins", "any: pages of all sites may connect; allow only your game's with --origin"
    for names, has_header in dict.fromkeys((tuple(e.trusted_proxies), e.proxy_protocol) for e in listeners.listen):
        if names:
            yield "proxies", ", ".join(names) + (", with the PROXY protocol" if has_header else "")
    if server.limits.full_share:
        yield "shares", f"no limit per address for {', '.join(server.limits.full_share)}"
    if server.http is not None:
        address = f"{server.http.scheme}://{peer_name(server.addresses['http'])}"
        yield "http", f"{address}/docs"
        yield "dashboard", f"{address}/"


def _stored(server: Server, game: Game, store_info: StoreInfo) -> Iterator[Fact]:
    recovery = server.parts.recovery
    if recovery is None:
        return
    supervised = store_info.supervised
    is_temporary = supervised is not None and store_info.store == supervised.store
    where = "temporary, until this command ends; use --store to keep it" if is_temporary else store_info.store
    yield "store", where or "set up by the game"
    if game.server is not None or any(room.durability != "memory" for room in game.rooms):
        words = f"{counted(len(server.rooms), 'room')}, {counted(len(server.sessions), 'session')}"
        if store_info.is_lazy:
            words += "; others are recovered on request"
        if recovery.set_aside:
            words += f"; {counted(len(recovery.set_aside), 'record')} set aside, see the log"
        yield "recovered", words
    else:
        yield "", 'no room is durable, so no room is saved: set durability = "commit" on a Room class to save it'
    if store_info.store == IN_MEMORY:
        yield "", "in memory: everything is lost when this process ends"
