"""What does "acknowledged means durable" cost? Memory rooms, commit rooms, and one fsync per message, side by side.

Each server runs in a process of its own; the load comes from this process, over real WebSockets, at a given number of
messages a second. Of every message the time until its echo is measured: in a commit room the echo, and the
acknowledgement that rides on it, leave only once the turn is on the disk.

    python benchmarks/durable.py [--loads 500 2000 10000 20000] [--rounds 3] [--plot docs/images/durable.svg]

With --nats, as in --nats nats://127.0.0.1:4222/bench, there is also a commit room whose store is this NATS server.
"""

import argparse
import asyncio
import math
import multiprocessing
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
import picows
import uvloop
from msgspec import Raw
from rich.console import Console
from rich.table import Table

import holdfast
from holdfast import Message, PlayerData, Room, on
from holdfast.core.codec import MSGPACK
from holdfast.schemas.frames import Auth, Data, FromServer, Hello, Ping, Pong, Reply, Request, Welcome
from holdfast.testing import UNLIMITED

TEXT = "x" * 32
SUBPROTOCOL = "holdfast.v1.msgpack"
WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 210, 30, 55
COLOURS = {"memory": "#7a8794", "commit": "#1f8f5f", "one fsync per message": "#c2502e", "commit on NATS": "#2b6cb0"}
CLIENTS = 50
ROOMS = 5


class Say(Message):
    """What clients send, and get back."""

    text: str


class Tally(msgspec.Struct):
    """What the room remembers."""

    said: int = 0


class MemoryEcho(Room[PlayerData]):
    """Counts, and sends every message back."""

    kind = "echo"
    max_players = CLIENTS // ROOMS
    state: Tally

    def on_create(self, config: dict[str, Any]) -> None:
        """Nothing was said yet."""
        self.state = Tally()

    @on(Say)
    def say(self, player: holdfast.Player[PlayerData], message: Say) -> None:
        """Count and echo."""
        self.state.said += 1
        player.send(message)


class CommitEcho(MemoryEcho):
    """The same, durable."""

    kind = "echo"
    durability = "commit"


class NatsEcho(CommitEcho):
    """The same, on a NATS server."""

    kind = "echo"


class FsyncEcho(MemoryEcho):
    """What one would write without a group commit: every message is a transaction of its own."""

    kind = "echo"
    database: sqlite3.Connection

    @on(Say)
    def say(self, player: holdfast.Player[PlayerData], message: Say) -> None:
        """Count, save, and echo."""
        self.state.said += 1
        self.database.execute(
            "INSERT OR REPLACE INTO room VALUES (?, ?)", (self.id, msgspec.msgpack.encode(self.state))
        )
        self.database.commit()
        player.send(message)


MODES: dict[str, type[MemoryEcho]] = {
    "memory": MemoryEcho,
    "commit": CommitEcho,
    "one fsync per message": FsyncEcho,
    "commit on NATS": NatsEcho,
}


async def serve(mode: str, folder: Path, nats: str) -> int:
    """A server with that kind of room; the port it chose."""
    kind = MODES[mode]
    if kind is FsyncEcho:
        FsyncEcho.database = sqlite3.connect(folder / "naive.db")
        FsyncEcho.database.execute("PRAGMA journal_mode=WAL")
        FsyncEcho.database.execute("PRAGMA synchronous=FULL")
        FsyncEcho.database.execute("CREATE TABLE room (id TEXT PRIMARY KEY, state BLOB)")
    stores: dict[type[MemoryEcho], str] = {CommitEcho: f"sqlite:{folder / 'rooms.db'}", NatsEcho: nats}
    store = stores.get(kind)
    server = holdfast.Server([kind], listen=[holdfast.WebSocket(port=0)], store=store, limits=UNLIMITED)
    await server.start()
    return server.addresses["websocket"][1]


def run_server(mode: str, folder: str, nats: str, pipe: Connection) -> None:
    """The life of a server process: it tells its port, then answers every word with its CPU time."""

    async def main() -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()

        def asked() -> None:
            try:
                word = pipe.recv()
            except EOFError:  # the parent is gone
                word = "stop"
            if word == "stop":
                loop.remove_reader(pipe.fileno())
                stopped.set()
            else:
                pipe.send(time.process_time())

        pipe.send(await serve(mode, Path(folder), nats))
        loop.add_reader(pipe.fileno(), asked)
        await stopped.wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


class Client(picows.WSListener):
    """One player: says what it is told to, and times the echoes."""

    def __init__(self, waits: list[float]) -> None:
        self.waits = waits
        self.ready = asyncio.Event()
        self.received = 0
        self._sent = 0
        self._sent_at: deque[float] = deque()
        self._transport: picows.WSTransport | None = None

    @property
    def in_flight(self) -> int:
        """Said, and not echoed yet."""
        return len(self._sent_at)

    def on_ws_connected(self, transport: picows.WSTransport) -> None:
        """Sign in."""
        self._transport = transport
        self._write(MSGPACK.payload(Hello(Auth())))

    def _write(self, payload: bytes) -> None:
        assert self._transport is not None
        self._transport.send(picows.WSMsgType.BINARY, payload)

    def say(self) -> None:
        """The next message."""
        self._sent += 1
        self._sent_at.append(time.perf_counter())
        self._write(MSGPACK.payload(Data(1, self._sent, self.received, "say", _BODY)))

    def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        """Echoes, mostly."""
        for each in MSGPACK.from_server(frame.get_payload_as_bytes()):
            self._heard(each)

    def _heard(self, frame: FromServer) -> None:
        match frame:
            case Data():
                self.received = frame.seq
                self.waits.append(time.perf_counter() - self._sent_at.popleft())
            case Ping():
                self._write(MSGPACK.payload(Pong(frame.id, frame.channel, self.received)))
            case Welcome():
                self._write(MSGPACK.payload(Request(1, "join_or_create", Raw(MSGPACK.encode({"kind": "echo"})))))
            case Reply():
                self.ready.set()
            case _:
                pass


_BODY = Raw(MSGPACK.encode(Say(TEXT)))


class Figures(msgspec.Struct):
    """One mode under one load."""

    per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: float

    @classmethod
    def median(cls, rounds: list["Figures"]) -> "Figures":
        """The usual round: the median of each figure."""
        return cls(*(statistics.median(getattr(each, name) for each in rounds) for name in cls.__struct_fields__))


class Contestant:
    """One server process and its players."""

    def __init__(self, mode: str, folder: Path, nats: str) -> None:
        self.mode = mode
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(
            target=run_server, args=(mode, str(folder), nats, theirs), daemon=True
        )
        self._process.start()
        self._port: int = self._pipe.recv()
        self._clients: list[Client] = []
        self._waits: list[float] = []

    async def connect(self) -> None:
        """Seat everybody."""
        for _ in range(CLIENTS):
            _, client = await picows.ws_connect(
                lambda: Client(self._waits),
                f"ws://127.0.0.1:{self._port}",
                extra_headers=[("Sec-WebSocket-Protocol", SUBPROTOCOL)],
            )
            assert isinstance(client, Client)
            await asyncio.wait_for(client.ready.wait(), 30)
            self._clients.append(client)

    async def under_load(self, per_s: int, seconds: float) -> Figures:
        """So many messages a second, spread over the players."""
        self._waits.clear()
        before = self._cpu_s()
        began_at, sent, total = time.perf_counter(), 0, int(per_s * seconds)
        while sent < total:
            due = min(total, int((time.perf_counter() - began_at) * per_s))
            for number in range(sent, due):
                self._clients[number % CLIENTS].say()
            sent = due
            await asyncio.sleep(0.001)
        await self._all_echoed()
        return self._figures(time.perf_counter() - began_at, self._cpu_s() - before)

    async def flat_out(self, seconds: float, in_flight: int) -> Figures:
        """As fast as it answers, with so many messages on their way for each player."""
        self._waits.clear()
        before = self._cpu_s()
        began_at = time.perf_counter()
        while time.perf_counter() - began_at < seconds:
            for client in self._clients:
                while client.in_flight < in_flight:
                    client.say()
            await asyncio.sleep(0)
        await self._all_echoed()
        return self._figures(time.perf_counter() - began_at, self._cpu_s() - before)

    async def _all_echoed(self) -> None:
        async with asyncio.timeout(120):
            while any(client.in_flight for client in self._clients):  # noqa: ASYNC110 - an event would cost per message
                await asyncio.sleep(0.001)

    def _figures(self, took_s: float, cpu_s: float) -> Figures:
        waits = sorted(self._waits)
        count = len(waits)
        return Figures(
            per_s=count / took_s,
            p50_ms=waits[count // 2] * 1e3,
            p99_ms=waits[count * 99 // 100] * 1e3,
            cpu_us=cpu_s / count * 1e6,
        )

    def _cpu_s(self) -> float:
        self._pipe.send("cpu")
        seconds: float = self._pipe.recv()
        return seconds

    def stop(self) -> None:
        """End the process."""
        self._pipe.send("stop")
        self._process.join(10)


async def compete(options: argparse.Namespace, folder: Path) -> dict[str, dict[str, Figures]]:
    """For each load and mode its figures: medians of rounds in which the modes take turns."""
    contestants = [Contestant(mode, folder, options.nats) for mode in MODES if options.nats or mode != "commit on NATS"]
    results: dict[str, dict[str, Figures]] = {}
    try:
        for contestant in contestants:
            await contestant.connect()
            await contestant.under_load(500, 1)
        for load in (*options.loads, None):
            name = f"{load:,} a second" if load is not None else "flat out"
            rounds: dict[str, list[Figures]] = {contestant.mode: [] for contestant in contestants}
            for number in range(1, options.rounds + 1):
                for contestant in contestants:
                    if contestant.mode == "one fsync per message" and load is not None and load > options.naive_max:
                        continue
                    if load is None:
                        figures = await contestant.flat_out(options.seconds, 16)
                    else:
                        figures = await contestant.under_load(load, options.seconds)
                    rounds[contestant.mode].append(figures)
                    sys.stderr.write(f"{name}, round {number}/{options.rounds}: {contestant.mode} {figures}\n")
            results[name] = {mode: Figures.median(each) for mode, each in rounds.items() if each}
    finally:
        for contestant in contestants:
            contestant.stop()
    return results


@dataclass(frozen=True)
class Curve:
    """One mode and percentile: (messages a second, milliseconds)."""

    mode: str
    percentile: str
    points: list[tuple[float, float]]


def draw(curves: list[Curve]) -> str:
    """Both axes logarithmic; solid lines are medians, dashed ones the 99th percentile."""
    drawn = [curve for curve in curves if curve.points]
    xs = [x for curve in drawn for x, _ in curve.points]
    ys = [max(y, 0.05) for curve in drawn for _, y in curve.points]
    left, right = math.log10(min(xs)), math.log10(max(xs))
    low, high = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))

    def across(x: float) -> float:
        return LEFT + (math.log10(x) - left) / max(right - left, 1e-9) * (WIDTH - LEFT - RIGHT)

    def up(y: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(max(y, 0.05)) - low) / max(high - low, 1) * (HEIGHT - TOP - BOTTOM)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui, sans-serif"'
        ' font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="18" font-weight="600">Time until a message is echoed, against load</text>',
    ]
    for power in range(low, high + 1):
        y = up(10.0**power)
        lines.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dde3e8"/>')
        lines.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g} ms</text>')
    lines += [
        f'<text x="{across(max(x, min(xs))):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{x:,.0f}</text>'
        for x in sorted({round(x, -2) for x in xs})
    ]
    lines.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">messages a second</text>'
    )
    for row, curve in enumerate(drawn):
        colour, dash = COLOURS[curve.mode], ' stroke-dasharray="5 4"' if curve.percentile == "p99" else ""
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in curve.points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        y = TOP + 20 + row * 22
        lines.append(
            f'<line x1="{WIDTH - RIGHT + 18}" x2="{WIDTH - RIGHT + 46}" y1="{y}" y2="{y}" stroke="{colour}"'
            f' stroke-width="2"{dash}/>'
            f'<text x="{WIDTH - RIGHT + 52}" y="{y + 4}">{curve.mode}, {curve.percentile}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


def echo(options: argparse.Namespace, console: Console) -> None:
    """The table, and the plot."""
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        results: dict[str, dict[str, Figures]] = runner.run(compete(options, Path(folder)))
    table = Table("load", "mode", "echoed a second", "p50", "p99", "CPU per message", "beside memory")
    for load, modes in results.items():
        for mode, figures in modes.items():
            ratio = figures.cpu_us / modes["memory"].cpu_us
            table.add_row(
                load,
                mode,
                f"{figures.per_s:,.0f}",
                f"{figures.p50_ms:.1f} ms",
                f"{figures.p99_ms:.1f} ms",
                f"{figures.cpu_us:.1f} us",
                f"{ratio:.2f} x",
            )
        table.add_section()
    console.print(table)
    if options.plot is not None:
        curves: list[Curve] = []
        for mode in MODES:
            points = [modes[mode] for load, modes in results.items() if load != "flat out" and mode in modes]
            if not points:
                continue
            curves.append(Curve(mode, "p50", [(each.per_s, each.p50_ms) for each in points]))
            curves.append(Curve(mode, "p99", [(each.per_s, each.p99_ms) for each in points]))
        options.plot.write_text(draw(curves))
        console.print(f"wrote {options.plot}")


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description="What durability costs, side by side with memory.")
    parser.add_argument("--loads", type=int, nargs="+", default=[500, 1_000, 2_000, 5_000, 10_000, 15_000, 20_000])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--naive-max", type=int, default=2_000, help="above this load one fsync per message is left out"
    )
    parser.add_argument("--nats", default="", help="the address of a store on NATS, to measure it too")
    parser.add_argument("--plot", type=Path, help="write the latencies as an SVG")
    parser.add_argument("--folder", type=Path, help="where the databases go: a disk, not a tmpfs")
    echo(parser.parse_args(), Console())


if __name__ == "__main__":
    main()
