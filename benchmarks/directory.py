"""How many rooms and seats does one node bear, and does searching them slow a game down?

One process makes the rooms and takes the seats, with agents: sessions without a socket, so that what is counted is the
directory's work and not the network's. Then a room with 20 ticks a second looks at the clock, in turns while nothing
happens, while rooms are searched, and while they are searched and change.

python -m benchmarks.directory [--rooms 10000] [--seats 50000] [--searches 50] [--changes 1000] [--seconds 5]
"""

import argparse
import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

import uvloop
from rich.console import Console
from rich.table import Table

import holdfast
from holdfast import PlayerData, Room
from holdfast.core.codec import MSGPACK
from holdfast.core.session import PlayerId
from holdfast.schemas.requests import Search
from holdfast.server.agents import Agent

TICK_HZ = 20.0
TARGET_PER_S = 1000
# Ours is the only process, and there are no clients: only the sizes matter.
LIMITS = holdfast.Limits(rooms_max=1_000_000, sessions_max=1_000_000, unjoined_s=3600.0)
MODES = ("ctf", "deathmatch", "duel", "race", "survival")
TAGS = ("beginner", "chat", "classic", "event", "family", "fast", "hard", "long", "modded", "new", "night", "pro")
# What players ask for, and, at the end, what finds nothing and has to look at every room.
SEARCHES = (
    Search("arena"),
    Search("arena", order_by=["players desc"]),
    Search("arena", "properties.mode = 'ctf' AND open_seats >= 2", ["properties.level desc", "players"]),
    Search("arena", "properties.level >= 40 AND properties.level <= 42", ["players desc", "name"]),
    Search(None, "properties.tags = 'beginner' AND NOT has_password = true", limit=100),
    Search(None, "age_s < 600 AND open_seats > 0", ["created_at desc"]),
    Search(None, "NOT players >= 0"),
)


class Arena(Room[PlayerData]):
    """One of many."""

    max_players = 16


class Metronome(Room[PlayerData]):
    """Notes how late its ticks are."""

    tick_hz = TICK_HZ
    late_ms: list[float]
    _due = 0.0

    def on_create(self, config: dict[str, Any]) -> None:
        self.late_ms = []

    def on_tick(self, dt_s: float) -> None:
        now = time.monotonic()
        period_s = 1.0 / TICK_HZ
        # The first tick is one period after the beginning; a tick that was missed is not made up for.
        self._due = self._due or now - dt_s + period_s
        late_s = max(0.0, now - self._due)
        self._due += (int(late_s / period_s) + 1) * period_s
        self.late_ms.append(late_s * 1e3)


class Filled(NamedTuple):
    """What it took to fill the node, in CPU-seconds."""

    create_s: float
    join_s: float


def percentile(values: list[float], share: float) -> float:
    """What this share of the values does not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


async def fill(server: holdfast.Server, rooms: int, seats: int, dice: Random) -> tuple[Filled, list[Agent]]:
    """Make the rooms, and take the seats one after the other."""
    agents = [server.open_agent(f"player-{number}") for number in range(seats)]
    room_ids: list[str] = []
    began_at = time.process_time()
    for number in range(rooms):
        properties = {"mode": dice.choice(MODES), "level": dice.randint(1, 100), "tags": dice.sample(TAGS, 2)}
        room_ids.append(await agents[number % seats].create("arena", properties=properties))
    # Also what was put off until somebody searches.
    await server.rooms.index.search(Search(), None)
    create_s = time.process_time() - began_at
    began_at = time.process_time()
    for number, agent in enumerate(agents):
        await agent.join(room_ids[number % rooms])
    await server.rooms.index.search(Search(), None)
    return Filled(create_s, time.process_time() - began_at), agents


async def paced(per_s: int, work: Callable[[], Awaitable[None]], dice: Random) -> None:
    """Do something so often a second, for ever, at no particular time: as people do."""
    loop = asyncio.get_running_loop()
    running: set[asyncio.Task[None]] = set()
    next_at = loop.time()
    while True:
        next_at += dice.expovariate(per_s)
        task = loop.create_task(_done(work))
        running.add(task)
        task.add_done_callback(running.discard)
        await asyncio.sleep(max(0.0, next_at - loop.time()))


async def _done(work: Callable[[], Awaitable[None]]) -> None:
    await work()


class Players:
    """What goes on while the metronome ticks."""

    def __init__(self, server: holdfast.Server, agents: list[Agent], dice: Random) -> None:
        self._listings = server.rooms.index
        self._rooms = [room for room in server.rooms if isinstance(room, Arena)]
        self._agents = agents
        self._dice = dice
        self.search_ms: list[float] = []
        self.changes = 0

    async def search(self) -> None:
        """Somebody looks for a room, and is sent what was found."""
        began_at = time.perf_counter()
        viewer = self._listings.visible_to(PlayerId(self._dice.choice(self._agents).session.player_id))
        page = await self._listings.search(self._dice.choice(SEARCHES), viewer)
        MSGPACK.encode(page)
        self.search_ms.append((time.perf_counter() - began_at) * 1e3)

    async def change(self) -> None:
        """A game changes what is shown of it."""
        self._dice.choice(self._rooms).properties["level"] = self._dice.randint(1, 100)
        self.changes += 1


async def measure(server: holdfast.Server, agents: list[Agent], options: argparse.Namespace) -> Table:
    """The lateness of the ticks, in turns with and without company."""
    dice = Random(2)
    players = Players(server, agents, dice)
    room = await server.create_room("metronome")
    assert isinstance(room, Metronome)
    searching = (options.searches, players.search)
    companies: dict[str, list[tuple[int, Callable[[], Awaitable[None]]]]] = {
        "nothing": [],
        "searches": [searching],
        "searches, changes": [searching, (options.changes, players.change)],
    }
    late_ms: dict[str, list[float]] = {name: [] for name in companies}
    found_ms: dict[str, list[float]] = {name: [] for name in companies}
    busy_s = dict.fromkeys(companies, 0.0)
    for _ in range(options.rounds):
        for name, company in companies.items():
            tasks = [asyncio.create_task(paced(per_s, work, dice)) for per_s, work in company]
            room.late_ms, players.search_ms = [], []
            began_at = time.process_time()
            await asyncio.sleep(options.seconds)
            busy_s[name] += time.process_time() - began_at
            late_ms[name] += room.late_ms
            found_ms[name] += players.search_ms
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
    table = Table("meanwhile", "ticks", "late p50", "p99", "max ms", "found p50", "p99 ms", "CPU")
    for name, late in late_ms.items():
        found = found_ms[name] or [0.0]
        table.add_row(
            name,
            f"{len(late):,}",
            *(f"{each:.2f}" for each in (percentile(late, 0.5), percentile(late, 0.99), max(late))),
            *(f"{percentile(found, share):.2f}" for share in (0.5, 0.99)),
            f"{busy_s[name] / (options.seconds * options.rounds):.0%}",
        )
    return table


async def run(options: argparse.Namespace) -> None:
    """Fill a node, look at its clock, print."""
    console = Console()
    server = holdfast.Server([Arena, Metronome], listen=[], limits=LIMITS)
    await server.start()
    filled, agents = await fill(server, options.rooms, options.seats, Random(1))
    create_us, join_us = filled.create_s / options.rooms * 1e6, filled.join_s / options.seats * 1e6
    table = Table("on one node, by agents", "count", "us of CPU each", "per CPU-second")
    table.add_row("rooms made", f"{options.rooms:,}", f"{create_us:.0f}", f"{1e6 / create_us:,.0f}")
    table.add_row("seats taken", f"{options.seats:,}", f"{join_us:.0f}", f"{1e6 / join_us:,.0f}")
    pair_us = create_us + join_us
    table.add_row("a room made and a seat taken", "", f"{pair_us:.0f}", f"{1e6 / pair_us:,.0f}")
    console.print(table)
    console.print(f"the target for the last is {TARGET_PER_S:,} per CPU-second")
    console.print(await measure(server, agents, options))
    console.print(f"{TICK_HZ:g} ticks, {options.searches} searches and {options.changes:,} changes a second")
    await server.stop()


def main() -> None:
    """Parse, run."""
    parser = argparse.ArgumentParser(description="What the directory of one node bears.")
    parser.add_argument("--rooms", type=int, default=10_000)
    parser.add_argument("--seats", type=int, default=50_000)
    parser.add_argument("--searches", type=int, default=50, help="a second")
    parser.add_argument("--changes", type=int, default=1000, help="a second")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each part of a round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    # A clock that is late says so in the table.
    logging.getLogger("holdfast").setLevel(logging.ERROR)
    uvloop.run(run(options))


if __name__ == "__main__":
    main()
