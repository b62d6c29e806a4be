"""How fast are rooms found while they change? A mix of searches over many rooms, beside a plain scan of the same rows.

python -m benchmarks.search [--rooms 100000] [--updates 1000] [--rounds 200]

A search is one call: a page of twenty, or what is found of it in the rooms that one call looks at.
"""

import argparse
import time
import tracemalloc
from collections.abc import Iterator
from itertools import count, islice
from random import Random
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.rounds import Rounds
from holdfast.schemas.room import RoomInfo
from holdfast.search import Found, Index, Query, parse_query

NOW = 1_800_000_000.0
LIMIT = 20
MODES = ("ctf", "deathmatch", "duel", "race", "survival")
REGIONS = ("af", "as", "eu", "na", "oc", "sa")
TAGS = ("beginner", "chat", "classic", "event", "family", "fast", "hard", "long", "modded", "new", "night", "pro")
# Memory is measured with fewer: tracing it is slow.
TRACED_ROOMS = 20_000
WIDTH = 120


class Case(NamedTuple):
    """A search that somebody might make."""

    name: str
    where: str
    order_by: tuple[str, ...] = ()
    kind: str | None = None


CASES = (
    Case("any open room", "open_seats > 0"),
    Case("of one kind", "open_seats > 0", (), "arena"),
    Case("fullest first", "open_seats > 0", ("players desc",), "arena"),
    Case("by three terms", "open_seats > 0", ("players desc", "properties.level", "created_at desc")),
    Case(
        "mode and region",
        "properties.mode = 'ctf' AND properties.region = 'eu' AND open_seats >= 2",
        ("players desc",),
    ),
    Case(
        "three levels of 100",
        "properties.level >= 40 AND properties.level <= 42 AND open_seats > 0",
        ("players desc", "name"),
    ),
    Case("rating near mine", "properties.rating > 1480 AND properties.rating < 1520", ("properties.rating",)),
    Case("with a tag", "properties.tags = 'beginner' AND NOT has_password = true AND phase = 'lobby'"),
    Case(
        "IN and OR",
        "properties.mode IN ('duel', 'race') AND (properties.region = 'eu' OR players = 0)",
        ("properties.rating desc",),
    ),
    Case("newest first", "age_s < 600 AND open_seats > 0", ("created_at desc",)),
    Case("by its name", "name = 'Room 4711'"),
    Case("unselective, Z to A", "properties.map <> 'dust'", ("name desc",)),
    Case("there can be none", "properties.ranked = true AND players > 100"),
    Case("all is looked at", "NOT players >= 0"),
)


class World:
    """Rooms, and what happens to them."""

    def __init__(self, rooms: int, seed: int) -> None:
        self._dice = Random(seed)
        self.rows = [self._room(number, rooms) for number in range(rooms)]

    def _room(self, number: int, rooms: int) -> RoomInfo:
        dice = self._dice
        max_players = dice.choice((2, 4, 8, 8, 8, 16))
        players = dice.randint(0, max_players)
        return RoomInfo(
            id=f"{dice.getrandbits(54):014x}",
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

    def changes(self) -> Iterator[RoomInfo]:
        """For ever: players come and go, and now and then a property changes."""
        dice = self._dice
        for _ in count():
            at = dice.randrange(len(self.rows))
            row = self.rows[at]
            if dice.random() < 0.8:
                players = dice.randint(0, row.max_players)
                row = msgspec.structs.replace(row, players=players, open_seats=row.max_players - players)
            else:
                changed = {"level": dice.randint(1, 100), "rating": round(dice.gauss(1500, 200), 1)}
                row = msgspec.structs.replace(row, properties=row.properties | changed)
            self.rows[at] = row
            yield row


class Load:
    """So many changes a second go into the index while it is searched."""

    def __init__(self, index: Index, changes: Iterator[RoomInfo], per_s: int) -> None:
        self._index = index
        self._changes = changes
        self._per_s = per_s
        self._began_at = time.perf_counter()
        self.applied = 0
        self.cpu_s = 0.0

    @property
    def cpu_us(self) -> float:
        """What a change costs."""
        return self.cpu_s / max(1, self.applied) * 1e6

    def catch_up(self) -> None:
        """Apply what has become due."""
        due = int((time.perf_counter() - self._began_at) * self._per_s) - self.applied
        rows = list(islice(self._changes, due))
        cpu = time.thread_time()
        for row in rows:
            self._index.put(row)
        self.cpu_s += time.thread_time() - cpu
        self.applied += due


class Times:
    """How long one search took, each time: on the clock, and of the processor."""

    def __init__(self) -> None:
        self.clock_ms: list[float] = []
        self.cpu_ms: list[float] = []
        self.scan_ms = 0.0
        self.looked = 0

    def search(self, index: Index, query: Query) -> Found:
        """Search once."""
        clock, cpu = time.perf_counter(), time.thread_time()
        found = index.search(query, now=NOW, limit=LIMIT)
        self.cpu_ms.append((time.thread_time() - cpu) * 1e3)
        self.clock_ms.append((time.perf_counter() - clock) * 1e3)
        self.looked = max(self.looked, found.looked)
        return found

    def scan(self, rows: list[RoomInfo], query: Query) -> None:
        """Find the same without an index."""
        cpu = time.thread_time()
        found = [row for row in rows if query.matches(row, NOW)]
        list(islice(query.order.arranged(found), LIMIT))
        self.scan_ms = (time.thread_time() - cpu) * 1e3

    def figures(self) -> list[str]:
        """What the table says of them."""
        shown = [percentile(self.clock_ms, 0.5), percentile(self.clock_ms, 0.99), max(self.clock_ms)]
        shown += [percentile(self.cpu_ms, 0.5), percentile(self.cpu_ms, 0.99), self.scan_ms]
        return [f"{figure:.2f}" for figure in shown] + [f"{self.scan_ms / percentile(self.cpu_ms, 0.5):,.0f} ×"]


def percentile(times: list[float], share: float) -> float:
    """The time that this share of the searches did not exceed."""
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def bytes_per_room(rows: list[RoomInfo]) -> float:
    """What the index needs beside the rows."""
    tracemalloc.start()
    index = Index()
    for row in rows:
        index.put(row)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / len(rows)


class Sizes(msgspec.Struct):
    """The options."""

    rooms: int = 100_000
    updates: int = 1_000
    searches: int = 100


SIZES = Sizes()


class Searched(NamedTuple):
    """One round of all searches."""

    times: list[Times]
    found: list[int]
    load: Load


def measure(sizes: Sizes, rounds: Rounds) -> None:
    """Play the rounds, over the same rooms."""
    rounds.tell(f"{sizes.rooms:,} rooms are made")
    world, index, _ = filled(sizes.rooms)
    for number in range(1, rounds.number + 1):
        rounds.tell(f"round {number}/{rounds.number}, {sizes.searches * len(CASES):,} searches")
        searched = search_all(world, index, sizes.updates, sizes.searches)
        clock_ms = [ms for each in searched.times for ms in each.clock_ms]
        rounds.figures.add("search_p99_ms", "holdfast", percentile(clock_ms, 0.99))


def filled(rooms: int) -> tuple[World, Index, float]:
    """So many rooms in an index, and the microseconds that each has cost."""
    world, index = World(rooms, seed=1), Index()
    cpu = time.thread_time()
    for row in world.rows:
        index.put(row)
    return world, index, (time.thread_time() - cpu) / rooms * 1e6


def search_all(world: World, index: Index, updates: int, rounds: int) -> Searched:
    """Each search so many times, while rooms change."""
    queries = [parse_query(case.where, case.order_by, case.kind) for case in CASES]
    times, found = [Times() for _ in CASES], [0] * len(CASES)
    load = Load(index, world.changes(), updates)
    for _ in range(rounds):
        for number, query in enumerate(queries):
            load.catch_up()
            found[number] = len(times[number].search(index, query).rows)
    for query, each in zip(queries, times, strict=True):
        each.scan(world.rows, query)
    return Searched(times, found, load)


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description="How fast rooms are found while they change.")
    parser.add_argument("--rooms", type=int, default=100_000)
    parser.add_argument("--updates", type=int, default=1000, help="changes per second")
    parser.add_argument("--rounds", type=int, default=200, help="how often each search is made")
    options = parser.parse_args()
    console = Console(width=WIDTH)
    world, index, put_us = filled(options.rooms)
    times, found, load = search_all(world, index, options.updates, options.rounds)
    table = Table("search", "found", "looked at", "p50", "p99", "max", "CPU p50", "CPU p99", "CPU of a scan", "ratio")
    for case, each, rows in zip(CASES, times, found, strict=True):
        table.add_row(case.name, str(rows), str(each.looked), *each.figures())
    all_times = Times()
    all_times.clock_ms = [ms for each in times for ms in each.clock_ms]
    all_times.cpu_ms = [ms for each in times for ms in each.cpu_ms]
    all_times.scan_ms = sum(each.scan_ms for each in times) / len(times)
    table.caption = "milliseconds"
    table.add_section()
    table.add_row("all", "", "", *all_times.figures())
    console.print(table)
    console.print(
        f"{options.rooms:,} rooms, {load.applied:,} changes meanwhile. CPU time: {load.cpu_us:.0f} us for a change, "
        f"{put_us:.0f} us for a new room. Memory: {bytes_per_room(world.rows[:TRACED_ROOMS]):,.0f} bytes a room "
        "beside its row."
    )


if __name__ == "__main__":
    main()
