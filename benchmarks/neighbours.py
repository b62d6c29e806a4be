"""Does a neighbour that misbehaves cost the others time? Round trips beside clients that flood, and that do not read.

A hundred clients play: each says something twenty times a second, hears it back, and hears its room's broadcasts. Of
these eighty are measured. Rounds alternate by what the other twenty do: they behave too; or they flood the server, each
from an address of its own, as fast as their sockets take it, and are back at once when they are cut off; or they take a
seat, stop reading, and stay.

Server, players and misfits each have a process. The misfits' has the lowest priority there is, and is never idle: a
core that is busy makes the one beside it slower, by more than what is looked for here, so it is busy in every round. A
round in which the host took time away from this machine ("steal" in /proc/stat) is played again: its p99 would
tell of that and nothing else. What counts is the ratio of the p99 to that beside those who behave.

    python -m benchmarks.neighbours [--clients 80] [--misfits 20] [--cycles 12] [--seconds 2]
"""

import argparse
import asyncio
import gc
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import picows
from msgspec import Raw
from rich.console import Console
from rich.table import Table

import holdfast
from benchmarks.contest import cores, run
from benchmarks.rounds import Rounds, Tell
from holdfast import Message, Player, PlayerData, Room, on
from holdfast.core.codec import MSGPACK
from holdfast.schemas.frames import Ack, Auth, Data, FromServer, Hello, Ping, Pong, Reply, Request, Welcome

SUBPROTOCOL = "holdfast.v1.msgpack"
SEATS = 20
RATE_HZ = 20.0
# How much a flooder lets pile up in its own socket before it waits for it to empty.
PILE_BYTES = 256 * 1024
# Between two rounds nothing is said for so long.
SETTLE_S = 0.5
# So long the others are there before the measurement begins: to arrive is another matter than to flood.
ARRIVE_S = 0.5
# All of them play by the rules.
CALM = "behaving"
KINDS = (CALM, "flooding", "not reading")
# A round that lost more than this to the host is played again, but not for ever.
STOLEN_S_MAX = 0.01
ATTEMPTS_MAX = 8


class Say(Message):
    """What clients send, and get back."""

    text: str


class Turned(Message):
    """What a room tells everybody at each tick."""

    state: str


class Hall(Room[PlayerData]):
    """Sends every message back, and broadcasts at each tick."""

    max_players = SEATS
    tick_hz = 20
    keep_before_start = True

    @on(Say)
    def say(self, player: Player[PlayerData], message: Say) -> None:
        """Echo."""
        player.send(message)

    def on_tick(self, dt_s: float) -> None:
        """Tell everybody."""
        self.broadcast(Turned("x" * 200))


BODY = Raw(MSGPACK.encode(Say("x" * 32)))


# The server


def run_server(pipe: Connection, core: int | None) -> None:
    """Serve with the default limits; answer every word on the pipe with CPU seconds and what was counted."""

    async def main() -> None:
        async with holdfast.Server([Hall], listen=[holdfast.WebSocket(port=0)]) as server:
            # As `holdfast.run` does.
            gc.collect()
            gc.freeze()
            gc.set_threshold(10_000, 10, 10)
            stopped = asyncio.Event()
            pipe.send(server.addresses["websocket"][1])

            def asked() -> None:
                try:
                    word = pipe.recv()
                except EOFError:  # the parent is gone
                    word = "stop"
                if word == "stop":
                    loop.remove_reader(pipe.fileno())
                    stopped.set()
                    return
                counters = server.counters
                pipe.send(
                    Count(
                        time.process_time(),
                        counters.messages_applied,
                        counters.messages_throttled,
                        counters.floods,
                        counters.hellos_throttled + counters.connections_refused,
                        counters.streams_overflowed,
                    )
                )

            loop = asyncio.get_running_loop()
            loop.add_reader(pipe.fileno(), asked)
            await stopped.wait()

    run(main(), core=core)


class Count(NamedTuple):
    """What the server has counted since it started."""

    cpu_s: float
    applied: float
    throttled: float
    floods: float
    refused: float
    overflowed: float

    def since(self, before: "Count") -> "Count":
        """What was counted meanwhile."""
        return Count(*(now - then for now, then in zip(self, before, strict=True)))


# Clients. Raw picows: the load should cost as little as it can.


class Client(picows.WSListener):
    """Signs in, takes a seat, answers pings and acknowledges; what it hears beside that is the subclasses' part."""

    def __init__(self) -> None:
        self.transport: picows.WSTransport | None = None
        self.seated = asyncio.Event()
        self.lost = asyncio.Event()
        self.channel = 0
        self.sent = 0
        self.heard = 0
        self._unacknowledged = 0

    def on_ws_connected(self, transport: picows.WSTransport) -> None:
        """Say hello."""
        self.transport = transport
        self.write(Hello(Auth()))

    def on_ws_disconnected(self, transport: picows.WSTransport) -> None:
        """The link is gone."""
        self.lost.set()

    def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        """Whatever the server said."""
        if frame.msg_type is picows.WSMsgType.CLOSE:
            transport.disconnect()
        elif frame.msg_type is picows.WSMsgType.BINARY:
            for each in MSGPACK.from_server(frame.get_payload_as_bytes()):
                self.hear(each)

    def hear(self, frame: FromServer) -> None:
        """One frame."""
        match frame:
            case Data():
                self.heard = frame.seq
                self._unacknowledged += 1
                if self._unacknowledged >= 32:
                    self._unacknowledged = 0
                    self.write(Ack(frame.channel, frame.seq))
                if frame.type == "say":
                    self.came_back()
            case Ping():
                self.write(Pong(frame.id, frame.channel, self.heard))
            case Welcome():
                self.write(Request(1, "join_or_create", Raw(MSGPACK.encode({"kind": "hall"}))))
            case Reply():
                self.channel = 1
                self.seated.set()
            case _:
                pass

    def came_back(self) -> None:
        """An echo."""

    def write(self, *frames: Any) -> None:
        """Send a payload."""
        if self.transport is not None and not self.lost.is_set():
            self.transport.send(picows.WSMsgType.BINARY, MSGPACK.payload(*frames))

    def say(self) -> None:
        """Send the next message."""
        self.sent += 1
        self.write(Data(self.channel, self.sent, self.heard, "say", BODY))


class Gamer(Client):
    """Measures its round trips."""

    def __init__(self) -> None:
        super().__init__()
        self.said_at: dict[int, float] = {}
        self.echoed = 0
        self.trips_ms: list[float] = []

    def say(self) -> None:
        """Note the time, and send."""
        self.said_at[self.sent + 1] = time.perf_counter()
        super().say()

    def came_back(self) -> None:
        """Echoes come in the order of what was said."""
        self.echoed += 1
        self.trips_ms.append((time.perf_counter() - self.said_at.pop(self.echoed)) * 1000.0)

    async def play(self, seconds: float, phase: float) -> None:
        """Say something at each beat, whatever the server does."""
        began_at = time.perf_counter() + phase / RATE_HZ
        for beat in range(int(seconds * RATE_HZ)):
            await asyncio.sleep(max(0.0, began_at + beat / RATE_HZ - time.perf_counter()))
            self.say()


async def dial(kind: Callable[[], Client], port: int, address: str | None = None) -> Client:
    """Connect, perhaps from another address of this machine."""
    options: dict[str, Any] = {"local_addr": (address, 0)} if address is not None else {}
    _, listener = await picows.ws_connect(
        kind,
        f"ws://127.0.0.1:{port}",
        extra_headers=[("Sec-WebSocket-Protocol", SUBPROTOCOL)],
        use_aiofastnet=False,
        **options,
    )
    assert isinstance(listener, Client)
    return listener


# Those who misbehave


def run_misfits(pipe: Connection, port: int, core: int | None, count: int) -> None:
    """Do what the pipe says, until it says stop; never rest."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    ways = dict(zip(KINDS, (behave, flood, stall), strict=True))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        busy = asyncio.create_task(keep_busy())
        tasks: list[asyncio.Task[None]] = []
        while (word := await loop.run_in_executor(None, pipe.recv)) != "stop":
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            way = ways.get(word)
            tasks = [asyncio.create_task(way(port, f"127.0.1.{n + 1}")) for n in range(count)] if way else []
            await asyncio.sleep(ARRIVE_S)
            pipe.send("done")
        busy.cancel()

    run(main(), core=core)


async def keep_busy() -> None:
    """Leave this core no moment of rest, in steps so short that nobody waits for them."""
    while True:
        sum(range(1000))
        await asyncio.sleep(0)


async def behave(port: int, address: str) -> None:
    """Play by the rules."""
    client = await dial(Client, port, address)
    try:
        await first_of(client.seated, client.lost)
        while not client.lost.is_set():
            client.say()
            await asyncio.sleep(1 / RATE_HZ)
    finally:
        if client.transport is not None:
            client.transport.disconnect(False)


async def flood(port: int, address: str) -> None:
    """Sign in, send as fast as the socket takes it, and begin again when cut off, whatever the server said."""
    while True:
        client: Client | None = None
        try:
            client = await dial(Client, port, address)
            await first_of(client.seated, client.lost)
            while not client.lost.is_set():
                for _ in range(32):
                    client.say()
                await asyncio.sleep(0)
                while piled(client) > PILE_BYTES and not client.lost.is_set():  # noqa: ASYNC110 - it has no event
                    await asyncio.sleep(0.005)
        except (OSError, picows.WSError):
            await asyncio.sleep(0.01)
        finally:
            if client is not None and client.transport is not None:
                client.transport.disconnect(False)


async def stall(port: int, address: str) -> None:
    """Take a seat, stop reading, stay; come back when cut off."""
    while True:
        client: Client | None = None
        try:
            client = await dial(Client, port, address)
            await first_of(client.seated, client.lost)
            if client.transport is not None and not client.lost.is_set():
                client.transport.underlying_transport.pause_reading()
            await client.lost.wait()
        except (OSError, picows.WSError):
            await asyncio.sleep(0.01)
        finally:
            if client is not None and client.transport is not None:
                client.transport.disconnect(False)


async def first_of(*events: asyncio.Event) -> None:
    """Until one of them happens."""
    tasks = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def piled(client: Client) -> int:
    """What waits to be sent."""
    with suppress(AttributeError):
        if client.transport is not None and not client.lost.is_set():
            return client.transport.underlying_transport.get_write_buffer_size()
    return 0


# The measurement


class Round(NamedTuple):
    """One round: who came, the round trips of the others, and what the server counted."""

    beside: str
    p50_ms: float
    p99_ms: float
    trips: int
    dropped: int
    stolen_s: float
    counted: Count


class Sizes(msgspec.Struct):
    """The options."""

    clients: int = 80
    misfits: int = 20
    cycles: int = 6
    seconds: float = 2.0


SIZES = Sizes()


def measure(sizes: Sizes, rounds: Rounds) -> None:
    """Play the cycles, each of which has a round beside those who behave and one beside those who flood."""
    played = run(play_rounds(sizes, rounds.tell))
    calm, flooded = ([each.p99_ms for each in played if each.beside == kind] for kind in KINDS[:2])
    for p99_ms, beside_calm_ms in zip(flooded, calm, strict=True):
        rounds.figures.add("neighbours_p99_ratio", "holdfast", p99_ms / beside_calm_ms)


async def play_rounds(options: Sizes, tell: Tell) -> list[Round]:
    """Beside others that behave, that flood, that do not read, that behave, …"""
    server_core, load_core = cores()
    context = multiprocessing.get_context("spawn")
    server_pipe, servers = multiprocessing.Pipe()
    server = context.Process(target=run_server, args=(servers, server_core), daemon=True)
    server.start()
    port: int = server_pipe.recv()
    misfit_pipe, misfits_end = multiprocessing.Pipe()
    misfits = context.Process(target=run_misfits, args=(misfits_end, port, load_core, options.misfits), daemon=True)
    misfits.start()
    try:
        gamers: list[Gamer] = []
        for _ in range(options.clients):
            gamer = await dial(Gamer, port)
            assert isinstance(gamer, Gamer)
            await asyncio.wait_for(gamer.seated.wait(), 10)
            gamers.append(gamer)
        await play_round(CALM, gamers, options.seconds, server_pipe, misfit_pipe)  # to warm up
        rounds: list[Round] = []
        for number in range(1, options.cycles + 1):
            for beside in KINDS:
                rounds.append(await play_calm_round(beside, gamers, options.seconds, server_pipe, misfit_pipe))
                last = rounds[-1]
                tell(
                    f"cycle {number}/{options.cycles}, the others {beside}: p50 {last.p50_ms:.2f} ms,"
                    f" p99 {last.p99_ms:.2f} ms, {last.stolen_s * 1000:.0f} ms stolen, {last.counted}"
                )
    finally:
        misfit_pipe.send("stop")
        misfits.join(5)
        server_pipe.send("stop")
        server.join(5)
    return rounds


async def play_calm_round(
    beside: str, gamers: list[Gamer], seconds: float, server_pipe: Connection, misfit_pipe: Connection
) -> Round:
    """One in which the host leaves us alone, or the best of a few."""
    tried: list[Round] = []
    while len(tried) < ATTEMPTS_MAX and (not tried or tried[-1].stolen_s > STOLEN_S_MAX):
        tried.append(await play_round(beside, gamers, seconds, server_pipe, misfit_pipe))
    return min(tried, key=lambda each: each.stolen_s)


async def play_round(
    beside: str, gamers: list[Gamer], seconds: float, server_pipe: Connection, misfit_pipe: Connection
) -> Round:
    """All play for a while, beside these."""
    loop = asyncio.get_running_loop()
    for gamer in gamers:
        gamer.trips_ms.clear()
    await ask(loop, misfit_pipe, beside)
    before = await ask(loop, server_pipe, "count")
    stolen_s = stolen()
    await asyncio.gather(*(gamer.play(seconds, n / len(gamers)) for n, gamer in enumerate(gamers)))
    stolen_s = stolen() - stolen_s
    after = await ask(loop, server_pipe, "count")
    await ask(loop, misfit_pipe, "nothing")
    await settled(loop, server_pipe)
    trips = sorted(trip for gamer in gamers for trip in gamer.trips_ms)
    dropped = sum(gamer.lost.is_set() for gamer in gamers)
    return Round(
        beside,
        trips[len(trips) // 2],
        trips[int(len(trips) * 0.99)],
        len(trips),
        dropped,
        stolen_s,
        after.since(before),
    )


def stolen() -> float:
    """Seconds that the host has had our cores do something else, as far as the system tells."""
    try:
        first = Path("/proc/stat").read_text().partition("\n")[0]
    except OSError:
        return 0.0
    return int(first.split()[8]) / os.sysconf("SC_CLK_TCK")


async def settled(loop: asyncio.AbstractEventLoop, server_pipe: Connection) -> None:
    """Until the server has dealt with what those who left had still said."""
    applied = -1.0
    while applied != (applied := (await ask(loop, server_pipe, "count")).applied):  # noqa: ASYNC110 - it is elsewhere
        await asyncio.sleep(SETTLE_S)


async def ask(loop: asyncio.AbstractEventLoop, pipe: Connection, word: str) -> Any:
    """Say a word, and wait for the answer."""
    pipe.send(word)
    return await loop.run_in_executor(None, pipe.recv)


def report(rounds: list[Round], console: Console) -> None:
    """The table for the docs: medians, the quartiles of the p99, and what it is of that beside those who behave."""
    table = Table("the others", "p50", "p99", "quartiles", "ratio", "CPU", "applied", "throttled", "cut off")
    calm: list[Round] = []
    for beside in KINDS:
        mine = [each for each in rounds if each.beside == beside]
        calm = calm or mine
        low, p99_ms, high = statistics.quantiles((each.p99_ms for each in mine), n=4)
        table.add_row(
            beside,
            f"{statistics.median(each.p50_ms for each in mine):.2f}",
            f"{p99_ms:.2f}",
            f"{low:.2f}, {high:.2f}",
            f"{p99_ms / statistics.median(each.p99_ms for each in calm):.2f}",
            f"{sum(each.counted.cpu_s for each in mine) / sum(each.counted.cpu_s for each in calm):.2f}",
            f"{statistics.median(each.counted.applied for each in mine):,.0f}",
            f"{statistics.median(each.counted.throttled for each in mine):,.0f}",
            f"{statistics.median(each.counted.floods + each.counted.overflowed for each in mine):,.0f}",
        )
    console.print(table)
    dropped = max(each.dropped for each in rounds)
    console.print(
        f"{sum(each.trips for each in rounds):,} round trips, in ms; {dropped} well-behaved clients were cut off"
    )
    disturbed = sum(each.stolen_s > STOLEN_S_MAX for each in rounds)
    console.print(f"{disturbed} of {len(rounds)} rounds were disturbed by the host at every attempt")


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description="Round trips beside clients that misbehave.")
    parser.add_argument("--clients", type=int, default=80)
    parser.add_argument("--misfits", type=int, default=20)
    parser.add_argument("--cycles", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = Sizes(**vars(parser.parse_args()))
    if options.cycles < 2:
        parser.error("--cycles: quartiles need at least 2")
    report(run(play_rounds(options, lambda text: print(text, file=sys.stderr))), Console(width=100))


if __name__ == "__main__":
    main()
