"""How fast are rooms found while they change? A mix of searches over many rooms, beside a plain scan of the same rows.

python benchmarks/search.py [--rooms 100000] [--updates 1000] [--rounds 200]
"""

import argparse
import time
import tracemalloc
from collections.abc import Iterable, Iterator
from itertools import count, islice
from random import Random
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from holdfast.core.query import Index, Query, Row, parse_query

NOW = 1_800_000_000.0
LIMIT = 20
MODES = ("ctf", "deathmatch", "duel", "race", "survival")
REGIONS = ("af", "as", "eu", "na", "oc", "sa")
TAGS = ("beginner", "chat", "classic", "event", "family", "fast", "hard", "long", "modded", "new", "night", "pro")
TARGET_MS = 5.0


class Case(NamedTuple):
    """A search that somebody might make."""

    where: str
    order_by: tuple[str, ...] = ()
    kind: str | None = None


CASES = (
    Case("open_seats > 0"),
    Case("open_seats > 0", (), "arena"),
    Case("open_seats > 0", ("players desc",), "arena"),
    Case("open_seats > 0", ("players desc", "properties.level", "created_at desc")),
    Case("properties.mode = 'ctf' AND properties.region = 'eu' AND open_seats >= 2", ("players desc",)),
    Case("properties.level >= 40 AND properties.level <= 42 AND open_seats > 0", ("players desc", "name")),
    Case("properties.rating > 1480 AND properties.rating < 1520", ("properties.rating",)),
    Case("properties.tags = 'beginner' AND NOT has_password = true AND phase = 'lobby'"),
    Case(
        "properties.mode IN ('duel', 'race') AND (properties.region = 'eu' OR players = 0)", ("properties.rating desc",)
    ),
    Case("age_s < 600 AND open_seats > 0", ("created_at desc",)),
    Case("name = 'Room 4711'"),
    Case("properties.map <> 'dust'", ("name desc",)),
    Case("properties.ranked = true AND players > 100"),
    Case("NOT players >= 0"),
)


class World:
    """Rooms, and what happens to them."""

    def __init__(self, rooms: int, seed: int) -> None:
        self.random = Random(seed)
        self.rows = [self.room(number, rooms) for number in range(rooms)]

    def room(self, number: int, rooms: int) -> Row:
        """A room like another."""
        dice = self.random
        max_players = dice.choice((2, 4, 8, 8, 8, 16))
        players = dice.randint(0, max_players)
        return Row(
            id=f"{dice.getrandbits(54):011x}",
            kind=dice.choices(("arena", "coop", "lobby"), (6, 3, 1))[0],
            name=f"Room {number}",
            players=players,
            max_players=max_players,
            open_seats=max_players - players,
            created_at=NOW - (rooms - number) * 0.036,
            phase=dice.choice(("lobby", "playing")),
            creator=f"player-{dice.randrange(rooms)}",
            has_password=dice.random() < 0.05,
            properties={
                "mode": dice.choice(MODES),
                "map": f"map-{dice.randrange(20)}",
                "region": dice.choice(REGIONS),
                "level": dice.randint(1, 100),
                "rating": round(dice.gauss(1500, 200), 1),
                "ranked": dice.random() < 0.3,
                "tags": dice.sample(TAGS, 2),
            },
        )

    def changes(self) -> Iterator[Row]:
        """For ever: somebody joins or leaves, or a property changes."""
        for _ in count():
            at = self.random.randrange(len(self.rows))
            row = self.rows[at]
            if self.random.random() < 0.8:
                players = self.random.randint(0, row.max_players)
                row = msgspec.structs.replace(row, players=players, open_seats=row.max_players - players)
            else:
                changed = {"level": self.random.randint(1, 100), "rating": round(self.random.gauss(1500, 200), 1)}
                row = msgspec.structs.replace(row, properties=row.properties | changed)
            self.rows[at] = row
            yield row


class Load:
    """So many changes a second go into the index while it is searched."""

    def __init__(self, index: Index, changes: Iterator[Row], per_s: int) -> None:
        self._index = index
        self._changes = changes
        self._per_s = per_s
        self._began_at = time.perf_counter()
        self.applied = 0
        self.took_s = 0.0

    def catch_up(self) -> None:
        """Apply what has become due."""
        due = int((time.perf_counter() - self._began_at) * self._per_s) - self.applied
        rows = [next(self._changes) for _ in range(due)]
        began_at = time.perf_counter()
        for row in rows:
            self._index.put(row)
        self.took_s += time.perf_counter() - began_at
        self.applied += due


def scanned(rows: Iterable[Row], query: Query) -> list[str]:
    """What is found without an index."""
    found = [row for row in rows if query.matches(row, NOW)]
    return [row.id for row in islice(query.order.arranged(found), LIMIT)]


def percentile(times_ms: list[float], share: float) -> float:
    """The time that this share of the searches did not exceed."""
    return sorted(times_ms)[min(len(times_ms) - 1, int(len(times_ms) * share))]


def bytes_per_room(rows: list[Row]) -> float:
    """What the index needs beside the rows."""
    tracemalloc.start()
    index = Index()
    for row in rows:
        index.put(row)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / len(rows)


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description="How fast rooms are found while they change.")
    parser.add_argument("--rooms", type=int, default=100_000)
    parser.add_argument("--updates", type=int, default=1000, help="changes per second")
    parser.add_argument("--rounds", type=int, default=200, help="how often each search is made")
    parser.add_argument("--scans", type=int, default=3, help="how often each plain scan is made")
    options = parser.parse_args()
    world = World(options.rooms, seed=1)
    index = Index()
    began_at = time.perf_counter()
    for row in world.rows:
        index.put(row)
    built_s = time.perf_counter() - began_at
    queries = [parse_query(*case) for case in CASES]
    times: list[list[float]] = [[] for _ in queries]
    looked = [0] * len(queries)
    load = Load(index, world.changes(), options.updates)
    for _ in range(options.rounds):
        for number, query in enumerate(queries):
            load.catch_up()
            began_at = time.perf_counter()
            found = index.search(query, now=NOW, limit=LIMIT)
            times[number].append((time.perf_counter() - began_at) * 1e3)
            looked[number] = max(looked[number], found.looked)
    table = Table("search", "order", "p50 ms", "p99 ms", "max ms", "looked at", "scan ms", "× faster")
    scans: list[float] = []
    for case, query, ms, most in zip(CASES, queries, times, looked, strict=True):
        began_at = time.perf_counter()
        for _ in range(options.scans):
            scanned(world.rows, query)
        scan_ms = (time.perf_counter() - began_at) / options.scans * 1e3
        scans.append(scan_ms)
        figures = (percentile(ms, 0.5), percentile(ms, 0.99), max(ms))
        where = case.where if case.kind is None else f"({case.kind}) {case.where}"
        table.add_row(
            where,
            ", ".join(case.order_by),
            *(f"{figure:.2f}" for figure in figures),
            f"{most:,}",
            f"{scan_ms:.0f}",
            f"{scan_ms / figures[0]:,.0f}",
        )
    every = [each for ms in times for each in ms]
    table.add_section()
    mean_scan_ms = sum(scans) / len(scans)
    figures = (percentile(every, 0.5), percentile(every, 0.99), max(every))
    table.add_row("all", "", *(f"{figure:.2f}" for figure in figures), "", f"{mean_scan_ms:.0f}", "")
    console = Console()
    console.print(table)
    console.print(
        f"{options.rooms:,} rooms, {load.applied:,} changes while searching, {load.took_s / load.applied * 1e6:.0f} us "
        f"each; built in {built_s:.1f} s, {bytes_per_room(world.rows[:20_000]):,.0f} bytes a room beside its row"
    )
    console.print(f"p99 of all searches: {figures[1]:.2f} ms (the target is {TARGET_MS:.0f} ms)")


if __name__ == "__main__":
    main()
