"""What does it cost to find and encode what has changed in a room's state? Beside @colyseus/schema, if it is installed.

python -m benchmarks.state [--rounds 3]
python -m benchmarks --only echo --systems colyseus     # installs it for the comparison
"""

import argparse
import itertools
import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.systems import PEERS, SYSTEMS, node
from holdfast.state import F32, Mementos, Parts, SharedPlan, Tracker, encode_json, encode_msgpack

PARTS = 10


class Card(msgspec.Struct):
    rank: int
    suit: str = "clubs"


class Seat(msgspec.Struct):
    score: int = 0
    name: str = ""
    ready: bool = True
    hand: list[Card] = []


class CardTable(msgspec.Struct):
    turn: int = 0
    phase: str = "play"
    pile: list[Card] = []


class Body(msgspec.Struct):
    x: float
    y: float
    vx: float
    vy: float
    hp: int
    name: str
    team: int
    alive: bool


class SmallBody(msgspec.Struct):
    x: F32
    y: F32
    vx: F32
    vy: F32
    hp: int
    name: str
    team: int
    alive: bool


class Tiles(msgspec.Struct):
    tiles: list[int]


class TilesInParts(msgspec.Struct):
    tiles: Parts[list[int]]


class Case:
    """A plan, the values it is for, and a change of them."""

    def __init__(self, plan: SharedPlan, values: tuple[Any, ...], step: Callable[[int], None]) -> None:
        self.plan = plan
        self.values = values
        self.step = step


def card_table() -> Case:
    """One plays a card and draws one."""
    table = CardTable(pile=[Card(rank) for rank in range(12)])
    seats = {f"p{i}": Seat(name=f"player {i}", hand=[Card(rank) for rank in range(7)]) for i in range(4)}

    def step(n: int) -> None:
        seat = seats[f"p{n % 4}"]
        table.pile.append(seat.hand.pop(n % 7))
        seat.hand.append(Card(n % 13))
        if len(table.pile) > 20:
            del table.pile[:8]
        table.turn = n
        seat.score += 1

    return Case(SharedPlan({"state": CardTable, "seats": dict[str, Seat]}), (table, seats), step)


def world(kind: Any, count: int, every: int) -> Case:
    """Some of many things move."""
    bodies = {
        f"e{i}": kind(float(i * 37 % 100), float(i * 53 % 100), 1.5, 2.5, 100, f"body {i}", i % 4, True)
        for i in range(count)
    }
    movers = list(bodies.values())[::every]

    def step(_: int) -> None:
        for each in movers:
            each.x += 0.3713
            each.y += 0.1117

    return Case(SharedPlan({"bodies": dict[str, kind]}), (bodies,), step)


def tiles() -> Case:
    """Few of many tiles change."""
    state = Tiles([i % 8 for i in range(10_000)])

    def step(n: int) -> None:
        for at in (n % 10_000, (n * 7 + 3000) % 10_000, (n * 13 + 7000) % 10_000):
            state.tiles[at] = (state.tiles[at] + 1) % 8

    return Case(SharedPlan({"state": Tiles}), (state,), step)


def tiles_in_parts() -> Case:
    """The same tiles in parts of 100."""
    state = TilesInParts(Parts({str(part): [i % 8 for i in range(100)] for part in range(100)}))

    def step(n: int) -> None:
        for at in (n % 10_000, (n * 7 + 3000) % 10_000, (n * 13 + 7000) % 10_000):
            part = state.tiles[str(at // 100)]
            part[at % 100] = (part[at % 100] + 1) % 8

    return Case(SharedPlan({"state": TilesInParts}), (state,), step)


# A name, that of Colyseus' case, what makes it, and how many syncs are measured.
CASES: list[tuple[str, str, Callable[[], Case], int]] = [
    ("card table", "card table", card_table, 4000),
    ("50 players, all move", "50 players, all move", lambda: world(Body, 50, 1), 1000),
    ("the same in F32", "50 players, all move", lambda: world(SmallBody, 50, 1), 1000),
    ("1,000 entities, 50 move", "1,000 entities, 50 move", lambda: world(Body, 1000, 20), 400),
    ("the same in F32", "1,000 entities, 50 move", lambda: world(SmallBody, 1000, 20), 400),
    ("10,000 tiles, 3 change", "10,000 tiles, 3 change", tiles, 1000),
    ("the same in Parts of 100", "10,000 tiles, 3 change", tiles_in_parts, 1000),
]


def measure(case: Case, syncs: int) -> dict[str, float]:
    """Microseconds for each part, and bytes."""
    tracker = Tracker(case.plan, *case.values)
    # Entries of parts are noted when they are accessed.
    mementos = Mementos({Parts: lambda _: None})
    figures: list[dict[str, float]] = []
    node = None
    numbers = itertools.count()
    # The best of some short runs: others work on this machine too.
    for _ in range(PARTS):
        stepping = syncing = 0.0
        for n in itertools.islice(numbers, syncs // PARTS):
            began = time.perf_counter()
            case.step(n)
            stepped = time.perf_counter()
            node = tracker.diff(*case.values)
            encode_msgpack(node)
            syncing += time.perf_counter() - stepped
            stepping += stepped - began
        figures.append(
            {
                "step": stepping / (syncs // PARTS) * 1e6,
                "sync": syncing / (syncs // PARTS) * 1e6,
                "nothing": each_us(lambda: tracker.diff(*case.values), syncs // PARTS),
                # As a room does for newcomers, right after it has noted what has changed.
                "whole": each_us(lambda: encode_msgpack(tracker.whole(*case.values)), 20),
                "memento": each_us(lambda: mementos.take(*case.values), 20),
            }
        )
    sizes = {
        "bytes": len(encode_msgpack(node)),
        "json_bytes": len(encode_json(node)),
        "whole_bytes": len(encode_msgpack(tracker.whole())),
    }
    return best(figures) | sizes


def each_us(call: Callable[[], object], count: int) -> float:
    """Microseconds for each call."""
    began = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - began) / count * 1e6


def colyseus() -> dict[str, dict[str, float]] | None:
    """The same of @colyseus/schema; None if it is not installed."""
    program = node()
    if program is None or SYSTEMS["colyseus"].missing():
        return None
    ran = subprocess.run([program, "state.mjs"], cwd=PEERS, check=True, capture_output=True, text=True)
    found: dict[str, dict[str, float]] = json.loads(ran.stdout)
    return found


def best(rounds: list[dict[str, float]]) -> dict[str, float]:
    """The least of each figure."""
    return {name: min(each[name] for each in rounds) for name in rounds[0]}


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description="What finding and encoding the changes of a state costs.")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    ours: list[list[dict[str, float]]] = [[] for _ in CASES]
    theirs: list[dict[str, dict[str, float]]] = []
    # In turns: the machine's speed changes by the minute.
    for _ in range(options.rounds):
        for place, (_, _, make, syncs) in enumerate(CASES):
            ours[place].append(measure(make(), syncs))
        if (found := colyseus()) is not None:
            theirs.append(found)
    table = Table("state", "who", "sync", "nothing changed", "game's step", "bytes", "whole", "its bytes", "memento")
    for (name, other, _, _), rounds in zip(CASES, ours, strict=True):
        us = best(rounds)
        table.add_row(
            name,
            "holdfast",
            *(f"{us[key]:,.1f} us" for key in ("sync", "nothing", "step")),
            f"{us['bytes']:,.0f} (JSON {us['json_bytes']:,.0f})",
            f"{us['whole']:,.0f} us",
            f"{us['whole_bytes']:,.0f}",
            f"{us['memento']:,.1f} us",
        )
        if theirs and name == other:
            them = best([each[other] for each in theirs])
            table.add_row(
                "",
                "colyseus",
                f"{them['sync']:,.1f} us",
                "",
                f"{them['step']:,.1f} us",
                f"{them['bytes']:,.0f}",
                f"{them['whole']:,.0f} us",
                f"{them['whole_bytes']:,.0f}",
                "",
            )
    console = Console(width=150)
    console.print(table)
    if not theirs:
        console.print("Without Colyseus: `python -m benchmarks` installs it")


if __name__ == "__main__":
    main()
