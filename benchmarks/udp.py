"""What does UDP cost? Server CPU per echoed message: over WebSocket, TCP and ENet, and as datagrams.

Each server runs in a process of its own and reports its own CPU time; the clients, in this process, each send their
next message when the last came back. The rounds are interleaved: what counts is the ratio within a round. With pyenet
installed, ENet's own library echoes the same bytes beside them, without sessions or rooms.

    python benchmarks/udp.py [--clients 20] [--messages 4000] [--rounds 3]
"""

import argparse
import asyncio
import multiprocessing
import statistics
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

import holdfast
from holdfast import Enet, Message, PlayerData, Room, Server, Tcp, Udp, WebSocket, on
from holdfast.testing import UNLIMITED
from holdfast.transports import enet
from holdfast.transports.port import Subprotocol, Transport, TransportLimits

TEXT = "x" * 32
BARE = Subprotocol("bare", text=False)


class Say(Message):
    """Echoed reliably."""

    text: str


class Aim(Message):
    """Echoed as the newest value."""

    text: str


class Echo(Room[PlayerData]):
    """Sends everything back the way it came."""

    max_players = 10_000

    @on(Say)
    def said(self, player: holdfast.Player[PlayerData], say: Say) -> None:
        """Echo."""
        player.send(say)

    @on(Aim)
    def aimed(self, player: holdfast.Player[PlayerData], aim: Aim) -> None:
        """Echo."""
        player.send_latest(aim)


# Servers


def holdfast_server(pipe: Connection) -> None:
    """Holdfast, on all three transports."""

    async def serve() -> None:
        listen = [WebSocket(port=0), Tcp(port=0), Enet(port=0)]
        async with Server([Echo], listen=listen, limits=UNLIMITED) as server:
            pipe.send(server.urls)
            await answer(pipe)

    uvloop.run(serve())


def udp_server(pipe: Connection) -> None:
    """Holdfast, with UDP beside its streams."""

    async def serve() -> None:
        async with Server([Echo], listen=[WebSocket(port=0), Udp(port=0)], limits=UNLIMITED) as server:
            pipe.send({"udp": server.url})
            await answer(pipe)

    uvloop.run(serve())


async def answer(pipe: Connection) -> None:
    """Say the CPU time whenever it is asked for."""
    while await asyncio.to_thread(pipe.recv):
        pipe.send(time.process_time())


class _Bare:
    def opened(self, transport: Transport) -> None:
        self._transport = transport

    def received(self, payload: bytes) -> None:
        self._transport.send(payload)

    def received_datagram(self, payload: bytes) -> None:
        self._transport.send_datagram(payload)

    def lost(self, *_: object) -> None: ...

    def kept_busy(self) -> None: ...

    congested = drained = kept_busy


def bare_server(pipe: Connection) -> None:
    """Our transport alone."""

    async def serve() -> None:
        limits = TransportLimits.of(UNLIMITED)
        listener = await enet.listen(_Bare, host="127.0.0.1", port=0, subprotocols=[BARE], limits=limits)
        pipe.send({"enet": f"enet://127.0.0.1:{listener.addresses[0][1]}"})
        await answer(pipe)

    uvloop.run(serve())


def pyenet_server(pipe: Connection) -> None:
    """ENet's own library."""
    pyenet: Any = import_module("enet")
    host = pyenet.Host(pyenet.Address(b"127.0.0.1", 0), 100, 3, 0, 0)
    pipe.send({"enet": f"enet://127.0.0.1:{host.address.port}"})
    while True:
        event = host.service(10)
        if event.type == pyenet.EVENT_TYPE_RECEIVE:
            event.peer.send(event.channelID, event.packet)
        if pipe.poll():
            if not pipe.recv():
                return
            pipe.send(time.process_time())


# Load


async def play(url: str, *, messages: int, is_latest: bool, is_beside: bool) -> None:
    """One client of Holdfast."""
    async with holdfast.connect(url, messages=[Say, Aim], limits=UNLIMITED) as session:
        room = await session.join_or_create("echo")
        while is_beside and session.latest_transport != "udp":  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.05)
        for _ in range(messages):
            while True:
                if is_latest:
                    room.send_latest(Aim(TEXT))
                else:
                    await room.send(Say(TEXT))
                try:
                    await asyncio.wait_for(room.receive(), 1)
                    break
                except TimeoutError:
                    continue  # a datagram was lost


class _Player:
    """One client of a bare echo."""

    def __init__(self, messages: int, *, is_latest: bool) -> None:
        self._left = messages
        self._is_latest = is_latest
        self.done = asyncio.Event()

    def opened(self, transport: Transport) -> None:
        self.transport = transport

    def _next(self, payload: bytes) -> None:
        self._left -= 1
        if self._left <= 0:
            self.done.set()
        elif self._is_latest:
            self.transport.send_datagram(payload)
        else:
            self.transport.send(payload)

    received = received_datagram = _next

    def lost(self, *_: object) -> None: ...

    def kept_busy(self) -> None: ...

    congested = drained = kept_busy

    @classmethod
    async def play(cls, url: str, *, messages: int, is_latest: bool, is_beside: bool) -> None:
        """Until everything came back."""
        player = cls(messages, is_latest=is_latest)
        await enet.dial(player, url, subprotocols=[BARE], limits=TransportLimits.of(UNLIMITED))
        player._next(TEXT.encode())
        await player.done.wait()
        player.transport.abort()


async def load(case: str, url: str, clients: int, messages: int) -> None:
    """All of them."""
    _, transport, is_latest = CASES[case]
    one = _Player.play if "alone" in case else play
    players = [
        one(url, messages=messages // clients, is_latest=is_latest, is_beside=transport == "udp")
        for _ in range(clients)
    ]
    await asyncio.gather(*players)


CASES: dict[str, tuple[Callable[[Connection], None], str, bool]] = {
    "Holdfast, WebSocket": (holdfast_server, "websocket", False),
    "Holdfast, TCP": (holdfast_server, "tcp", False),
    "Holdfast, ENet": (holdfast_server, "enet", False),
    "Holdfast, ENet, `send_latest`": (holdfast_server, "enet", True),
    "Holdfast, WebSocket, `send_latest`": (holdfast_server, "websocket", True),
    "Holdfast, UDP beside it, `send_latest`": (udp_server, "udp", True),
    "our ENet alone": (bare_server, "enet", False),
    "our ENet alone, datagrams": (bare_server, "enet", True),
    "pyenet alone": (pyenet_server, "enet", False),
}


def measure(case: str, clients: int, messages: int) -> float:
    """Microseconds of the server's CPU per echo."""
    serve, transport, _ = CASES[case]
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    url = ours.recv()[transport]
    ours.send(True)
    before = ours.recv()
    uvloop.run(load(case, url, clients, messages))
    ours.send(True)
    after = ours.recv()
    ours.send(False)
    process.join(5)
    process.kill()
    return float((after - before) / messages * 1e6)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("clients", 20), ("messages", 4_000), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    cases = [case for case in CASES if "pyenet" not in case or find_spec("enet")]
    found: dict[str, list[float]] = {case: [] for case in cases}
    for _ in range(options.rounds):
        for case in cases:
            found[case].append(measure(case, options.clients, options.messages))
    table = Table("", "µs per echo", "of WebSocket")
    for case, values in found.items():
        ratios = [mine / other for mine, other in zip(values, found[cases[0]], strict=True)]
        table.add_row(case, f"{statistics.median(values):.1f}", f"{statistics.median(ratios):.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
