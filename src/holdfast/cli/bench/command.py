"""`holdfast bench`: the options, the progress, and the verdict."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from holdfast.cli.bench.load import load_bot
from holdfast.cli.bench.run import BenchPlan, Measured, Run, load_processes
from holdfast.cli.bench.tally import Histogram
from holdfast.cli.options import flag_option, seconds_option
from holdfast.core.addresses import is_loopback

# If the load itself is late by more than this share of the answers' latency, it measures itself.
_LATE_SHARE = 0.25
_LATE_MS = 2.0
_BAR = 40
_PLAIN_S = 5.0


@dataclass(frozen=True)
class Objectives:
    """What the run must reach; None: anything."""

    p99_ms: float | None
    cpu_percent: float | None
    memory_mib: float | None
    lost: int
    duplicated: int


@click.command()
@click.argument("game", default="")
@click.option(
    "--bot", required=True, metavar="FILE", help="The file that says what a player does: `async def play(session)`."
)
@click.option("--clients", type=click.IntRange(1, 100_000), default=100, show_default=True, metavar="N")
@seconds_option("--seconds", 30.0, "How long to measure, after all bots have signed in.")
@click.option(
    "--drop-rate",
    type=click.FloatRange(0, 10),
    default=0.0,
    show_default=True,
    metavar="SHARE",
    help="The share of the connections that is cut each second, at random: 0.01 is one in a hundred.",
)
@click.option("--url", default="", help="Load a running server, as in ws://127.0.0.1:7777, in place of GAME.")
@flag_option("--remote", "Allow a --url on another machine. Load only servers that are yours.")
@click.option("--store", metavar="URL", help="Where durable rooms are saved. Default: a temporary SQLite file.")
@click.option(
    "--processes", type=click.IntRange(1, 64), metavar="N", help="Processes of the load. Default: the cores but one."
)
@click.option("--seed", type=int, default=1, show_default=True, help="The seed of the bots' chance and of the cuts.")
@click.option("--p99-ms", type=click.FloatRange(0), metavar="MS", help="Objective: 99 of 100 answers come within this.")
@click.option("--cpu-percent", type=click.FloatRange(0), metavar="PERCENT", help="Objective: the server uses no more.")
@click.option("--memory-mib", type=click.FloatRange(0), metavar="MIB", help="Objective: the server has no more.")
@click.option("--lost", type=click.IntRange(0), default=0, show_default=True, help="Objective: no more are lost.")
@click.option(
    "--duplicated", type=click.IntRange(0), default=0, show_default=True, help="Objective: no more come twice."
)
def bench(  # noqa: PLR0913 - one parameter for each option
    *,
    game: str,
    bot: str,
    clients: int,
    seconds: float,
    drop_rate: float,
    url: str,
    remote: bool,
    store: str | None,
    processes: int | None,
    seed: int,
    p99_ms: float | None,
    cpu_percent: float | None,
    memory_mib: float | None,
    lost: int,
    duplicated: int,
) -> None:
    """Load a game with bots, break their connections, and say what a core can carry.

    GAME is a file or module, as for `holdfast serve`; it is served by a process of its own, on this machine. The bots
    are clients of the Python SDK in other processes. The exit code is 1 if an objective is not met or a bot fails.
    Ctrl-C stops and prints what there is.
    """
    _check_target(game, url, remote=remote)
    if url and (cpu_percent is not None or memory_mib is not None):
        raise click.UsageError("--cpu-percent and --memory-mib need a server that this command starts: give GAME.")
    if url and store is not None:
        raise click.UsageError("--store is for a server that this command starts: give GAME.")
    # Here too, so that an error in it is shown at once.
    load_bot(bot)
    plan = BenchPlan(
        game, url, bot, clients, seconds, drop_rate, min(processes or load_processes(), clients), store, seed
    )
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder, _Shown(plan, console) as shown:
        run = Run(plan, folder, shown.draw)
        with run.processes():
            try:
                run.start()
                run.play()
            except KeyboardInterrupt:
                shown.note("Stopped; press Ctrl-C again to stop at once.")
            run.finish()
    objectives = Objectives(p99_ms, cpu_percent, memory_mib, lost, duplicated)
    for line in report(plan, run.measured):
        console.print(line, soft_wrap=True)
    verdicts = list(judge(run.measured, objectives))
    for is_met, words in verdicts:
        console.print(Text(words, style="green" if is_met else "bold red"), soft_wrap=True)
    if not all(is_met for is_met, _ in verdicts):
        raise SystemExit(1)


def _check_target(game: str, url: str, *, remote: bool) -> None:
    if bool(game) == bool(url):
        raise click.UsageError("Give a GAME to serve, as in game.py, or the --url of a running server.")
    if url and not remote:
        host = urlsplit(url).hostname or ""
        if not (host == "localhost" or is_loopback(host)):
            raise click.UsageError(f"{url} is not on this machine. If that server is yours, add --remote.")


class _Shown:
    """A progress bar in a terminal, a line now and then elsewhere."""

    def __init__(self, plan: BenchPlan, console: Console) -> None:
        self._plan = plan
        self._console = console
        columns = (TextColumn("{task.description:<8}"), BarColumn(), TextColumn("{task.fields[news]}"))
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task("start", total=1.0, news="")
        self._last: tuple[str, int] = ("", 0)

    def __enter__(self) -> "_Shown":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def note(self, words: str) -> None:
        """A line that stays."""
        self._console.print(words)

    def draw(self, measured: Measured) -> None:
        """What there is so far."""
        tally, plan = measured.tally, self._plan
        news = (
            f"{tally.signed_in:,}/{plan.clients:,} bots  {tally.sent:,} sent  {tally.received:,} received"
            f"  {tally.drops:,} drops  {tally.lost:,} lost"
        )
        if (answers := answers_of(measured)[1]).total:
            news += f"  p99 {answers.within_ms(0.99):.1f} ms"
        if measured.phase == "measure":
            completed, part = measured.took_s / max(plan.seconds, 1e-9), int(measured.took_s / _PLAIN_S)
        else:
            completed, part = tally.signed_in / plan.clients, 0
        self._progress.update(self._task, completed=completed, description=measured.phase, news=news)
        if not self._console.is_terminal and self._last != (measured.phase, part):
            self._console.print(f"{measured.phase}: {news}", soft_wrap=True)
        self._last = (measured.phase, part)


# What is printed


def answers_of(measured: Measured) -> tuple[str, Histogram]:
    """The latencies that the objective is about: of asks, if the bots ask, else of messages."""
    if measured.tally.asks.total:
        return "asked and answered", measured.tally.asks
    return "sent and acknowledged", measured.tally.sends


def lost_and_duplicated(measured: Measured) -> tuple[int, int]:
    """By the clients' numbers and, where the server is ours, by what it has counted."""
    tally, server = measured.tally, measured.server
    lost, duplicated = tally.lost + tally.unconfirmed, tally.duplicated
    if server is not None:
        lost += max(0, tally.acknowledged - server.applied)
        if not server.has_agents:
            duplicated += max(0, server.applied - tally.sent)
    return lost, duplicated


def report(plan: BenchPlan, measured: Measured) -> Iterator[Text]:
    """The figures, a line each."""
    tally = measured.tally
    took_s = max(measured.took_s, 1e-9)
    cuts = f", {plan.drop_rate:g} of the connections cut a second" if plan.drop_rate else ""
    stopped = "" if measured.is_complete else " (stopped)"
    yield Text.assemble((f"{plan.clients:,} bots for {measured.took_s:.0f} s{stopped}{cuts}", "bold"))
    lost, duplicated = lost_and_duplicated(measured)
    gone = f", {tally.undelivered:,} to seats that were gone" if tally.undelivered else ""
    yield _line("sent", f"{tally.sent:,} messages, {tally.acknowledged:,} acknowledged{gone}")
    yield _line("received", f"{tally.received:,} messages")
    yield _line("lost", f"{lost:,}; duplicated {duplicated:,}")
    yield _line(
        "drops",
        f"{tally.drops:,}, of which {tally.injected:,} were cut here; {tally.resumed:,} resumed,"
        f" {tally.resynced:,} resynced, {tally.reset:,} reset; messages replayed: {tally.replayed:,}",
    )
    if tally.finished:
        yield _line("finished", f"{tally.finished:,} bots, each replaced by another")
    if measured.server is not None and measured.server_cpu_s is not None:
        yield from _server_lines(measured, measured.server_cpu_s / took_s)
    share = measured.load_cpu_s / took_s / plan.processes
    late_ms = tally.late.within_ms(0.99)
    processes = "1 process" if plan.processes == 1 else f"{plan.processes} processes"
    yield _line("load", f"{processes}, {share:.0%} of a core each, late by {late_ms:.1f} ms (p99)")
    _, answers = answers_of(measured)
    if answers.total and late_ms > max(_LATE_MS, _LATE_SHARE * answers.within_ms(0.99)):
        advice = (
            "The load itself is late: its latencies are not the server's. Use fewer --clients, or a quieter machine"
        )
        yield Text(f"  {advice} with more cores.", style="yellow")
    for name, each in (("sends", tally.sends), ("asks", tally.asks)):
        if each.total:
            yield from _histogram(name, each)
    for reason in tally.reasons:
        yield Text(reason, style="red")


def _server_lines(measured: Measured, cores: float) -> Iterator[Text]:
    assert measured.server is not None
    yield _line("server", f"{cores:.1%} of a core, {measured.server.memory_mib:.0f} MiB")
    if cores > 0:
        yield _line(
            "capacity", f"{measured.players / cores:,.0f} players per core, if the cost of each stays what it is"
        )
    if measured.server.throttled:
        yield _line("throttled", f"{measured.server.throttled:,} messages came faster than the limits allow")


def _line(label: str, text: str) -> Text:
    return Text.assemble((f"  {label:<10}", "dim"), text)


def _histogram(name: str, answers: Histogram) -> Iterator[Text]:
    shares = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0))
    yield _line(name, "  ".join(f"{label} {answers.within_ms(share):.2f} ms" for label, share in shares))
    bands = answers.bands()
    most = max(count for *_, count in bands)
    for low, high, count in bands:
        bar = "█" * round(_BAR * count / most)
        yield Text(f"    {low:>8.4g} – {high:<8.4g} ms {bar:<{_BAR}} {count:,}")


def judge(measured: Measured, objectives: Objectives) -> Iterator[tuple[bool, str]]:
    """Each objective: whether it is met, and in words."""
    lost, duplicated = lost_and_duplicated(measured)
    took_s = max(measured.took_s, 1e-9)
    what, answers = answers_of(measured)
    cpu = None if measured.server_cpu_s is None else measured.server_cpu_s / took_s * 100
    memory = None if measured.server is None else measured.server.memory_mib
    for name, value, limit, unit in (
        ("lost", lost, objectives.lost, ""),
        ("duplicated", duplicated, objectives.duplicated, ""),
        (f"p99, {what},", answers.within_ms(0.99) if answers.total else None, objectives.p99_ms, " ms"),
        ("server CPU", cpu, objectives.cpu_percent, " %"),
        ("server memory", memory, objectives.memory_mib, " MiB"),
    ):
        if limit is None:
            continue
        if value is None:
            yield False, f"✗ {name} was not measured, at most {limit:g}{unit} was wanted"
        else:
            is_met = value <= limit
            yield is_met, f"{'✓' if is_met else '✗'} {name} {value:,.4g}{unit}, at most {limit:g}{unit}"
    if measured.tally.failed:
        yield False, f"✗ {measured.tally.failed:,} bots failed"
