"""What does the session layer cost? Server CPU per echoed message: Holdfast beside bare picows and `websockets`.

Each server runs in a process of its own and reports its own CPU time; the load comes from this process. The rounds are
interleaved, so that a noisy machine is noisy for all of them, and the ratios of each round are what counts.

Two loads: "flat out", each client sends its next message when the last came back, so that the server is never idle and
the kernel's part is as small as it gets; and "paced", a given number of messages a second, as a server with headroom
sees them, where each message also wakes a sleeping process.

    python benchmarks/echo.py [--clients 50] [--messages 40000] [--rate 5000] [--rounds 5]
"""

import argparse
import asyncio
import multiprocessing
import os
import statistics
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection

import picows
import uvloop
import websockets
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


class Say(Message):
    """What clients send, and get back."""

    text: str


class Echo(Room[PlayerData]):
    """Sends every message back: reliably, numbered, kept until acknowledged."""

    max_players = 10_000

    @on(Say)
    def say(self, player: holdfast.Player[PlayerData], message: Say) -> None:
        """Echo."""
        player.send(message)


# Servers. Each opens a port, tells it, and then answers every word on the pipe with its CPU time.


async def serve_holdfast() -> int:
    """A Holdfast server with an echo room."""
    # The checks of the limits are made all the same.
    server = holdfast.Server([Echo], listen=[holdfast.WebSocket(port=0)], limits=UNLIMITED)
    await server.start()
    return server.addresses["websocket"][1]


async def serve_picows() -> int:
    """The same bytes back, nothing else."""

    class EchoListener(picows.WSListener):
        def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
            transport.send(picows.WSMsgType.BINARY, frame.get_payload_as_bytes())

    server = await picows.ws_create_server(lambda _: EchoListener(), "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    return port


async def serve_websockets() -> int:
    """The same with the `websockets` library, at its leanest."""

    async def echo(connection: websockets.ServerConnection) -> None:
        async for message in connection:
            await connection.send(message)

    server = await websockets.serve(echo, "127.0.0.1", 0, compression=None, ping_interval=None)
    port: int = next(iter(server.sockets)).getsockname()[1]
    return port


SERVERS: dict[str, Callable[[], Awaitable[int]]] = {
    "bare picows": serve_picows,
    "holdfast": serve_holdfast,
    "websockets": serve_websockets,
}


def run_server(name: str, pipe: Connection, core: int | None) -> None:
    """The life of a server process."""
    pin(core)

    async def main() -> None:
        stopped = asyncio.Event()
        pipe.send(await SERVERS[name]())

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

        loop = asyncio.get_running_loop()
        loop.add_reader(pipe.fileno(), asked)
        await stopped.wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def pin(core: int | None) -> None:
    """Stay on one core, where the system allows it."""
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


# Clients. One message in flight each; raw picows, so that the load costs as little as it can.


class Client(picows.WSListener):
    """Sends the next message when the last came back, until it is told to stop."""

    def __init__(self) -> None:
        self.echoed = 0
        self.wanted = 0
        self.is_paced = False
        self.ready = asyncio.Event()
        self.done = asyncio.Event()
        self.transport: picows.WSTransport | None = None

    def on_ws_connected(self, transport: picows.WSTransport) -> None:
        """Connected."""
        self.transport = transport
        self.begin()

    def begin(self) -> None:
        """Nothing to agree on."""
        self.ready.set()

    def prepare(self, messages: int) -> None:
        """Get ready to send this many messages."""

    def write(self, payload: bytes) -> None:
        """Send a payload."""
        assert self.transport is not None
        self.transport.send(picows.WSMsgType.BINARY, payload)

    def next_payload(self) -> bytes:
        """The same number of bytes that Holdfast's client sends."""
        return _SAMPLE

    def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        """An echo."""
        self.came_back()

    def came_back(self) -> None:
        """Count, and send the next one."""
        self.echoed += 1
        if self.echoed >= self.wanted:
            self.done.set()
        elif not self.is_paced:
            self.write(self.next_payload())

    def expect(self, messages: int, *, is_paced: bool) -> None:
        """Get ready for this many messages."""
        self.prepare(messages)
        self.wanted = self.echoed + messages
        self.is_paced = is_paced
        self.done.clear()


class HoldfastClient(Client):
    """Speaks the protocol: numbered messages, acknowledgements.

    With one message in flight everything it will say is known beforehand, so it is encoded before the clock runs: a
    slow client would let the server fall asleep between messages and measure the waking up.
    """

    def __init__(self) -> None:
        super().__init__()
        self._ahead: deque[bytes] = deque()
        self._encoded = 0

    def begin(self) -> None:
        """Sign in."""
        self.write(MSGPACK.payload(Hello(Auth())))

    def prepare(self, messages: int) -> None:
        """Encode what will be sent: each message acknowledges the echo of the one before."""
        for _ in range(messages):
            self._encoded += 1
            self._ahead.append(MSGPACK.payload(Data(1, self._encoded, self._encoded - 1, "say", _BODY)))

    def next_payload(self) -> bytes:
        """The next numbered message."""
        return self._ahead.popleft()

    def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        """One echo, nearly always; whatever else the server said is decoded."""
        payload = frame.get_payload_as_bytes()
        if payload.startswith(_ONE_DATA):
            self.came_back()
        else:
            for each in MSGPACK.from_server(payload):
                self._heard(each)

    def _heard(self, frame: FromServer) -> None:
        if isinstance(frame, Data):
            self.came_back()
        elif isinstance(frame, Ping):
            self.write(MSGPACK.payload(Pong(frame.id, frame.channel, self.echoed)))
        elif isinstance(frame, Welcome):
            request = MSGPACK.encode({"kind": "echo"})
            self.write(MSGPACK.payload(Request(1, "join_or_create", Raw(request))))
        elif isinstance(frame, Reply):
            self.ready.set()


_BODY = Raw(MSGPACK.encode(Say(TEXT)))
_ONE_DATA = b"\x91\x96\xa4data"
_SAMPLE = MSGPACK.payload(Data(1, 1000, 1000, "say", _BODY))


async def never_sleep() -> None:
    """Keep this process awake: waking a sleeping reader is the dearest part of a send, and would count as the server's
    cost for those servers only that are slower than the load."""
    while True:  # noqa: ASYNC110 - the spinning is the point
        await asyncio.sleep(0)


class Contestant:
    """One server process and its clients."""

    def __init__(self, name: str, core: int | None) -> None:
        self.name = name
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(
            target=run_server, args=(name, theirs, core), daemon=True
        )
        self._process.start()
        self._port: int = self._pipe.recv()
        self._clients: list[Client] = []

    async def connect(self, clients: int) -> None:
        """Open the connections, once."""
        kind = HoldfastClient if self.name == "holdfast" else Client
        for _ in range(clients):
            _, listener = (
                await picows.ws_connect(
                    kind, f"ws://127.0.0.1:{self._port}", extra_headers=[("Sec-WebSocket-Protocol", SUBPROTOCOL)]
                )
                if kind is HoldfastClient
                else await picows.ws_connect(kind, f"ws://127.0.0.1:{self._port}")
            )
            assert isinstance(listener, Client)
            await asyncio.wait_for(listener.ready.wait(), 10)
            self._clients.append(listener)

    async def flat_out(self, messages: int) -> float:
        """Microseconds of server CPU per echoed message, one in flight per client."""
        each = messages // len(self._clients)
        for client in self._clients:
            client.expect(each, is_paced=False)
        before = self._cpu_s()
        spinning = asyncio.create_task(never_sleep())
        for client in self._clients:
            client.write(client.next_payload())
        await self._all_done()
        spinning.cancel()
        return (self._cpu_s() - before) / (each * len(self._clients)) * 1e6

    async def paced(self, messages: int, rate: int) -> float:
        """The same, with so many messages a second."""
        each = messages // len(self._clients)
        for client in self._clients:
            client.expect(each, is_paced=True)
        before = self._cpu_s()
        began_at, sent, total = time.perf_counter(), 0, each * len(self._clients)
        while sent < total:
            due = min(total, int((time.perf_counter() - began_at) * rate))
            for number in range(sent, due):
                client = self._clients[number % len(self._clients)]
                client.write(client.next_payload())
            sent = due
            await asyncio.sleep(0.0005)
        await self._all_done()
        return (self._cpu_s() - before) / total * 1e6

    async def _all_done(self) -> None:
        async with asyncio.timeout(120):
            for client in self._clients:
                await client.done.wait()

    def _cpu_s(self) -> float:
        self._pipe.send("cpu")
        seconds: float = self._pipe.recv()
        return seconds

    def stop(self) -> None:
        """End the process."""
        self._pipe.send("stop")
        self._process.join(5)


Figures = dict[str, dict[str, list[float]]]


async def compete(options: argparse.Namespace) -> Figures:
    """All rounds: for each load and server, its figure in each round."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    server_core, load_core = (cores[0], cores[-1]) if len(cores) > 1 else (None, None)
    pin(load_core)
    contestants = [Contestant(name, server_core) for name in SERVERS]
    paced = f"{options.rate:,} a second"
    figures: Figures = {load: {name: [] for name in SERVERS} for load in ("flat out", paced)}
    try:
        for contestant in contestants:
            await contestant.connect(options.clients)
            await contestant.flat_out(options.messages // 10)
        for number in range(1, options.rounds + 1):
            for contestant in contestants:
                figures["flat out"][contestant.name].append(await contestant.flat_out(options.messages))
            for contestant in contestants:
                figures[paced][contestant.name].append(await contestant.paced(options.rate * 2, options.rate))
            for load, values in figures.items():
                line = "  ".join(f"{name} {each[-1]:.1f} us" for name, each in values.items())
                sys.stderr.write(f"round {number}/{options.rounds}, {load}: {line}\n")
    finally:
        for contestant in contestants:
            contestant.stop()
    return figures


def report(figures: Figures, console: Console) -> None:
    """The table for the docs: medians, and the median of the ratios within each round."""
    table = Table("load", "server", "CPU per message", "beside bare picows")
    for load, values in figures.items():
        for name, each in values.items():
            ratios = [mine / bare for mine, bare in zip(each, values["bare picows"], strict=True)]
            table.add_row(load, name, f"{statistics.median(each):.1f} us", f"{statistics.median(ratios):.2f} x")
        table.add_section()
    console.print(table)


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description="Server CPU per echoed message, side by side.")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--messages", type=int, default=40_000, help="messages per server and round, flat out")
    parser.add_argument("--rate", type=int, default=5_000, help="messages a second, paced")
    parser.add_argument("--rounds", type=int, default=5)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures: Figures = runner.run(compete(parser.parse_args()))
    report(figures, Console())


if __name__ == "__main__":
    main()
