"""`holdfast demo`: reads the options, runs the show, draws it."""

import asyncio
import logging

import click
from rich.console import Console
from rich.live import Live

from holdfast.cli.demo.screens import LiveScreen, PlainScreen
from holdfast.cli.demo.show import Screen, Settings, Show
from holdfast.cli.demo.table import Totals, verdict
from holdfast.server.run import event_loop


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
    default=0.5,
    show_default=True,
    help="Seconds between two cuts, on average, over all links; 0 cuts none.",
)
@click.option("--seed", type=int, help="Repeat the chance of an earlier run: where bots go, which links are cut.")
@click.option("--plain", is_flag=True, help="Print lines instead of a live table, as is done without a terminal.")
def demo(bots: int, seconds: float | None, cut_every: float, seed: int | None, *, plain: bool) -> None:
    """See it work: bots play a game over links that break.

    A server, a small game and its players run on this machine, and a proxy between them cuts their connections at
    random. Messages are numbered at both ends, so what is lost or doubled is counted, not claimed.
    """
    # A busy machine makes the server warn of skipped ticks; that is nothing to interrupt the show for.
    logging.getLogger("holdfast").setLevel(logging.ERROR)
    console = Console(highlight=False)
    settings = Settings(bots, seconds, cut_every, seed)
    if plain or not console.is_terminal:
        show = _run(settings, PlainScreen(console))
    else:
        with Live(console=console, auto_refresh=False) as live:
            show = _run(settings, LiveScreen(console, live))
    console.print(verdict(show), soft_wrap=True)
    if seconds is not None and not Totals.of(show.contestants).is_whole:
        raise SystemExit(1)


def _run(settings: Settings, screen: Screen) -> Show:
    show = Show(settings, screen)
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        runner.run(show.run())
    return show
