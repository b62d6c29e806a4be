"""The rounds of a benchmark: the systems take turns, so that a noisy machine is noisy for all of them.

Each benchmark is a module with `SIZES`, whose fields are its options, and `measure(sizes, rounds)`, which plays the
rounds and adds what it measures to `rounds.figures`. `alone` makes a program of one.
"""

import argparse
from collections.abc import Callable, Coroutine, Iterable
from types import ModuleType
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.contest import run
from benchmarks.results import BENCHMARKS, Figures
from benchmarks.systems import SYSTEMS, System, available, install

Tell = Callable[[str], object]
"""Shows one line of progress."""


class Rounds:
    """How often to measure what, and where the figures go."""

    def __init__(self, number: int, systems: Iterable[str], figures: Figures, tell: Tell) -> None:
        self.number = number
        self.systems = tuple(systems)
        self.figures = figures
        self.tell = tell

    def play(self, names: Iterable[str], game: Callable[[System], Coroutine[Any, Any, None]]) -> None:
        """Each of these systems that is wanted, in each round; one that fails is named, and left out from then on."""
        playing = [each for each in available(names) if each.name in self.systems]
        for number in range(1, self.number + 1):
            for system in list(playing):
                self.tell(f"round {number}/{self.number}, {system.title}")
                try:
                    run(game(system))
                except Exception as error:
                    # Whatever a peer does, the others are measured; Holdfast has to hold.
                    if system.name == "holdfast":
                        raise
                    self.tell(f"{system.title} is left out: {type(error).__name__}: {error}")
                    playing.remove(system)

    def alone(self, game: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """For what only Holdfast does."""
        for number in range(1, self.number + 1):
            self.tell(f"round {number}/{self.number}")
            run(game())


def alone(module: ModuleType) -> None:
    """The program: parse, install what is missing, measure, print."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module.__spec__.name if module.__spec__ else module.__name__}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sizes = module.SIZES
    for field in msgspec.structs.fields(sizes):
        value = getattr(sizes, field.name)
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(value), default=value, help=f"{value}")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured: 3")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), metavar="SYSTEM", help="all")
    given = vars(parser.parse_args())
    console = Console(stderr=True, highlight=False)
    rounds = Rounds(given.pop("rounds"), given.pop("systems"), Figures(), console.print)
    for problem in install():
        console.print(f"cannot be installed: {problem}")
    try:
        module.measure(type(sizes)(**given), rounds)
    except KeyboardInterrupt:
        console.print("stopped; this is what there is")
    Console().print(table_of(rounds.figures))


def table_of(figures: Figures) -> Table:
    """Medians, spreads, and what each median is of Holdfast's."""
    table = Table("benchmark", "system", "median", "spread", "Holdfast is")
    for name, systems in figures.results().items():
        for system, each in systems.items():
            ours = systems.get("holdfast")
            ratio = f"{ours.median / each.median:.2f} ×" if ours is not None and each.median else ""
            unit = BENCHMARKS[name].unit
            table.add_row(name, SYSTEMS[system].title, f"{each.median:,g} {unit}", f"{each.spread:,g}", ratio)
        table.add_section()
    return table
