"""How old is the newest position, if packets are lost? Over WebSocket, TCP, ENet, and UDP beside a WebSocket.

Side by side, on the same path. A server and its clients are in network namespaces of their own. Between them a program
forwards their IP packets: each waits half of the round trip, and some are lost, so that the kernels' own TCP
retransmits. A room sends every client the newest position 20 times a second (`send_latest`); a client looks every few
milliseconds how old the last one is that it has. The same clock is read at both ends: it is one machine. Linux only, as
root.

    python -m benchmarks.loss [--clients 10] [--seconds 60] [--loss 0 2 5] [--plot docs/images/loss.svg]
"""

import argparse
import asyncio
import ctypes
import fcntl
import heapq
import os
import select
import statistics
import struct
import subprocess
import sys
import time
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from random import Random
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

import holdfast
from benchmarks.plots import Bar, bars
from holdfast import Enet, Limits, Message, PlayerData, Room, Server, Tcp, Udp, WebSocket
from holdfast.client.connect import dial
from holdfast.testing import UNLIMITED
from holdfast.transports import Listen

HZ = 20
ROUND_TRIP_S = 0.1
LOOK_S = 0.004
WARM_UP_S = 2.0
TRANSPORTS = ("websocket", "tcp", "enet", "udp")
"""The last is a WebSocket with datagrams beside it."""
SERVER, CLIENT = "10.77.0.1", "10.77.0.2"
_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 1, 0x1000
_PACKET_BYTES_MAX = 65_536


class Where(Message):
    """A position, and when it was the newest."""

    at: float
    x: float = 1.5
    y: float = 2.5


class Field(Room[PlayerData]):
    """Tells everybody the newest position."""

    max_players = 10_000
    tick_hz = HZ
    sends = (Where,)

    def on_tick(self, dt_s: float) -> None:
        """Tell them."""
        now = time.monotonic()
        for player in self.players:
            player.send_latest(Where(now))


# The path


def namespace(address: str, peer: str) -> int:
    """Move this process to a new network namespace; the file of its only way out, which carries IP packets."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "cannot make a network namespace: run this as root")
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH22x", b"path", _IFF_TUN | _IFF_NO_PI))
    for command in (f"addr add {address} peer {peer} dev path", "link set path up", "link set lo up"):
        subprocess.run(["/usr/sbin/ip", *command.split()], check=True)
    return tun


class Path:
    """Forwards packets between two namespaces, late and not all of them."""

    def __init__(self, ends: tuple[int, int], random: Random) -> None:
        self._other = {ends[0]: ends[1], ends[1]: ends[0]}
        self._random = random
        self._waiting: list[tuple[float, int, int, bytes]] = []
        self.loss = 0.0
        self.forwarded = self.lost = 0

    def run(self, until: float) -> None:
        """Forward for so long."""
        while (now := time.monotonic()) < until:
            due = self._waiting[0][0] if self._waiting else until
            readable, _, _ = select.select(self._other, (), (), max(0.0, min(due, until) - now))
            for end in readable:
                self._read(end)
            now = time.monotonic()
            while self._waiting and self._waiting[0][0] <= now:
                _, _, end, packet = heapq.heappop(self._waiting)
                os.write(end, packet)

    def _read(self, end: int) -> None:
        at = time.monotonic() + ROUND_TRIP_S / 2
        while True:
            try:
                packet = os.read(end, _PACKET_BYTES_MAX)
            except BlockingIOError:
                return
            self.forwarded += 1
            if self._random.random() < self.loss:
                self.lost += 1
            else:
                heapq.heappush(self._waiting, (at, self.forwarded, self._other[end], packet))


# Both ends


def serve(ready: Connection, repeat_s: float) -> None:
    """The server, until it is terminated."""

    async def run() -> None:
        limits = replace(UNLIMITED, udp_repeat_s=repeat_s)
        ports: list[Listen] = [each(host=SERVER, port=0, insecure=True) for each in (WebSocket, Tcp, Enet)]
        ports.append(Udp(host=SERVER, port=0))
        async with Server([Field], listen=ports, limits=limits) as server:
            room = await server.create_room("field")
            ready.send((server.urls, room.id))
            await asyncio.Event().wait()

    uvloop.run(run())


def play(pipe: Connection, started: Connection, clients: int) -> None:
    """The clients: for each run that is asked for, the ages that they see over each transport."""
    urls, room_id = started.recv()

    async def one(kind: str, seconds: float) -> list[float]:
        # A `dial` of one's own has no UDP beside it.
        url, own = (urls["websocket"], None) if kind == "udp" else (urls[kind], dial)
        async with holdfast.connect(url, messages=[Where], limits=UNLIMITED, give_up_s=600.0, dial=own) as session:
            room = await session.join(room_id)
            newest = 0.0

            async def read() -> None:
                nonlocal newest
                while True:
                    newest = max(newest, (await room.receive(Where)).at)

            reading = asyncio.create_task(read())
            await asyncio.sleep(WARM_UP_S)
            ages: list[float] = []
            until = time.monotonic() + seconds
            while (now := time.monotonic()) < until:
                ages.append(now - newest)
                await asyncio.sleep(LOOK_S)
            reading.cancel()
            return ages

    async def run(seconds: float) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        wanted = [(kind, asyncio.create_task(one(kind, seconds))) for kind in TRANSPORTS for _ in range(clients)]
        for kind, task in wanted:
            found.setdefault(kind, []).extend(await task)
        return found

    while (seconds := pipe.recv()) is not None:
        pipe.send(uvloop.run(run(seconds)))


def measure(options: argparse.Namespace) -> list[tuple[float, dict[str, list[float]]]]:
    """The ages by loss and transport."""
    fork = get_context("fork")
    results: list[tuple[float, dict[str, list[float]]]] = []
    processes: list[Any] = []
    try:
        outside = namespace(CLIENT, SERVER)
        go, told = fork.Pipe()
        start, started = fork.Pipe()
        client = fork.Process(target=play, args=(told, started, options.clients), daemon=True)
        client.start()
        processes.append(client)
        inside = namespace(SERVER, CLIENT)
        up, ready = fork.Pipe()
        server = fork.Process(target=serve, args=(ready, options.repeat), daemon=True)
        server.start()
        processes.append(server)
        start.send(up.recv())
        path = Path((outside, inside), Random(options.seed))
        for percent in options.loss:
            path.loss = percent / 100
            go.send(options.seconds)
            while not go.poll():
                if not client.is_alive():
                    raise RuntimeError("the clients have failed")
                path.run(time.monotonic() + 0.5)
            results.append((percent, go.recv()))
    finally:
        for process in processes:
            process.terminate()
    return results


def percentile(ages: list[float], part: float) -> float:
    """In milliseconds."""
    return sorted(ages)[int(part * (len(ages) - 1))] * 1000


def main() -> None:
    """Measure, print, plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=10, help="of each transport")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each share of lost packets")
    parser.add_argument("--loss", type=float, nargs="+", default=[0.0, 2.0, 5.0], help="percent of all packets")
    parser.add_argument("--repeat", type=float, default=Limits.udp_repeat_s, help="udp_repeat_s of the server")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plot", help="an SVG file of the p99")
    options = parser.parse_args()
    if sys.platform != "linux" or os.geteuid():
        sys.exit("This makes network namespaces: run it on Linux, as root.")
    table = Table(
        "loss", "transport", "p50", "p99", "mean", "p99 of WebSocket's", title="age of the newest position, ms"
    )
    drawn: list[Bar] = []
    for percent, found in measure(options):
        for kind in TRANSPORTS:
            p99 = percentile(found[kind], 0.99)
            ratio = p99 / percentile(found["websocket"], 0.99)
            numbers = (percentile(found[kind], 0.5), p99, statistics.fmean(found[kind]) * 1000)
            table.add_row(f"{percent:g} %", kind, *(f"{each:.0f}" for each in numbers), f"{ratio:.2f}")
            drawn.append(Bar(f"{kind}, {percent:g} % lost", p99, 0.0, kind in {"enet", "udp"}))
    Console().print(table)
    if options.plot:
        with open(options.plot, "w", encoding="utf-8") as file:  # noqa: PTH123 - `Path` is another thing here
            file.write(bars("p99 of the age of the newest position", "ms", drawn))


if __name__ == "__main__":
    main()
