"""`holdfast demo`: the options, and what is printed: a live table in a terminal, or a line per second elsewhere."""

import asyncio
import io
import os
import sys
import webbrowser
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from random import Random
from typing import TYPE_CHECKING

import click
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.cli.demo.nodes import NODES_MAX, DemoNodes
from holdfast.cli.demo.show import SCHEMES, Bot, DemoSettings, Draw, Show, are_there_keys
from holdfast.cli.options import flag_option, port_option
from holdfast.cluster.child_nats import ChildNatsFailed, find_program
from holdfast.http.api import DEFAULT_PORT
from holdfast.server.run import event_loop

if TYPE_CHECKING:
    from holdfast.cli.demo.page import Page

_CUT_EVERY_S = 0.5
_LIVE_DRAW_S = 0.125
_PLAIN_DRAW_S = 1.0
# Fewer cuts beside a page, so that its player can follow the game.
_CALM_CUT_EVERY_S = 3.0

# From this width on, the table also has the latency and the coins.
_WIDE_COLUMNS = 108
# The screen's lines around the rows: title, head, two rules, totals, the server, an explanation, the keys, the cursor.
_FRAME_LINES = 11

_EXPLANATION = (
    "Connections are cut at random; the seat is held and the session resumes. Both\n"
    "ends number and count their messages: lost and duplicated must stay 0."
)
_STATUS_STYLES = {"connected": "green", "disconnected": "yellow", "ended": "red"}
_OUTCOME_STYLES = {"resumed": "green", "resynced": "yellow", "reset": "red"}


@click.command()
@click.option(
    "--bots", type=click.IntRange(1, 100), default=8, show_default=True, metavar="N", help="The number of bots."
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    metavar="N",
    help="Stop after N seconds, with exit code 1 if a message was lost or duplicated. Default: run until Ctrl-C.",
)
@click.option(
    "--cut-every",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="The average time between two cuts, over all bots; 0 for no cuts. Default: 3, or 0.5 with --terminal.",
)
@click.option(
    "--crash-every",
    type=click.FloatRange(0),
    metavar="SECONDS",
    default=0.0,
    help="Kill the server at this interval. Default: only when the key c is pressed.",
)
@click.option("--seed", type=int, help="The seed of the random choices: where bots go, which connections are cut.")
@click.option(
    "--transport",
    type=click.Choice([*SCHEMES]),
    default="websocket",
    show_default=True,
    help="How the bots connect, with --terminal; over enet packets are lost, too.",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, NODES_MAX),
    default=1,
    show_default=True,
    metavar="N",
    help='Run the game on N nodes of a cluster, to kill, to drain and to move the room to; needs "holdfast[workers]".',
)
@flag_option("--terminal", "Run only bots, in the terminal, without a page in the browser.")
@port_option("--port", 7776, "The port of the page; 0 picks a free one.")
@port_option("--http-port", DEFAULT_PORT, "The port of the dashboard; 0, or a port that is taken, picks a free one.")
@click.option("--open/--no-open", "opens", default=True, help="Whether to open the page in a browser.")
@flag_option("--plain", "Print lines instead of a live table, as without a terminal.")
def demo(
    *,
    bots: int,
    seconds: float | None,
    cut_every: float | None,
    crash_every: float,
    seed: int | None,
    transport: str,
    nodes: int,
    terminal: bool,
    port: int,
    http_port: int,
    opens: bool,
    plain: bool,
) -> None:
    """See it work: play against bots while connections break, on a server that you can kill.

    The game is a page in your browser: unplug it, slow it down, crash its server, reload it. The server is a process of
    its own that keeps its room in an SQLite file; the bots connect through a proxy that cuts connections at random. A
    killed server is restarted, and all players return. Both ends number and count their messages, so lost and
    duplicated messages are measured, not claimed.

    With --nodes 3 the game runs on three nodes of a cluster, and the page has buttons to kill a node, to drain one and
    to move the room: another node goes on with it, and the players stay in their game.

    In a terminal, press c to crash the server (or the node with the room), and q or Ctrl-C to stop the demo.
    """
    if transport != "websocket" and not terminal:
        raise click.UsageError(f"--transport {transport} needs --terminal: the page uses WebSocket.")
    if nodes > 1:
        _check_nodes(transport)
    console = _open_console()
    is_live = console.is_terminal and not plain
    page = None if terminal else _page(seed, port)
    if cut_every is None:
        cut_every = _CUT_EVERY_S if page is None else _CALM_CUT_EVERY_S
    has_keys = is_live and are_there_keys()
    settings = DemoSettings(bots, seconds, cut_every, crash_every, seed, has_keys, http_port, transport, nodes)
    # A text browser in this terminal would be in the way.
    has_desktop = sys.platform in {"darwin", "win32"} or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    if page is not None and opens and is_live and has_desktop:
        webbrowser.open(page.url)
    try:
        if is_live:
            with Live(console=console, auto_refresh=False) as live:
                show = _run(
                    settings, lambda show: live.update(picture(show, console), refresh=True), _LIVE_DRAW_S, page
                )
        else:
            show = _run(settings, _plain_screen(console), _PLAIN_DRAW_S, page)
    except asyncio.CancelledError:
        raise click.Abort from None
    console.print(_verdict(show), soft_wrap=True)
    if seconds is not None and not Totals(show.bots).is_whole:
        raise SystemExit(1)


def _check_nodes(transport: str) -> None:
    """Say what is missing for several nodes, before anything is started."""
    if transport != "websocket":
        raise click.UsageError(f"--nodes uses WebSocket: leave out --transport {transport}.")
    if sys.platform == "win32":
        raise click.UsageError("--nodes needs Linux or macOS: run it without.")
    try:
        find_program()
    except ChildNatsFailed as error:
        raise click.ClickException(f"--nodes needs a NATS server, and {error}") from None
    if find_spec("nats") is None:
        raise click.ClickException(
            '--nodes needs a client of NATS, and there is none here: pip install "holdfast[workers]"'
        )


def _page(seed: int | None, port: int) -> "Page | None":
    """The page, if it is built in this installation."""
    # Imported here because it takes half a second.
    page: type[Page] = import_module("holdfast.cli.demo.page").Page
    if page.is_built():
        return page(Random(seed), port)  # noqa: S311 - not for secrets
    click.echo("The demo's page is not built, so this is the terminal version. Build it with `make web`.", err=True)
    return None


def _run(settings: DemoSettings, draw: Draw, draw_s: float, page: "Page | None") -> Show:
    show = Show(settings, draw, draw_s, page)
    try:
        with asyncio.Runner(loop_factory=event_loop()) as runner:
            runner.run(show.run())
    except* click.ClickException as failures:
        raise failures.exceptions[0] from None
    return show


# What is printed


class Totals:
    """The sums over all sessions."""

    def __init__(self, bots: Sequence[Bot]) -> None:
        self.sessions = len(bots)
        self.disconnected = sum(bot.status != "connected" for bot in bots)
        self.drops = sum(bot.session.drops for bot in bots)
        self.resumes = sum(bot.resumes for bot in bots)
        self.sent = sum(bot.sent for bot in bots)
        self.received = sum(bot.received for bot in bots)
        self.replayed = sum(bot.replayed for bot in bots)
        self.lost = sum(bot.lost for bot in bots)
        self.duplicated = sum(bot.duplicated for bot in bots)
        self.refused = sum(bot.refused for bot in bots)
        latencies = [bot.session.latency_ms for bot in bots if bot.session.latency_ms]
        self.latency_ms = sum(latencies) / len(latencies) if latencies else 0.0
        has_ended = any(bot.error is not None for bot in bots)
        self.is_whole = not (self.lost or self.duplicated or self.refused or has_ended)
        """Whether no message was lost, duplicated or refused and no session ended early."""


def picture(show: Show, console: Console) -> RenderableType:
    """The whole screen, with as many rows as fit in the terminal."""
    bots = show.bots
    rows_max = max(console.height - _FRAME_LINES, 3) if console.is_terminal else len(bots)
    hidden = max(len(bots) - rows_max, 0)
    total = Totals(bots)
    table = _table(bots[: len(bots) - hidden], total, is_wide=console.width >= _WIDE_COLUMNS, hidden=hidden)
    parts: list[RenderableType] = [_title(show), *_places(show), table, _server_line(show)]
    parts.append(Text(_EXPLANATION, style="dim"))
    if show.settings.has_keys and show.phase != "over":
        keys = (
            ("c", "bold"),
            f" crash the {'node with the room' if show.settings.nodes > 1 else 'server'} (kill -9)   ",
            ("q", "bold"),
            " quit (or Ctrl-C)",
        )
        parts.append(Text.assemble(*keys))
    return Group(*parts)


def _places(show: Show) -> list[Text]:
    """The addresses of the page and the dashboard."""
    if show.page is None:
        return []
    dashboard = show.server.ready.http if show.server.ready is not None else ""
    return [Text.assemble("Play: ", (show.page.url, "bold underline"), f"   Dashboard: {dashboard or '…'}")]


def _line(show: Show) -> str:
    """The current state in one line."""
    total = Totals(show.bots)
    return (
        f"{show.elapsed_s:5.1f} s  sessions {total.sessions} · disconnected {total.disconnected} · drops {total.drops}"
        f" · sent {total.sent} · received {total.received} · replayed {total.replayed}"
        f" · lost {total.lost} · duplicated {total.duplicated}"
        f" · {_server_words(show)}, killed {_times(show.server.crashes)}"
    )


def _server_words(show: Show) -> str:
    """Whether the server is up; or the nodes, and where the room is."""
    server = show.server
    if not isinstance(server, DemoNodes):
        return f"server {'up' if server.ready else 'down'}"
    nodes = server.nodes
    up = sum(node.pid is not None for node in nodes)
    return f"{up} of {len(nodes)} nodes up, room on {server.room_node or 'none'}"


def _verdict(show: Show) -> Text:
    """The result of the run."""
    total = Totals(show.bots)
    text = Text(
        f"{show.elapsed_s:.0f} s: {total.drops:,} drops, {total.resumes:,} resumes, {total.sent:,} messages sent,"
        f" {total.received:,} received, {total.replayed:,} replayed.\n"
    )
    if show.server.crashes and isinstance(show.server, DemoNodes):
        text.append(f"Nodes killed {_times(show.server.crashes)}{_takeover(show.server)}.\n")
    elif show.server.crashes:
        text.append(f"Server killed {_times(show.server.crashes)}, back after {show.server.back_after_s:.1f} s.\n")
    text.append(
        f"{total.lost:,} lost, {total.duplicated:,} duplicated.", style="bold green" if total.is_whole else "bold red"
    )
    if total.refused:
        text.append(f" {total.refused:,} refused or not understood.", style="bold red")
    for bot in show.bots:
        if bot.error is not None:
            text.append(f"\n{bot.own.name}: {bot.error}", style="red")
    if show.log:
        text.append(f"\nThe server's log:\n{show.log}", style="red")
    return text


def _title(show: Show) -> Text:
    settings = show.settings
    cuts = f"a cut every {settings.cut_every_s:g} s" if settings.cut_every_s else "no cuts"
    text = f" · {settings.bots} bots · {cuts} · {show.elapsed_s:.0f} s"
    return Text.assemble(("Holdfast demo", "bold"), text, f" · {show.phase}" if show.phase else "")


def _nodes_line(cluster: DemoNodes, total: Totals) -> Text:
    """The nodes, how they are, and where the room is."""
    parts: list[str | tuple[str, str]] = ["Nodes: "]
    for node in cluster.nodes:
        what = node.state + (", has the room" if node.has_room else "")
        parts += [(f"{node.name} ({what})", "bold red" if node.pid is None else "bold" if node.has_room else ""), "  "]
    if cluster.crashes:
        what = "nothing lost" if total.is_whole else f"{total.lost:,} lost, {total.duplicated:,} duplicated"
        style = "bold green" if total.is_whole else "bold red"
        parts.append((f"\nKilled {_times(cluster.crashes)}{_takeover(cluster)}, {what}.", style))
    return Text.assemble(*parts)


def _takeover(cluster: DemoNodes) -> str:
    return f", the room was elsewhere after {cluster.back_after_s:.1f} s" if cluster.back_after_s else ""


def _server_line(show: Show) -> Text:
    """The state of the server."""
    server, total = show.server, Totals(show.bots)
    if isinstance(server, DemoNodes):
        return _nodes_line(server, total)
    if server.ready is None:
        return Text(f"Server killed {_times(server.crashes + server.is_dying)}, restarting …", style="bold yellow")
    if not server.crashes:
        invitation = " Press c to kill it." if show.settings.has_keys else ""
        return Text(f"Server: process {server.ready.pid}, with its room in an SQLite file.{invitation}")
    what = "nothing lost" if total.is_whole else f"{total.lost:,} lost, {total.duplicated:,} duplicated"
    return Text(
        f"Server killed {_times(server.crashes)}, back after {server.back_after_s:.1f} s, {what}.",
        style="bold green" if total.is_whole else "bold red",
    )


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def _table(bots: Sequence[Bot], total: Totals, *, is_wide: bool, hidden: int) -> Table:
    gap = 1 if is_wide else 0
    table = Table(box=box.SIMPLE, show_footer=True, show_edge=False, pad_edge=False, padding=(0, gap, 0, 0))
    table.add_column("player", Text(f"all {total.sessions}"), no_wrap=True)
    table.add_column("status", Text(f"{total.sessions - total.disconnected} connected"), min_width=len("disconnected"))
    table.add_column("drops", str(total.drops), justify="right")
    table.add_column("last return", min_width=len("resumed +123"), no_wrap=True)
    columns: list[tuple[str, RenderableType]] = [
        ("replayed", str(total.replayed)),
        ("sent", str(total.sent)),
        ("received", str(total.received)),
        ("lost", _count(total.lost)),
        ("duplicated", _count(total.duplicated)),
    ]
    if is_wide:
        columns += [("ms", f"{total.latency_ms:.1f}"), ("owns", ""), ("coins", "")]
    for heading, footer in columns:
        table.add_column(heading, footer, justify="right", no_wrap=True)
    for bot in bots:
        table.add_row(*_row(bot, is_wide=is_wide))
    if hidden:
        table.add_row(Text(f"+{hidden} more", style="dim"))
    return table


def _row(bot: Bot, *, is_wide: bool) -> list[RenderableType]:
    dash = Text("–", style="dim")
    outcome = bot.session.outcome
    last_return = dash
    if outcome is not None and outcome.kind != "new":
        style = _OUTCOME_STYLES.get(outcome.kind, "red")
        last_return = Text.assemble((outcome.kind, style), f" +{outcome.replayed}")
    cells: list[RenderableType] = [
        bot.own.name or "…",  # until its ship has one
        Text(bot.status, style=_STATUS_STYLES[bot.status]),
        str(bot.session.drops),
        last_return,
        *map(str, (bot.replayed, bot.sent, bot.received)),
        _count(bot.lost),
        _count(bot.duplicated),
    ]
    if is_wide:
        latency = f"{bot.session.latency_ms:.1f}" if bot.session.latency_ms else dash
        cells += [latency, bot.own.ship, str(bot.own.coins)]
    return cells


def _count(wrong: int) -> Text:
    return Text(str(wrong), style="bold red" if wrong else "green")


def _open_console() -> Console:
    """A console on standard output, buffered even if Python was told not to buffer.

    An unbuffered write that a signal interrupts is cut short: half a table, or a cursor that stays hidden.
    """
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and isinstance(out.buffer, io.RawIOBase):
        out = open(out.fileno(), "w", encoding=out.encoding, errors=out.errors, closefd=False)  # noqa: SIM115
    return Console(file=out, highlight=False)


def _plain_screen(console: Console) -> Draw:
    """A line for each draw, and a table at the end."""
    has_begun = False

    def draw(show: Show) -> None:
        nonlocal has_begun
        if not has_begun:
            has_begun = True
            for text in (*_places(show), _server_line(show)):
                console.print(text, soft_wrap=True)
        console.print(_line(show), soft_wrap=True)
        if show.phase == "over":
            console.print(picture(show, console))

    return draw
