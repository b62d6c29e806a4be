"""`holdfast demo`: reads the options, runs the show, draws it."""

import asyncio

import click
from rich.console import Console
from rich.live import Live

from holdfast.cli.demo.keys import are_there_keys
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
@click.option(
    "--crash-every",
    type=click.FloatRange(0),
    metavar="SECONDS",
    default=0.0,
    help="Kill the server this often, as the key c does. Default: only when the key is pressed.",
)
@click.option("--seed", type=int, help="Repeat the chance of an earlier run: where bots go, which links are cut.")
@click.option("--plain", is_flag=True, help="Print lines instead of a live table, as is done without a terminal.")
def demo(  # noqa: PLR0913 - one parameter for each option
    *, bots: int, seconds: float | None, cut_every: float, crash_every: float, seed: int | None, plain: bool
) -> None:
    """See it work: bots play a game over links that break, on a server that you may kill.

    The server is a process of its own that keeps its room in an SQLite file; the bots' connections go through a proxy
    that cuts them at random. Press c to kill the server with SIGKILL: it is started again, and everybody returns.
    Messages are numbered at both ends, so what is lost or doubled is counted, not claimed.

    In a terminal c crashes the server, and q or Ctrl-C ends the demo.
    """
    console = Console(highlight=False)
    is_live = console.is_terminal and not plain
    settings = Settings(bots, seconds, cut_every, crash_every, seed, has_keys=is_live and are_there_keys())
    try:
        if is_live:
            with Live(console=console, auto_refresh=False) as live:
                show = _run(settings, LiveScreen(console, live))
        else:
            show = _run(settings, PlainScreen(console))
    except asyncio.CancelledError:
        raise click.Abort from None
    console.print(verdict(show), soft_wrap=True)
    if seconds is not None and not Totals.of(show.bots).is_whole:
        raise SystemExit(1)


def _run(settings: Settings, screen: Screen) -> Show:
    show = Show(settings, screen)
    try:
        with asyncio.Runner(loop_factory=event_loop()) as runner:
            runner.run(show.run())
    except* click.ClickException as failures:
        raise failures.exceptions[0] from None
    return show
