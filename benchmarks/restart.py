"""A server is killed (kill -9) and started again: how long after its port is open until everybody is back?

Every client is a real session of the SDK with a seat in a durable room. The server stays away for a few seconds, as if
a supervisor started it again. A client is back when it is welcomed as `resumed`; the time counts from the moment at
which the port accepts a connection. Rounds alternate between the waits that clients had before (0.25 s at first, up to
15 s) and those they have now, and between clients that share one address and clients with one each.

    python -m benchmarks.restart [--clients 500] [--rounds 3] [--away 5]
"""

import argparse
import asyncio
import multiprocessing
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import uvloop
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import holdfast
from holdfast import Message, Outcome, Player, PlayerData, Room, on
from holdfast.core.backoff import FIRST_S, LONGEST_S

SEATS = 10
# So many sign in at a time: coming back is what is measured, not this.
AT_ONCE = 50
PATIENCE_S = 60.0
# How often the port is tried while the server starts.
LOOK_S = 0.005


class Waits(NamedTuple):
    """One setting of the clients."""

    name: str
    first_s: float
    longest_s: float


ONE_FOR_ALL, ONE_EACH = "one for all", "one each"
BEFORE = Waits("before", 0.25, 15.0)
NOW = Waits("now", FIRST_S, LONGEST_S)


class Count(Message):
    """A client's next number."""

    number: int


class Sum(msgspec.Struct):
    """What a room remembers."""

    counted: int = 0


class Hall(Room[PlayerData]):
    """Counts what it is told, and forgets nothing of it."""

    max_players = SEATS
    durability = "commit"
    grace_s = 120.0
    state: Sum

    def on_create(self, config: object) -> None:
        """Nothing yet."""
        self.state = Sum()

    @on(Count)
    def counted(self, player: Player[PlayerData], message: Count) -> None:
        """Answer."""
        self.state.counted += 1
        player.send(message)


def run_server(pipe: Connection, store: str, port: int) -> None:
    """Serve on that port until killed."""
    server = holdfast.Server([Hall], listen=[holdfast.WebSocket(port=port)], store=store)
    holdfast.run(server, ready=lambda server: pipe.send(server.addresses["websocket"][1]))


class Client:
    """One player with a seat."""

    def __init__(self) -> None:
        self.back_at = 0.0
        self.outcome = ""

    async def begin(self, url: str, waits: Waits) -> None:
        """Sign in, take a seat, and say something."""
        session = await holdfast.connect(
            url, messages=[Count], retry_first_s=waits.first_s, retry_longest_s=waits.longest_s
        )
        session.on_resume(self._resumed)
        room = await session.join_or_create("hall")
        await room.send(Count(1))
        await room.receive()

    def _resumed(self, outcome: Outcome) -> None:
        self.back_at = time.perf_counter()
        self.outcome = outcome.kind


class OneEach(uvloop.Loop):
    """A loop in which every connection comes from another address of the loopback network."""

    def __init__(self) -> None:
        super().__init__()
        self._dialled = 0

    async def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        """As ever, from the next address."""
        self._dialled += 1
        host = f"127.1.{self._dialled // 250 % 250}.{self._dialled % 250 + 1}"
        return await super().create_connection(*args, local_addr=(host, 0), **kwargs)


def run_clients(pipe: Connection, url: str, size: int, waits: Waits, addresses: str) -> None:
    """Sign in, be there while the server dies and lives again, and tell when each was back."""
    with asyncio.Runner(loop_factory=OneEach if addresses == ONE_EACH else uvloop.new_event_loop) as runner:
        runner.run(come_back(pipe, url, size, waits))


async def come_back(pipe: Connection, url: str, size: int, waits: Waits) -> None:
    """The clients' side of one round."""
    clients = [Client() for _ in range(size)]
    for start in range(0, size, AT_ONCE):
        await asyncio.gather(*(client.begin(url, waits) for client in clients[start : start + AT_ONCE]))
    pipe.send("ready")
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while not all(client.back_at for client in clients):  # noqa: ASYNC110 - cheaper than to listen to each
                await asyncio.sleep(0.02)
    pipe.send([(client.back_at, client.outcome) for client in clients])


def start(target: Callable[..., None], *args: Any) -> tuple[BaseProcess, Connection]:
    """A process, and the pipe on which it tells."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=target, args=(theirs, *args), daemon=True)
    process.start()
    return process, ours


def kill(process: BaseProcess) -> None:
    """kill -9."""
    process.kill()
    process.join()


def when_open(port: int) -> float:
    """The moment at which the port accepts a connection."""
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return time.perf_counter()
        time.sleep(LOOK_S)


def round_of(size: int, waits: Waits, away_s: float, addresses: str) -> list[float]:
    """How long after the port was open each client was back; those who were not count as infinitely late."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:{Path(folder) / 'game.db'}"
        server, told = start(run_server, store, 0)
        port = told.recv()
        crew, news = start(run_clients, f"ws://127.0.0.1:{port}", size, waits, addresses)
        news.recv()
        kill(server)
        time.sleep(away_s)
        server, told = start(run_server, store, port)
        opened_at = when_open(port)
        ends = news.recv()
        kill(crew)
        kill(server)
    return sorted(max(0.0, at - opened_at) if outcome == "resumed" else float("inf") for at, outcome in ends)


def main() -> int:
    """Run the rounds, and say whether the promise holds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--away", type=float, default=5.0, help="seconds between the kill and the start")
    parser.add_argument("--within", type=float, default=2.0, help="seconds in which all must be back")
    options = parser.parse_args()
    console = Console()
    table = Table("waits", "addresses", "half after", "99 % after", "the last after", "the last, each round")
    holds = True
    settings = [(waits, addresses) for waits in (BEFORE, NOW) for addresses in (ONE_FOR_ALL, ONE_EACH)]
    rows: dict[tuple[Waits, str], list[list[float]]] = {setting: [] for setting in settings}
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("rounds", total=options.rounds * len(rows))
        for _ in range(options.rounds):
            for (waits, addresses), rounds in rows.items():
                rounds.append(round_of(options.clients, waits, options.away, addresses))
                progress.advance(task)
    for (waits, addresses), rounds in rows.items():
        back_s = sorted(seconds for each in rounds for seconds in each)
        hundredths = statistics.quantiles(back_s, n=100)
        lasts = [each[-1] for each in rounds]
        table.add_row(
            f"{waits.name}: {waits.first_s:g} s, up to {waits.longest_s:g} s",
            addresses,
            *(f"{seconds:.2f} s" for seconds in (hundredths[49], hundredths[98], back_s[-1])),
            ", ".join(f"{seconds:.2f}" for seconds in lasts),
        )
        holds = holds and (waits is BEFORE or max(lasts) <= options.within)
    table.title = f"{options.clients} clients, server killed and away for {options.away:g} s, {os.cpu_count()} cores"
    console.print(table)
    console.print("All back in time." if holds else "The promise does NOT hold.")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
