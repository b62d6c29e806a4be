"""The figures of a run: collected round by round, written as `results/latest.json` and read again by the docs."""

import os
import platform
import shutil
import statistics
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec

from benchmarks.systems import ROOT, SYSTEMS, node

RESULTS = Path(__file__).parent / "results"
LATEST, ABOUT = "latest.json", "about.json"


class Figure(msgspec.Struct, frozen=True):
    """One system in one benchmark."""

    median: float
    spread: float
    """The greatest minus the least of the rounds."""
    unit: str


class Benchmark(msgspec.Struct, frozen=True):
    """What is measured."""

    title: str
    unit: str
    more_is_better: bool = False


BENCHMARKS = {
    "echo_cpu_us": Benchmark("server CPU per echoed message, 200 clients", "µs"),
    "echo_p99_ms": Benchmark("answer to a message at 5,000 a second, 99 of 100 within", "ms"),
    "tick_cpu_us": Benchmark("server CPU per delivered message in ticking rooms", "µs"),
    "joins_per_cpu_s": Benchmark("connect and join, per second of server CPU", "joins", more_is_better=True),
    "kib_per_session": Benchmark("memory per connected session", "KiB"),
    "kib_per_held_session": Benchmark("memory per session whose player is away", "KiB"),
    "growth_ratio": Benchmark("CPU per message with 10,000 sessions, beside 100; rooms of 50", "×"),
    "growth_one_room_ratio": Benchmark("the same with everybody in one room", "×"),
    "shared_sync_cpu_us": Benchmark("server CPU per client and sync of shared state", "µs"),
    "shared_sync_bytes": Benchmark("bytes per client and sync of shared state", "bytes"),
    "resume_storm_s": Benchmark("10,000 clients cut at once: the last is back after", "s"),
    "durable_msgs_s": Benchmark(
        "durable messages a second, as fast as they are answered", "per s", more_is_better=True
    ),
    "durable_ack_p99_ms": Benchmark("durable answer at 20,000 a second, 99 of 100 within", "ms"),
    "memory_ack_p99_ms": Benchmark("the same from a room in memory", "ms"),
    "durable_ack_p50_ms": Benchmark("durable answer at 500 a second, half within", "ms"),
    "durable_cpu_ratio": Benchmark("CPU of durable rooms beside rooms in memory, at 500 a second", "×"),
    "naive_cpu_ratio": Benchmark("CPU of one fsync per message beside rooms in memory, at 500 a second", "×"),
    "loop_longest_ms": Benchmark("the longest turn of the loop: 5,000 sessions in rooms of 50 at 20 Hz", "ms"),
    "loop_p999_ms": Benchmark("the same, 999 of 1,000 turns", "ms"),
    "gc_longest_ms": Benchmark("the longest pause of the garbage collector meanwhile", "ms"),
    "ticking_cpu_share": Benchmark("what these rooms use of a core", "cores"),
    "mixed_p50_ms": Benchmark("answer while everything happens at once, half within", "ms"),
    "mixed_p99_ms": Benchmark("the same, 99 of 100 within", "ms"),
    "mixed_p999_ms": Benchmark("the same, 999 of 1,000 within", "ms"),
    "mixed_longest_ms": Benchmark("the same, the longest", "ms"),
    "mixed_loop_longest_ms": Benchmark("the longest turn of the loop meanwhile", "ms"),
    "mixed_loop_cpu_ms": Benchmark("the same, what was spent on the CPU", "ms"),
    "search_p99_ms": Benchmark("search among 100,000 rooms, 99 of 100 within", "ms"),
    "neighbours_p99_ratio": Benchmark("answers beside 20 clients that flood, relative to 20 that behave, p99", "×"),
}
"""Every benchmark that may be in the results, in the order in which it is shown."""


class Run(msgspec.Struct, frozen=True):
    """How a benchmark was measured last."""

    date: str
    commit: str
    machine: str
    rounds: int
    load: float
    """What else ran: the system's load average over the minute before, 0 on a quiet machine."""
    versions: dict[str, str]


Results = dict[str, dict[str, Figure]]


class Figures:
    """What was measured so far."""

    def __init__(self) -> None:
        self._rounds: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(self, benchmark: str, system: str, value: float) -> None:
        """One round."""
        assert benchmark in BENCHMARKS, benchmark
        self._rounds[benchmark][system].append(value)

    def rounds(self, benchmark: str, system: str) -> list[float]:
        """All rounds of one system."""
        return self._rounds[benchmark][system]

    def results(self) -> Results:
        """Their medians and spreads."""
        return {
            name: {
                system: Figure(_rounded(statistics.median(each)), _rounded(max(each) - min(each)), benchmark.unit)
                for system, each in sorted(self._rounds[name].items(), key=lambda item: list(SYSTEMS).index(item[0]))
                if each
            }
            for name, benchmark in BENCHMARKS.items()
            if self._rounds[name]
        }


def _rounded(value: float) -> float:
    """As many digits as may mean something."""
    return float(f"{value:.4g}")


def read(folder: Path = RESULTS) -> Results:
    """The results in a folder; none if it has none."""
    file = folder / LATEST
    return msgspec.json.decode(file.read_bytes(), type=Results) if file.is_file() else {}


def read_about(folder: Path = RESULTS) -> dict[str, Run]:
    """How each of them was measured."""
    file = folder / ABOUT
    return msgspec.json.decode(file.read_bytes(), type=dict[str, Run]) if file.is_file() else {}


def write(new: Results, run: Run, folder: Path = RESULTS) -> None:
    """Replace the benchmarks that were run; the others stay, with the day on which they were measured."""
    folder.mkdir(parents=True, exist_ok=True)
    results = read(folder) | new
    about = read_about(folder) | dict.fromkeys(new, run)
    for name, content in ((LATEST, results), (ABOUT, about)):
        ordered = {each: content[each] for each in BENCHMARKS if each in content}
        text = msgspec.json.format(msgspec.json.encode(ordered), indent=2).decode()
        temporary = folder / f"{name}.new"
        temporary.write_text(f"{text}\n", encoding="utf-8")
        temporary.replace(folder / name)


def this_run(rounds: int, systems: Iterable[str]) -> Run:
    """The day, the machine and the versions."""
    git = subprocess.run(
        [shutil.which("git") or "git", "describe", "--always", "--dirty"],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    versions = {name: SYSTEMS[name].version for name in systems}
    versions |= {"python": platform.python_version(), "uvloop": version("uvloop")}
    if (found := node()) is not None:
        said = subprocess.run([found, "--version"], check=False, capture_output=True, text=True)
        versions["node"] = said.stdout.strip().lstrip("v")
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Run(
        date=datetime.now(UTC).date().isoformat(),
        commit=git.stdout.strip(),
        machine=f"{os.cpu_count()} cores ({_processor()}), {memory_gib:.0f} GiB, {platform.system()}",
        rounds=rounds,
        load=round(os.getloadavg()[0], 1),
        versions=versions,
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
