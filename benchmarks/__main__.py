"""Measure everything, or some of it; write `benchmarks/results/latest.json` and the tables of `docs/performance.md`.

The systems take turns in the same run. The first run installs the foreign ones into benchmarks/peers; one that cannot
be had is named and left out. Press Ctrl-C to stop and keep what there is. Benchmarks that do not run keep their last
figures.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import durable, echo, growth, held, joins, neighbours, pauses, report, search, shared_state, storm, tick
from benchmarks.report import BUSY
from benchmarks.results import RESULTS, Figures, Run, this_run, write
from benchmarks.rounds import Rounds, Tell, table_of
from benchmarks.systems import ROOT, SYSTEMS, install

MODULES: dict[str, ModuleType] = {
    module.__name__.rpartition(".")[2]: module
    for module in (echo, tick, joins, held, growth, shared_state, storm, durable, pauses, search, neighbours)
}
CLUSTER = ("cluster_takeover", "cluster_moves", "cluster_relay", "cluster_nodes")
"""With three NATS servers and three nodes; their name for all of them is "cluster"."""
DETAILS: dict[str, tuple[str, ...]] = {
    "spectators": ("tick", "--rooms", "1", "--players", "1", "--spectators", "2000", "--hz", "5", "--rounds", "3"),
    **{
        name: (name,)
        for name in ("commit_bytes", "recovery", "restart", "saved", "large_state", "directory", "state", "workers")
    },
    "crowded_storm": ("storm",),
    "compression": ("compression",),
    **{name: (name,) for name in CLUSTER},
}
"""Questions about parts of Holdfast: programs that print tables of their own, and run only when they are asked for."""
TINY: dict[str, dict[str, Any]] = {
    "echo": {"clients": 4, "messages": 40, "rate": 100, "seconds": 0.2},
    "tick": {"rooms": 1, "players": 4, "seconds": 0.3},
    "joins": {"clients": 8, "warm_up": 2, "seats": 4},
    "held": {"clients": 8, "seats": 4, "settle": 0.1},
    "growth": {"few": 2, "many": 6, "messages": 24, "seats": 4},
    "shared_state": {"rooms": 1, "players": 4, "seconds": 0.3},
    "storm": {"clients": 20},
    "durable": {"clients": 4, "seats": 4, "low": 100, "high": 200, "seconds": 0.2, "flat_out_seconds": 0.2},
    "pauses": {"clients": 8, "seats": 4, "churn": 4, "seconds": 0.5},
    "search": {"rooms": 200, "searches": 2},
    "neighbours": {"clients": 4, "misfits": 2, "cycles": 1, "seconds": 0.3},
}
"""Sizes that say nothing, to see whether it runs."""


def main() -> int:
    """Parse, install, measure, write."""
    options = _parse()
    if sys.platform != "linux":
        sys.exit("The benchmarks ask Linux about other processes, and pin them to cores: run them there.")
    console = Console(stderr=True, highlight=False)
    for problem in [] if options.no_install else install():
        console.print(f"Cannot be installed: {problem}", markup=False)
    for system in (SYSTEMS[name] for name in options.systems):
        if missing := system.missing():
            console.print(f"{system.title} is left out: {missing}.", markup=False)
    run = this_run(options.rounds, [name for name in options.systems if not SYSTEMS[name].missing()])
    if run.load > BUSY:
        console.print(f"This machine is busy (load {run.load:g}): the figures will be marked.")
    began_at, failed, figures = time.monotonic(), [], Figures()
    with _Shown(console, len(options.only)) as shown:
        try:
            for name in options.only:
                shown.begin(name)
                failed += _measured(name, options, figures, shown.tell)
                # As soon as there is something: whatever ends this run, it is kept.
                _keep(figures, run, options)
        except KeyboardInterrupt:
            failed.append("stopped by Ctrl-C; this is what there is")
            _keep(figures, run, options)
    Console().print(table_of(figures))
    console.print(f"{time.monotonic() - began_at:.0f} s. Wrote {options.results}.", *failed, sep="\n", markup=False)
    return 1 if failed else 0


def _keep(figures: Figures, run: Run, options: argparse.Namespace) -> None:
    write(figures.results(), run, options.results)
    if not options.no_docs:
        report.write(results=options.results)


def _measured(name: str, options: argparse.Namespace, figures: Figures, tell: Tell) -> list[str]:
    """One benchmark; what went wrong."""
    if name in DETAILS:
        program, *arguments = DETAILS[name]
        command = [sys.executable, "-m", f"benchmarks.{program}", *arguments]
        tell(" ".join(command[1:]))
        done = subprocess.run(command, check=False, cwd=ROOT)
        return [f"{name} failed"] if done.returncode else []
    module = MODULES[name]
    sizes = msgspec.structs.replace(module.SIZES, **TINY[name]) if options.tiny else module.SIZES
    try:
        module.measure(sizes, Rounds(options.rounds, options.systems, figures, tell))
    except Exception as error:  # noqa: BLE001 - the others are measured all the same
        return [f"{name} failed: {type(error).__name__}: {error}"]
    return []


class _Shown:
    """One line that says what is measured, in a terminal; or a line for each round elsewhere."""

    def __init__(self, console: Console, benchmarks: int) -> None:
        self._console = console
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task("", total=benchmarks)
        self._name = ""
        self._begun = -1
        self._began_at = time.monotonic()

    def __enter__(self) -> "_Shown":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, name: str) -> None:
        """The next benchmark."""
        self._name = name
        self._begun += 1
        self._progress.update(self._task, completed=self._begun, description=name)

    def tell(self, text: str) -> None:
        """What it does now."""
        if self._console.is_terminal and "left out" not in text:
            self._progress.update(self._task, description=f"{self._name}: {text}")
        else:
            self._console.print(f"{time.monotonic() - self._began_at:4.0f} s  {self._name}: {text}", markup=False)


def _names(text: str) -> list[str]:
    """Benchmarks, by the names of their modules, in the order in which they run."""
    given = [each for each in text.replace(",", " ").split() if each]
    if "details" in given:
        given += DETAILS
    if "cluster" in given:
        given += CLUSTER
    if unknown := set(given) - {"details", "cluster", *MODULES, *DETAILS}:
        known = ", ".join((*MODULES, *DETAILS))
        raise argparse.ArgumentTypeError(f"there is no benchmark {', '.join(sorted(unknown))}; there are {known}")
    return [name for name in (*MODULES, *DETAILS) if name in given]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        type=_names,
        default=list(MODULES),
        metavar="NAMES",
        help=f"some of: {', '.join(MODULES)}; cluster for all that begin so; or details: {', '.join(DETAILS)}",
    )
    parser.add_argument(
        "--systems",
        nargs="+",
        choices=SYSTEMS,
        default=list(SYSTEMS),
        metavar="SYSTEM",
        help="some of: " + ", ".join(SYSTEMS),
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (3)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for the figures")
    parser.add_argument("--no-docs", action="store_true", help="do not write docs/performance.md")
    parser.add_argument("--no-install", action="store_true", help="measure only beside what is installed already")
    parser.add_argument("--tiny", action="store_true", help="in seconds, with sizes that say nothing: does it run?")
    options = parser.parse_args()
    options.no_docs |= options.tiny
    return options


if __name__ == "__main__":
    sys.exit(main())
