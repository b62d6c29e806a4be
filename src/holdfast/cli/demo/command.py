"""`holdfast demo`: reads the options, runs the show, draws it."""

import asyncio
import os
import sys
import webbrowser
from importlib import import_module
from random import Random
from typing import TYPE_CHECKING

import click
from rich.live import Live

from holdfast.cli.demo.keys import are_there_keys
from holdfast.cli.demo.screens import LiveScreen, PlainScreen, open_console
from holdfast.cli.demo.show import Screen, Settings, Show
from holdfast.cli.demo.table import Totals, verdict
from holdfast.http.limits import DEFAULT_PORT
from holdfast.server.run import event_loop

if TYPE_CHECKING:
    from holdfast.cli.demo.page import Page

_CUT_EVERY_S = 0.5
# Who plays wants to see the game too.
_CALM_CUT_EVERY_S = 3.0


@click.command()
@click.option(
    "--bots", type=click.IntRange(1, 100), default=8, show_default=True, metavar="N", help="How many bots play."
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    metavar="N",
    help="Stop after this long; exit with 1 if a message was lost or doubled. Default: until Ctrl-C.",
)
@click.option(
    "--cut-every",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Seconds between two cuts, on average, over all bots; 0 cuts none. Default: 0.5, and 3 beside a page.",
)
@click.option(
    "--crash-every",
    type=click.FloatRange(0),
    metavar="SECONDS",
    default=0.0,
    help="Kill the server this often, as the key c does. Default: only when the key is pressed.",
)
@click.option("--seed", type=int, help="Repeat the chance of an earlier run: where bots go, which links are cut.")
@click.option("--terminal", is_flag=True, help="No page in the browser: only bots, here.")
@click.option("--port", type=click.IntRange(0, 65_535), default=7776, show_default=True, help="Where the page is.")
@click.option(
    "--http-port",
    type=click.IntRange(0, 65_535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Where the dashboard is; 0 for any port, as when this one is taken.",
)
@click.option("--open/--no-open", "opens", default=True, help="Whether to open the page in a browser at once.")
@click.option("--plain", is_flag=True, help="Print lines instead of a live table, as is done without a terminal.")
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
    """See it work: play against bots over links that break, on a server that you may kill.

    The game is a page in your browser: pull its plug, slow it down, crash its server, load it again. The server is a
    process of its own that keeps its room in an SQLite file; the bots' connections go through a proxy that cuts them at
    random. A server that is killed is started again, and everybody returns. Messages are numbered at both ends, so what
    is lost or doubled is counted, not claimed.

    In a terminal c crashes the server, and q or Ctrl-C ends the demo.
    """
    console = open_console()
    is_live = console.is_terminal and not plain
    page = None if terminal else _page(seed, port)
    if cut_every is None:
        cut_every = _CUT_EVERY_S if page is None else _CALM_CUT_EVERY_S
    settings = Settings(
        bots, seconds, cut_every, crash_every, seed, has_keys=is_live and are_there_keys(), http_port=http_port
    )
    if page is not None and opens and is_live and _has_desktop():
        webbrowser.open(page.url)
    try:
        if is_live:
            with Live(console=console, auto_refresh=False) as live:
                show = _run(settings, LiveScreen(console, live), page)
        else:
            show = _run(settings, PlainScreen(console), page)
    except asyncio.CancelledError:
        raise click.Abort from None
    console.print(verdict(show), soft_wrap=True)
    if seconds is not None and not Totals.of(show.bots).is_whole:
        raise SystemExit(1)


def _has_desktop() -> bool:
    """Whether a browser would have a window: one in this terminal would only be in the way."""
    return sys.platform in {"darwin", "win32"} or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))


def _page(seed: int | None, port: int) -> "Page | None":
    """The page, if there is one in this installation."""
    # By name, because this takes half a second, and not everybody who uses the command line wants a demo.
    page: type[Page] = import_module("holdfast.cli.demo.page").Page
    if page.is_built():
        return page(Random(seed), port)  # noqa: S311 - where a link that is cut is torn
    click.echo(
        "The demo's page is not built: `make web` does it, and so does a wheel. Here is the terminal's.", err=True
    )
    return None


def _run(settings: Settings, screen: Screen, page: "Page | None") -> Show:
    show = Show(settings, screen, page)
    try:
        with asyncio.Runner(loop_factory=event_loop()) as runner:
            runner.run(show.run())
    except* click.ClickException as failures:
        raise failures.exceptions[0] from None
    return show
