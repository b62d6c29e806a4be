"""Ten thousand clients are cut off at once: how long until all of them are back, and is anything lost or duplicated?

The server, the clients and the hostile crowd each have a process of their own. Every client is a real session of the
SDK, with an address of its own on the loopback network, and sends numbered messages that the room counts and answers.
Then all connections are cut in one instant. A client is back when it is welcomed as `resumed`; after the storm every
client must have had an answer to every message, in order, once.

The second round does the same among hostile connections: some open a link and say nothing, some send a byte now and
then, some garbage, some a frame that is far too large, some shake hands and never say who they are. Each comes back as
soon as it is thrown out.

    python -m benchmarks.storm [--clients 10000] [--hostile 2000] [--over websocket] [--within 10]
"""

import argparse
import asyncio
import gc
import multiprocessing
import os
import random
import resource
import signal
import statistics
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import count
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import msgspec
import uvloop
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import holdfast
from benchmarks.rounds import Rounds
from holdfast import ClientRoom, ClientSession, Limits, Message, Outcome, Player, PlayerData, Room, on

SEATS = 100
# The clients are more work than the server: they get as many processes as there are cores.
CLIENT_PROCESSES = os.cpu_count() or 1
# Each client says something this often, before the storm, in it and after it.
PERIOD_S = 10.0
# So many sign in at a time: the storm is what is measured, not this.
AT_ONCE = 200
SIGN_INS = 5
SETTLE_S = PERIOD_S
PATIENCE_S = 120.0
# Ten thousand clients in one process are slower than each in its own: that is not the server's fault.
PATIENT = replace(Limits(), handshake_s=60.0, hello_s=60.0)


class Count(Message):
    """A client's next number."""

    number: int


class Tally(PlayerData):
    """What the room has of one player."""

    last: int = 0


class Hall(Room[Tally]):
    """Answers each number, and knows when one is missing or comes twice."""

    max_players = SEATS
    wrong = 0

    @on(Count)
    def counted(self, player: Player[Tally], message: Count) -> None:
        """Answer."""
        if message.number != player.data.last + 1:
            Hall.wrong += 1
        player.data.last = message.number
        player.send(message)


class Result(NamedTuple):
    """What became of the clients."""

    back_s: list[float]
    outcomes: dict[str, int]
    sent: int
    lost: int
    duplicated: int
    missing: int


def together(results: list[Result]) -> Result:
    """The clients of all processes."""
    outcomes: Counter[str] = sum((Counter(each.outcomes) for each in results), Counter())
    return Result(
        sorted(seconds for each in results for seconds in each.back_s),
        dict(outcomes),
        sum(each.sent for each in results),
        sum(each.lost for each in results),
        sum(each.duplicated for each in results),
        sum(each.missing for each in results),
    )


# The server


def run_server(pipe: Connection) -> None:
    """Serve until the pipe says stop; answer with CPU seconds, wrong numbers and counters."""
    allow_descriptors()
    tasks = set()

    async def answer(server: holdfast.Server) -> None:
        pipe.send(server.addresses)
        while await asyncio.get_running_loop().run_in_executor(None, hear, pipe) != "stop":
            counters = server.counters
            pipe.send(
                {
                    "cpu_s": time.process_time(),
                    "wrong": Hall.wrong,
                    "links": counters.connections + counters.connections_refused,
                    "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                }
            )
        signal.raise_signal(signal.SIGTERM)

    holdfast.run(
        holdfast.Server(
            [Hall], listen=[holdfast.WebSocket(port=0), holdfast.Tcp(port=0)], limits=replace(Limits(), drain_s=0.1)
        ),
        ready=lambda server: tasks.add(asyncio.ensure_future(answer(server))),
    )


def hear(pipe: Connection) -> str:
    """What the other end says; "stop" if it is gone."""
    try:
        word: str = pipe.recv()
    except EOFError:
        return "stop"
    return word


# The clients


class Addresses(uvloop.Loop):
    """A loop whose connections come from a new address of the loopback network each, as those of players do."""

    def __init__(self, network: int) -> None:
        super().__init__()
        self._hosts = (f"127.{network}.{number // 250 % 250}.{number % 250 + 1}" for number in count())

    async def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        """As ever, from the next address."""
        return await super().create_connection(*args, local_addr=(next(self._hosts), 0), **kwargs)


class Client:
    """One player: counts up, and listens to the answers."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._room: ClientRoom | None = None
        self._session: ClientSession | None = None
        self.sent = 0
        self.heard = 0
        self.wrong = 0
        self.back_at: float | None = None
        self.outcome = ""

    async def begin(self) -> None:
        """Sign in and take a seat."""
        self._session = await self._connect()
        self._session.on_resume(self._resumed)
        self._room = await self._session.join_or_create("hall")

    async def _connect(self) -> ClientSession:
        """Signing in is not what is measured: try again where the machine is too busy to do it in time."""
        for _ in range(SIGN_INS):
            with suppress(OSError):
                return await holdfast.connect(self._url, messages=[Count], limits=PATIENT)
            await asyncio.sleep(1.0)
        return await holdfast.connect(self._url, messages=[Count], limits=PATIENT)

    def cut(self) -> None:
        """Lose the connection."""
        assert self._session is not None
        self._session.cut()

    def _resumed(self, outcome: Outcome) -> None:
        self.back_at = time.perf_counter()
        self.outcome = outcome.kind

    async def talk(self, stopped: asyncio.Event) -> None:
        """Send a number every now and then."""
        assert self._room is not None
        await asyncio.sleep(random.random() * PERIOD_S)
        while not stopped.is_set():
            self.sent += 1
            await self._room.send(Count(self.sent))
            with suppress(TimeoutError):
                async with asyncio.timeout(PERIOD_S):
                    await stopped.wait()

    async def listen(self) -> None:
        """Check the answers."""
        assert self._room is not None
        async for message in self._room:
            assert isinstance(message, Count)
            if message.number != self.heard + 1:
                self.wrong += 1
            self.heard = message.number

    async def end(self) -> None:
        """Leave."""
        assert self._session is not None
        await self._session.close()


def run_clients(pipe: Connection, url: str, clients: int, network: int) -> None:
    """Sign in, wait for the word, cut everybody, and tell what became of them."""
    run(lambda: storm(pipe, url, clients), loop=lambda: Addresses(network))


async def storm(pipe: Connection, url: str, size: int) -> None:
    """The clients' side of one round."""
    loop = asyncio.get_running_loop()
    clients = [Client(url) for _ in range(size)]
    for start in range(0, size, AT_ONCE):
        await asyncio.gather(*(client.begin() for client in clients[start : start + AT_ONCE]))
        pipe.send(start + AT_ONCE)
    stopped = asyncio.Event()
    tasks = [asyncio.ensure_future(work) for each in clients for work in (each.talk(stopped), each.listen())]
    await asyncio.sleep(SETTLE_S)
    # So many clients in one process would else be looked through by the garbage collector in the middle of the storm.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    pipe.send("ready")
    await loop.run_in_executor(None, pipe.recv)
    cut_at = time.perf_counter()
    for client in clients:
        client.cut()
    await until(lambda: all(client.back_at is not None for client in clients))
    await asyncio.sleep(SETTLE_S)
    stopped.set()
    await until(lambda: all(client.heard >= client.sent for client in clients))
    outcomes = [client.outcome for client in clients]
    pipe.send(
        Result(
            sorted(client.back_at - cut_at for client in clients if client.back_at is not None),
            {outcome: outcomes.count(outcome) for outcome in set(outcomes)},
            sum(client.sent for client in clients),
            lost=sum(max(0, client.sent - client.heard) for client in clients),
            duplicated=sum(client.wrong for client in clients),
            missing=sum(client.back_at is None for client in clients),
        )
    )
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    """Look now and then, for a while: whatever is not true by then is part of the result."""
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while not condition():  # noqa: ASYNC110 - ten thousand clients are cheaper to look at than to listen to
                await asyncio.sleep(0.05)


# The hostile crowd


async def says_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Opens a link, and waits."""
    await writer.drain()


async def dribbles(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Slowloris: a header that never ends."""
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n")
    while not writer.is_closing():
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(1.0)


async def raves(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Garbage."""
    writer.write(random.randbytes(4096))
    await writer.drain()


async def boasts(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Shakes hands, then announces a frame of a gigabyte."""
    await shake_hands(reader, writer)
    writer.write(struct.pack(">BBQ", 0x82, 0xFF, 1 << 30) + b"\0\0\0\0" + b"x" * 1000)
    await writer.drain()


async def never_says_who(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Shakes hands, and that is all."""
    await shake_hands(reader, writer)


async def shake_hands(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The WebSocket's upgrade."""
    writer.write(
        b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Protocol: holdfast.v1.msgpack\r\n\r\n"
    )
    await reader.readuntil(b"\r\n\r\n")


ATTACKS = (says_nothing, dribbles, raves, boasts, never_says_who)


def run_crowd(pipe: Connection, port: int, size: int) -> None:
    """Attack until the pipe says stop; answer with how many links were opened."""
    opened = 0

    async def attack(kind: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]) -> None:
        nonlocal opened
        while True:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                opened += 1
                try:
                    await kind(reader, writer)
                    while await reader.read(4096):
                        pass
                finally:
                    writer.close()
            # A crowd, not a denial of service of this machine's own kernel.
            await asyncio.sleep(1.0)

    async def main() -> None:
        tasks = [asyncio.ensure_future(attack(ATTACKS[number % len(ATTACKS)])) for number in range(size)]
        await asyncio.sleep(2.0)
        pipe.send("ready")
        await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        pipe.send(opened)

    # Few addresses for many links: a crowd has what it can rent.
    run(main, loop=lambda: Addresses(100))


# The rounds


def run(main: Callable[[], Coroutine[Any, Any, None]], *, loop: Callable[[], Any] = uvloop.new_event_loop) -> None:
    """The life of a process: as many descriptors as it may have, and no traceback for Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    allow_descriptors()
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


def allow_descriptors() -> None:
    """As many as there may be."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Worker:
    """A process and the pipe to it."""

    def __init__(self, target: Callable[..., None], *args: Any) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process
        self._process = process(target=target, args=(theirs, *args), daemon=True)
        self._process.start()

    def ask(self, word: str) -> Any:
        """Say something, and wait for the answer."""
        self.pipe.send(word)
        return self.pipe.recv()

    def end(self) -> None:
        """Let it end; after a while, see to it."""
        self.pipe.close()
        self._process.join(30)
        if self._process.is_alive():
            self._process.kill()


class Sizes(msgspec.Struct):
    """The options of a storm without a hostile crowd, over WebSocket."""

    clients: int = 10_000


SIZES = Sizes()


def measure(sizes: Sizes, rounds: Rounds) -> None:
    """Play the rounds: nobody else's clients resume by the thousand, so Holdfast is alone."""
    for number in range(1, rounds.number + 1):
        rounds.tell(f"round {number}/{rounds.number}, {sizes.clients:,} clients")
        result, server, _ = round_of(sizes.clients, 0, "websocket")
        wrong = result.missing + result.lost + result.duplicated + int(server["wrong"])
        if wrong or set(result.outcomes) != {"resumed"}:
            raise AssertionError(f"the promise does not hold: {result.outcomes}, {wrong} messages or clients are wrong")
        rounds.figures.add("resume_storm_s", "holdfast", result.back_s[-1])


def round_of(
    clients: int, hostile: int, over: str, progress: Progress | None = None
) -> tuple[Result, dict[str, float], int]:
    """One storm; with what the server says of it, and how many hostile links there were."""
    with ExitStack() as processes:

        def started(target: Callable[..., None], *args: Any) -> Worker:
            worker = Worker(target, *args)
            processes.callback(worker.end)
            return worker

        server = started(run_server)
        doors = server.pipe.recv()
        crowd = started(run_crowd, doors["websocket"][1], hostile) if hostile else None
        scheme, (host, port) = ("ws", doors["websocket"]) if over == "websocket" else ("tcp", doors["tcp"])
        url, share = f"{scheme}://{host}:{port}", clients // CLIENT_PROCESSES
        crews = [started(run_clients, url, share, 1 + number) for number in range(CLIENT_PROCESSES)]
        shown = progress or Progress(disable=True)
        task = shown.add_task(f"sign in, {hostile} hostile" if hostile else "sign in", total=share)
        for crew in crews:
            while (word := crew.pipe.recv()) != "ready":
                shown.update(task, completed=word)
        if crowd is not None:
            crowd.pipe.recv()
        before = server.ask("tell")
        for crew in crews:
            crew.pipe.send("cut")
        result = together([crew.pipe.recv() for crew in crews])
        after = server.ask("tell")
        opened = crowd.ask("stop") if crowd is not None else 0
        return result, after | {name: after[name] - before[name] for name in ("cpu_s", "links")}, opened


FIGURES = (
    *("back, by outcome", "back after, p50", "back after, p99", "back after, the last"),
    *("messages sent", "lost", "duplicated", "hostile links opened"),
    *("server: links accepted", "server: CPU", "server: memory"),
)


def figures(result: Result, server: dict[str, float], opened: int) -> list[str]:
    """One round, as a column."""
    hundredths = statistics.quantiles(result.back_s, n=100)
    return [
        ", ".join(f"{outcome} {number:,}" for outcome, number in result.outcomes.items()),
        *(f"{seconds:.2f} s" for seconds in (hundredths[49], hundredths[98], result.back_s[-1])),
        *(f"{number:,}" for number in (result.sent, result.lost, result.duplicated + int(server["wrong"]), opened)),
        f"{server['links']:,}",
        f"{server['cpu_s']:.1f} s",
        f"{server['rss_mib']:.0f} MiB",
    ]


def main() -> int:
    """Run both rounds, and say whether the promise holds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--hostile", type=int, default=2_000)
    parser.add_argument("--over", choices=("websocket", "tcp"), default="websocket")
    parser.add_argument("--within", type=float, default=10.0, help="seconds in which all must be back")
    options = parser.parse_args()
    console = Console()
    holds = True
    columns: dict[str, list[str]] = {}
    with Progress(console=console, transient=True) as progress:
        for hostile in dict.fromkeys((0, options.hostile)):
            result, server, opened = round_of(options.clients, hostile, options.over, progress)
            columns[f"among {hostile:,} hostile" if hostile else "alone"] = figures(result, server, opened)
            duplicated = result.duplicated + int(server["wrong"])
            is_whole = not (result.missing or result.lost or duplicated) and set(result.outcomes) == {"resumed"}
            holds = holds and is_whole and result.back_s[-1] <= options.within
    table = Table("", *columns, title=f"{options.clients:,} clients cut at once, {os.cpu_count()} cores for everything")
    for name, *row in zip(FIGURES, *columns.values(), strict=True):
        table.add_row(name, *row)
    console.print(table)
    console.print("All back in time, nothing lost, nothing duplicated." if holds else "The promise does NOT hold.")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
