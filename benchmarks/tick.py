"""What does a ticking room cost? Server CPU per delivered message: Holdfast beside bare picows.

Rooms tick and broadcast a few messages each tick, as action games do, to their players and, if asked, to spectators. A
broadcast is encoded once; each who hears it costs a small head and one write. Bare picows sends the same bytes to as
many connections from one timer per room: no numbers, no replay, no acknowledgements. The clients acknowledge as the
SDKs do. The rounds are interleaved; the ratios within each round are what counts.

    python benchmarks/tick.py [--rooms 10] [--players 50] [--hz 20] [--broadcasts 3] [--seconds 5] [--rounds 5]
    python benchmarks/tick.py --rooms 1 --players 1 --spectators 2000 --hz 5
"""

import argparse
import asyncio
import multiprocessing
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import Any

import picows
import uvloop
from msgspec import Raw
from rich.console import Console
from rich.table import Table

import holdfast
from holdfast import Message, PlayerData, Room
from holdfast.core.codec import MSGPACK
from holdfast.schemas.frames import (
    READS_BLOCKS,
    Ack,
    Auth,
    BlockFrame,
    Data,
    Hello,
    Ping,
    Pong,
    Reply,
    Request,
    SeatFrame,
    Welcome,
)
from holdfast.testing import UNLIMITED

SUBPROTOCOL = "holdfast.v1.msgpack"
TEXT = "x" * 32
# The SDKs acknowledge at the latest when this many messages have been applied.
ACK_MESSAGES = 32


class Moved(Message):
    """What rooms broadcast."""

    text: str


SAMPLE = MSGPACK.payload(Data(1, 1000, 0, "moved", Raw(MSGPACK.encode(Moved(TEXT)))))


# Servers. Each opens a port, tells it, and then answers every word on the pipe with its CPU time.


async def serve_holdfast(players: int, spectators: int, hz: float, broadcasts: int) -> int:
    """Rooms that tick."""

    class Arena(Room[PlayerData]):
        max_players = players
        max_spectators = spectators
        tick_hz = hz

        def on_tick(self, dt_s: float) -> None:
            for _ in range(broadcasts):
                self.broadcast(Moved(TEXT))

    server = holdfast.Server([Arena], listen=[holdfast.WebSocket(port=0)], limits=UNLIMITED)
    await server.start()
    return server.addresses["websocket"][1]


async def serve_picows(players: int, spectators: int, hz: float, broadcasts: int) -> int:
    """The same bytes to as many connections."""
    rooms: list[list[picows.WSTransport]] = []

    async def tick(room: list[picows.WSTransport]) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due += 1 / hz
            await asyncio.sleep(due - loop.time())
            for _ in range(broadcasts):
                for transport in room:
                    transport.send(picows.WSMsgType.BINARY, SAMPLE)

    class Player(picows.WSListener):
        def on_ws_connected(self, transport: picows.WSTransport) -> None:
            if not rooms or len(rooms[-1]) == players + spectators:
                rooms.append([])
                ticking.append(asyncio.create_task(tick(rooms[-1])))
            rooms[-1].append(transport)

    ticking: list[asyncio.Task[None]] = []
    server = await picows.ws_create_server(lambda _: Player(), "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    return port


SERVERS: dict[str, Callable[[int, int, float, int], Awaitable[int]]] = {
    "bare picows": serve_picows,
    "holdfast": serve_holdfast,
}


def run_server(name: str, pipe: Connection, room: tuple[int, int, float, int]) -> None:
    """The life of a server process."""

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

        pipe.send(await SERVERS[name](*room))
        loop.add_reader(pipe.fileno(), asked)
        await stopped.wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


class Client(picows.WSListener):
    """Counts what arrives; beside bare picows there is nothing to agree on."""

    def __init__(self) -> None:
        self.received = 0
        self.ready = asyncio.Event()

    def on_ws_connected(self, transport: picows.WSTransport) -> None:
        """Connected."""
        self.ready.set()

    def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        """One message."""
        self.received += 1


class HoldfastClient(Client):
    """Watches a room, or takes a seat in one, and acknowledges."""

    def __init__(self, watched: str) -> None:
        super().__init__()
        self.room = watched
        self._acked = 0
        name, arguments = ("spectate", {"room": watched}) if watched else ("join_or_create", {"kind": "arena"})
        self._request = Request(1, name, Raw(MSGPACK.encode(arguments)))

    def on_ws_connected(self, transport: picows.WSTransport) -> None:
        """Sign in."""
        transport.send(picows.WSMsgType.BINARY, MSGPACK.payload(Hello(Auth(), features=[READS_BLOCKS])))

    def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        """The messages of a tick, and now and then something else."""
        for each in MSGPACK.from_server(frame.get_payload_as_bytes()):
            answer: Any = None
            match each:
                case Data() | BlockFrame():
                    count = len(each.messages) if isinstance(each, BlockFrame) else 1
                    self.received += count
                    last = each.seq + count - 1
                    if last - self._acked >= ACK_MESSAGES:
                        self._acked = last
                        answer = Ack(each.channel, last)
                case Ping():
                    answer = Pong(each.id)
                case Welcome():
                    answer = self._request
                case SeatFrame():
                    self.room = each.room
                case Reply():
                    assert each.problem is None, each.problem
                    self.ready.set()
                case _:
                    pass
            if answer is not None:
                transport.send(picows.WSMsgType.BINARY, MSGPACK.payload(answer))


class Contestant:
    """One server process and its clients."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.name = name
        self._pipe, theirs = multiprocessing.Pipe()
        room = (options.players, options.spectators, options.hz, options.broadcasts)
        self._process = multiprocessing.get_context("spawn").Process(
            target=run_server, args=(name, theirs, room), daemon=True
        )
        self._process.start()
        theirs.close()
        self._port: int = self._pipe.recv()
        self._clients: list[Client] = []

    async def connect(self, rooms: int, players: int, spectators: int) -> None:
        """Fill the rooms."""
        for _ in range(rooms):
            seated = [await self._connect() for _ in range(players)]
            watched = seated[0].room if isinstance(seated[0], HoldfastClient) else ""
            self._clients += [*seated, *[await self._connect(watched) for _ in range(spectators)]]

    async def _connect(self, watched: str = "") -> Client:
        is_holdfast = self.name == "holdfast"
        make = (lambda: HoldfastClient(watched)) if is_holdfast else Client
        headers = [("Sec-WebSocket-Protocol", SUBPROTOCOL)] if is_holdfast else []
        _, client = await picows.ws_connect(make, f"ws://127.0.0.1:{self._port}", extra_headers=headers)
        assert isinstance(client, Client)
        await asyncio.wait_for(client.ready.wait(), 30)
        return client

    async def measure(self, seconds: float) -> tuple[float, float]:
        """Microseconds of server CPU per delivered message, and messages a second."""
        cpu_s, received, began_at = self._cpu_s(), self._received(), time.perf_counter()
        await asyncio.sleep(seconds)
        messages = self._received() - received
        return (self._cpu_s() - cpu_s) / messages * 1e6, messages / (time.perf_counter() - began_at)

    def _received(self) -> int:
        return sum(client.received for client in self._clients)

    def _cpu_s(self) -> float:
        self._pipe.send("cpu")
        seconds: float = self._pipe.recv()
        return seconds

    def stop(self) -> None:
        """End the process."""
        self._pipe.send("stop")
        self._process.join(5)


Figures = dict[str, list[float]]


async def compete(options: argparse.Namespace) -> Figures:
    """All rounds: for each server its CPU per message. Only one server runs at a time: a ticking one never rests."""
    figures: Figures = {name: [] for name in SERVERS}
    for number in range(1, options.rounds + 1):
        for name in SERVERS:
            contestant = Contestant(name, options)
            try:
                await contestant.connect(options.rooms, options.players, options.spectators)
                await contestant.measure(0.5)
                cpu_us, rate = await contestant.measure(options.seconds)
            finally:
                contestant.stop()
            figures[name].append(cpu_us)
            sys.stderr.write(
                f"round {number}/{options.rounds}: {name} {cpu_us:.2f} us ({rate:,.0f} messages a second)\n"
            )
    return figures


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description="Server CPU per message that a ticking room delivers, side by side.")
    parser.add_argument("--rooms", type=int, default=10)
    parser.add_argument("--players", type=int, default=50, help="players in each room")
    parser.add_argument("--spectators", type=int, default=0, help="spectators of each room")
    parser.add_argument("--hz", type=float, default=20, help="ticks a second")
    parser.add_argument("--broadcasts", type=int, default=3, help="broadcasts each tick")
    parser.add_argument("--seconds", type=float, default=5, help="how long each round measures")
    parser.add_argument("--rounds", type=int, default=5)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures: Figures = runner.run(compete(parser.parse_args()))
    table = Table("server", "CPU per delivered message", "beside bare picows")
    for name, each in figures.items():
        ratios = [mine / bare for mine, bare in zip(each, figures["bare picows"], strict=True)]
        table.add_row(name, f"{statistics.median(each):.1f} us", f"{statistics.median(ratios):.2f} x")
    Console().print(table)


if __name__ == "__main__":
    main()
