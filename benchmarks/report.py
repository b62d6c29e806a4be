"""What `docs/performance.md` shows of the results: tables between its markers, and a plot for each question.

`python -m benchmarks.report` writes them again from `results/latest.json`; the runner does so at its end.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from benchmarks.plots import Bar, bars, number_of
from benchmarks.results import BENCHMARKS, RESULTS, Results, Run, read, read_about
from benchmarks.systems import ROOT, SYSTEMS

PAGE = ROOT / "docs" / "performance.md"
IMAGES = "images"
PLOTTED = ("echo_cpu_us", "tick_cpu_us", "joins_per_cpu_s", "kib_per_session")
# Above this share of a core latencies begin to rise: a game plans with less than all of it.
USED = 0.7
MIB_PER_CORE = 4 * 1024
# A measurement beside this much other work is marked.
BUSY = 1.0


class Kind(NamedTuple):
    """A kind of game, as what a player of it costs a second: CPU microseconds, from the measured figures."""

    name: str
    about: str
    sum: str
    us_per_player_s: float


def kinds(results: Results) -> list[Kind]:
    """Three kinds of games. An input is counted as an echo, though it needs no answer: that is on the safe side."""

    def ours(benchmark: str) -> float:
        return results[benchmark]["holdfast"].median

    if not {"echo_cpu_us", "tick_cpu_us", "shared_sync_cpu_us", "durable_cpu_ratio", "joins_per_cpu_s"} <= set(results):
        return []
    echo, tick, sync = ours("echo_cpu_us"), ours("tick_cpu_us"), ours("shared_sync_cpu_us")
    durable = ours("durable_cpu_ratio")
    return [
        Kind(
            "Action: messages",
            "rooms of 50 that broadcast 3 messages at 20 Hz; 10 inputs a second",
            f"10 × {number_of(echo)} + 60 × {number_of(tick)}",
            10 * echo + 60 * tick,
        ),
        Kind(
            "Action: shared state",
            "rooms of 50 in which all move at 20 Hz; 10 inputs a second",
            f"10 × {number_of(echo)} + 20 × {number_of(sync)}",
            10 * echo + 20 * sync,
        ),
        Kind(
            "Board or card game, durable",
            "tables of 4; a move every 5 s, saved, and told to all four",
            f"(0.2 + 0.8) × {number_of(echo)} × {number_of(durable)}",
            echo * durable,
        ),
    ]


def tables(results: Results, about: dict[str, Run]) -> dict[str, str]:
    """The text for each marker of the page."""
    return {
        "side by side": _side_by_side(results),
        "alone": _alone(results),
        "players per core": _players_per_core(results),
        "measured": _measured(results, about),
    }


def _side_by_side(results: Results) -> str:
    """What others can do, too."""
    names = [name for name in SYSTEMS if any(name in systems for systems in _shared(results).values())]
    rows = [
        [BENCHMARKS[name].title, BENCHMARKS[name].unit]
        + [_cell(systems[each].median, systems[each].spread) if each in systems else "–" for each in names]
        for name, systems in _shared(results).items()
    ]
    return _table(["", "unit", *(SYSTEMS[name].title for name in names)], rows)


def _shared(results: Results) -> Results:
    return {name: systems for name, systems in results.items() if set(systems) - {"holdfast"}}


def _alone(results: Results) -> str:
    rows = [
        [BENCHMARKS[name].title, _cell(systems["holdfast"].median, systems["holdfast"].spread), BENCHMARKS[name].unit]
        for name, systems in results.items()
        if set(systems) == {"holdfast"}
    ]
    return _table(["", "Holdfast", "unit"], rows)


def _players_per_core(results: Results) -> str:
    rows = []
    for kind in kinds(results):
        by_cpu = USED * 1e6 / kind.us_per_player_s
        joins = results["joins_per_cpu_s"]["holdfast"].median
        rows.append(
            [
                f"**{kind.name}**: {kind.about}",
                f"{kind.sum} = {kind.us_per_player_s:,.0f} µs",
                f"**{float(f'{by_cpu:.2g}'):,.0f}**",
                f"{by_cpu / joins / USED:.1f} s",
            ]
        )
    return _table(["game", "CPU per player and second", "players per core", "all of them join in"], rows)


def _measured(results: Results, about: dict[str, Run]) -> str:
    """The day, the machine, the versions; benchmarks that were measured together share a line."""
    together: list[tuple[Run, list[str]]] = []
    for name in results:
        if name not in about:
            continue
        for run, names in together:
            if _is_same(run, about[name]):
                names.append(name)
                break
        else:
            together.append((about[name], [name]))
    lines = []
    for run, names in together:
        versions = ", ".join(f"{name} {number}" for name, number in run.versions.items() if name != "holdfast")
        beside = (
            f" **Beside other work (load {run.load:g}): only the ratios mean something.**" if run.load > BUSY else ""
        )
        which = "All" if len(together) == 1 else ", ".join(f"`{name}`" for name in names)
        rounds = "one round" if run.rounds == 1 else f"medians of {run.rounds} rounds"
        lines.append(f"{which}: {run.date}, {run.machine}; {rounds}; {versions}.{beside}")
    return "\n\n".join(lines)


def _is_same(one: Run, other: Run) -> bool:
    """Whether one line can speak of both."""
    mine, theirs = (
        (run.date, run.machine, run.rounds, run.versions, run.load if run.load > BUSY else 0) for run in (one, other)
    )
    return mine == theirs


def _cell(median: float, spread: float) -> str:
    return f"{number_of(median)} ± {number_of(spread / 2)}"


def _table(heads: list[str], rows: Iterable[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def filled(page: str, results: Results, about: dict[str, Run]) -> str:
    """The page with these figures."""
    for name, text in tables(results, about).items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        assert begin in page, begin
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}\n{text}\n{end}{after}"
    return page


def plots(results: Results) -> dict[str, str]:
    """The SVGs, by the names of their files."""
    drawn = {}
    for name in PLOTTED:
        systems = results.get(name, {})
        if len(systems) > 1:
            shown = [Bar(SYSTEMS[e].title, f.median, f.spread, e == "holdfast") for e, f in systems.items()]
            benchmark = BENCHMARKS[name]
            hint = "more is better" if benchmark.more_is_better else "less is better"
            shown.sort(key=lambda bar: bar.value, reverse=benchmark.more_is_better)
            drawn[f"performance-{name}.svg"] = bars(f"{benchmark.title} ({hint})", benchmark.unit, shown)
    return drawn


def write(page: Path = PAGE, results: Path = RESULTS) -> None:
    """Write the page and its plots again."""
    latest = read(results)
    text = filled(page.read_text("utf-8"), latest, read_about(results))
    page.write_text(text, encoding="utf-8")
    folder = page.parent / IMAGES
    folder.mkdir(exist_ok=True)
    for name, svg in plots(latest).items():
        (folder / name).write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    write()
