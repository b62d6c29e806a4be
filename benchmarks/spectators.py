"""What do spectators cost? Server CPU per message delivered to them: Holdfast beside bare picows.

One room ticks and broadcasts; one player has a seat, and everybody else watches. Bare picows sends the same bytes to as
many connections from one timer: no numbers, no replay, no acknowledgements. A broadcast is encoded once; each spectator
costs a small head and one write. The clients acknowledge as the SDKs do. The rounds are interleaved; the ratios within
each round are what counts.

    python benchmarks/spectators.py [--spectators 2000] [--hz 5] [--broadcasts 3] [--seconds 5] [--rounds 3]
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
from holdfast.schemas.frames import Ack, Auth, Data, Hello, Ping, Pong, Reply, Request, SeatFrame, Welcome
from holdfast.testing import UNLIMITED

SUBPROTOCOL = "holdfast.v1.msgpack"
TEXT = "x" * 32
# The SDKs acknowledge at the latest when this many messages have been applied.
ACK_MESSAGES = 32


class Moved(Message):
    """What the room broadcasts."""

    text: str


SAMPLE = MSGPACK.payload(Data(1, 1000, 0, "moved", Raw(MSGPACK.encode(Moved(TEXT)))))


# Servers. Each opens a port, tells it, and then answers every word on the pipe with its CPU time.


async def serve_holdfast(spectators: int, hz: float, broadcasts: int) -> int:
    """A room that ticks, and is watched."""

    class Arena(Room[PlayerData]):
        max_players = 1
        max_spectators = spectators
        tick_hz = hz

        def on_tick(self, dt_s: float) -> None:
            for _ in range(broadcasts):
                self.broadcast(Moved(TEXT))

    server = holdfast.Server([Arena], listen=[holdfast.WebSocket(port=0)], limits=UNLIMITED)
    await server.start()
    return server.addresses["websocket"][1]


async def serve_picows(spectators: int, hz: float, broadcasts: int) -> int:
    """The same bytes to as many connections."""
    watching: list[picows.WSTransport] = []

    async def tick() -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due += 1 / hz
            await asyncio.sleep(due - loop.time())
            for _ in range(broadcasts):
                for transport in watching:
                    transport.send(picows.WSMsgType.BINARY, SAMPLE)

    class Spectator(picows.WSListener):
        def on_ws_connected(self, transport: picows.WSTransport) -> None:
            watching.append(transport)

    ticking.append(asyncio.create_task(tick()))
    server = await picows.ws_create_server(lambda _: Spectator(), "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    return port


ticking: list[asyncio.Task[None]] = []
"""Referred to here: a task that nothing refers to may vanish."""

SERVERS: dict[str, Callable[[int, float, int], Awaitable[int]]] = {
    "bare picows": serve_picows,
    "holdfast": serve_holdfast,
}


def run_server(name: str, pipe: Connection, room: tuple[int, float, int]) -> None:
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
    """Watches a room, or takes the seat in a new one; and acknowledges."""

    def __init__(self, room: str) -> None:
        super().__init__()
        self.room = room
        self._acked = 0
        arguments = {"room": room} if room else {"kind": "arena"}
        self._request = Request(1, "spectate" if room else "join_or_create", Raw(MSGPACK.encode(arguments)))

    def on_ws_connected(self, transport: picows.WSTransport) -> None:
        """Sign in."""
        transport.send(picows.WSMsgType.BINARY, MSGPACK.payload(Hello(Auth())))

    def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        """The messages of a tick, and now and then something else."""
        for each in MSGPACK.from_server(frame.get_payload_as_bytes()):
            answer: Any = None
            match each:
                case Data():
                    self.received += 1
                    if each.seq - self._acked >= ACK_MESSAGES:
                        self._acked = each.seq
                        answer = Ack(each.channel, each.seq)
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
        room = (options.spectators, options.hz, options.broadcasts)
        self._process = multiprocessing.get_context("spawn").Process(
            target=run_server, args=(name, theirs, room), daemon=True
        )
        self._process.start()
        theirs.close()
        self._port: int = self._pipe.recv()
        self._clients: list[Client] = []

    async def connect(self, spectators: int) -> None:
        """Seat one, and let the others watch."""
        room = ""
        for _ in range(spectators + 1):
            client = await self._connect(room)
            if isinstance(client, HoldfastClient):
                room = client.room
            self._clients.append(client)

    async def _connect(self, room: str) -> Client:
        is_holdfast = self.name == "holdfast"
        make = (lambda: HoldfastClient(room)) if is_holdfast else Client
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
                await contestant.connect(options.spectators)
                await contestant.measure(1.0)
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
    parser = argparse.ArgumentParser(description="Server CPU per message delivered to spectators, side by side.")
    parser.add_argument("--spectators", type=int, default=2000, help="spectators of the room")
    parser.add_argument("--hz", type=float, default=5, help="ticks a second")
    parser.add_argument("--broadcasts", type=int, default=3, help="broadcasts each tick")
    parser.add_argument("--seconds", type=float, default=5, help="how long each round measures")
    parser.add_argument("--rounds", type=int, default=3)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures: Figures = runner.run(compete(parser.parse_args()))
    table = Table("server", "CPU per delivered message", "beside bare picows")
    for name, each in figures.items():
        ratios = [mine / bare for mine, bare in zip(each, figures["bare picows"], strict=True)]
        table.add_row(name, f"{statistics.median(each):.1f} us", f"{statistics.median(ratios):.2f} x")
    Console().print(table)


if __name__ == "__main__":
    main()
