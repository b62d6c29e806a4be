"""`holdfast demo`: read the options, run the demo, print the result."""

import asyncio
import os
import sys
import webbrowser
from importlib import import_module
from random import Random
from typing import TYPE_CHECKING

import click
from rich.live import Live

from holdfast.cli.demo.screen import Totals, live_screen, open_console, plain_screen, verdict
from holdfast.cli.demo.show import DemoSettings, Draw, Show, are_there_keys
from holdfast.http.limits import DEFAULT_PORT
from holdfast.server.run import event_loop

if TYPE_CHECKING:
    from holdfast.cli.demo.page import Page

_CUT_EVERY_S = 0.5
_LIVE_DRAW_S = 0.125
_PLAIN_DRAW_S = 1.0
# Fewer cuts beside a page, so that its player can follow the game.
_CALM_CUT_EVERY_S = 3.0


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
@click.option("--terminal", is_flag=True, help="Run only bots, in the terminal, without a page in the browser.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=7776,
    show_default=True,
    help="The port of the page; 0 picks a free one.",
)
@click.option(
    "--http-port",
    type=click.IntRange(0, 65_535),
    default=DEFAULT_PORT,
    show_default=True,
    help="The port of the dashboard; 0, or a port that is taken, picks a free one.",
)
@click.option("--open/--no-open", "opens", default=True, help="Whether to open the page in a browser.")
@click.option("--plain", is_flag=True, help="Print lines instead of a live table, as without a terminal.")
def demo(
    *,
    bots: int,
    seconds: float | None,
    cut_every: float | None,
    crash_every: float,
    seed: int | None,
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

    In a terminal, press c to crash the server, and q or Ctrl-C to stop the demo.
    """
    console = open_console()
    is_live = console.is_terminal and not plain
    page = None if terminal else _page(seed, port)
    if cut_every is None:
        cut_every = _CUT_EVERY_S if page is None else _CALM_CUT_EVERY_S
    settings = DemoSettings(
        bots, seconds, cut_every, crash_every, seed, has_keys=is_live and are_there_keys(), http_port=http_port
    )
    # A text browser in this terminal would be in the way.
    has_desktop = sys.platform in {"darwin", "win32"} or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    if page is not None and opens and is_live and has_desktop:
        webbrowser.open(page.url)
    try:
        if is_live:
            with Live(console=console, auto_refresh=False) as live:
                show = _run(settings, live_screen(console, live), _LIVE_DRAW_S, page)
        else:
            show = _run(settings, plain_screen(console), _PLAIN_DRAW_S, page)
    except asyncio.CancelledError:
        raise click.Abort from None
    console.print(verdict(show), soft_wrap=True)
    if seconds is not None and not Totals(show.bots).is_whole:
        raise SystemExit(1)


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
