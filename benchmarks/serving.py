"""The benchmarks' game in Python, on Holdfast or bare picows: `python -m benchmarks.serving holdfast '{"hz": 20}'`.

A server prints its port. It answers each line on its standard input: "memory" (it collects garbage, and says what is
left), "delays" (how long its event loop was busy at a time). It ends with its standard input.
"""

import asyncio
import gc
import os
import signal
import sqlite3
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import picows
import uvloop
from msgspec import Raw

import holdfast
from benchmarks.game import TEXT, Delays, Game, Memory
from holdfast import F32, Message, Player, PlayerData, Room, on
from holdfast.core.codec import MSGPACK
from holdfast.schemas.frames import Data
from holdfast.testing import UNLIMITED

# How often a server that measures its delays asks to be called.
_TIMER_S = 0.001


class Say(Message):
    """What clients send, and get back."""

    text: str


class Moved(Message):
    """What rooms broadcast."""

    text: str


SAMPLE = MSGPACK.payload(Data(1, 1000, 1000, "moved", Raw(MSGPACK.encode(Moved(TEXT)))))
"""The bytes that a broadcast has on Holdfast's wire: bare servers send as many."""


class Tally(msgspec.Struct):
    """What a durable room remembers."""

    said: int = 0


class Body(PlayerData):
    """A player of the game whose state is shared."""

    x: F32 = 0.0
    y: F32 = 0.0
    vx: F32 = 1.5
    vy: F32 = 2.5
    hp: int = 100
    name: str = ""
    team: int = 0
    alive: bool = True


def room_of(game: Game) -> type[Room[Any]]:
    """The room as such a game has it."""
    if game.shares:
        return _sharing_room(game)

    class Arena(Room[PlayerData]):
        max_players = game.seats
        max_spectators = game.spectators
        grace_s = game.grace_s
        keep_before_start = True
        tick_hz = game.hz

        @on(Say)
        def say(self, player: Player[PlayerData], message: Say) -> None:
            player.send(message)

        def on_tick(self, dt_s: float) -> None:
            for _ in range(game.broadcasts):
                self.broadcast(Moved(TEXT))

    return Arena


def counting_room_of(game: Game, kind: str = "arena") -> type[Room[Any]]:
    """A room that also counts what is said, in memory or on disk."""
    database = _database(Path(game.folder)) if game.durability == "naive" else None

    class Arena(Room[PlayerData], kind=kind):
        max_players = game.seats
        grace_s = game.grace_s
        durability = "commit" if game.durability == "commit" else "memory"
        state: Tally

        def on_create(self, config: dict[str, Any]) -> None:
            self.state = Tally()

        @on(Say)
        def say(self, player: Player[PlayerData], message: Say) -> None:
            self.state.said += 1
            if database is not None:
                record = (self.id, msgspec.msgpack.encode(self.state))
                database.execute("INSERT OR REPLACE INTO room VALUES (?, ?)", record)
                database.commit()
            player.send(message)

    return Arena


def _database(folder: Path) -> sqlite3.Connection:
    database = sqlite3.connect(folder / "naive.db")
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE room (id TEXT PRIMARY KEY, state BLOB)")
    return database


def _sharing_room(game: Game) -> type[Room[Any]]:
    class Arena(Room[Body]):
        max_players = game.seats
        tick_hz = game.hz
        shares = ("players",)

        def on_join(self, player: Player[Body]) -> None:
            i = len(self.players)
            body = player.data
            body.x, body.y, body.name, body.team = float(i * 37 % 100), float(i * 53 % 100), f"body {i}", i % 4

        def on_tick(self, dt_s: float) -> None:
            for player in self.players:
                player.data.x += 0.3713
                player.data.y += 0.1117

    return Arena


def serve_holdfast(game: Game) -> None:
    """As `holdfast serve` does, but without limits of rates: the checks are made all the same."""
    room = counting_room_of(game) if game.folder else room_of(game)
    sqlite = f"sqlite:{Path(game.folder) / 'rooms.db'}"
    store = (game.store or sqlite) if game.durability == "commit" else None
    # Where each byte counts, the log of events, which has a fixed size, would look like growth until it is full, and so
    # would timers that are not over.
    limits = UNLIMITED if game.traced_lines < 0 else replace(UNLIMITED, events_kept_max=1, handshake_s=2.0, hello_s=2.0)
    server = holdfast.Server([room], listen=[holdfast.WebSocket(port=0)], store=store, limits=limits)
    holdfast.run(server, ready=lambda server: obey(server.addresses["websocket"][1], game))


def serve_picows(game: Game) -> None:
    """The same bytes to as many connections, and nothing else."""
    rooms: list[list[picows.WSTransport]] = []
    ticking: list[asyncio.Task[None]] = []

    async def tick(room: list[picows.WSTransport]) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due += 1 / game.hz
            await asyncio.sleep(due - loop.time())
            for _ in range(game.broadcasts):
                for transport in room:
                    transport.send(picows.WSMsgType.BINARY, SAMPLE)

    class Client(picows.WSListener):
        def on_ws_connected(self, transport: picows.WSTransport) -> None:
            if not rooms or len(rooms[-1]) == game.seats + game.spectators:
                rooms.append([])
                if game.hz:
                    ticking.append(asyncio.create_task(tick(rooms[-1])))
            rooms[-1].append(transport)

        def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
            if frame.msg_type is picows.WSMsgType.BINARY:
                transport.send(picows.WSMsgType.BINARY, frame.get_payload_as_bytes())

    async def main() -> None:
        server = await picows.ws_create_server(lambda _: Client(), "127.0.0.1", 0, backlog=2048)
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, ended.set)
        obey(server.sockets[0].getsockname()[1], game)
        await ended.wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


class Memories:
    """What the allocator has handed out, at each time that somebody asks."""

    def __init__(self, lines: int) -> None:
        self._lines = lines
        self._first: tracemalloc.Snapshot | None = None
        if lines >= 0:
            tracemalloc.start()

    def now(self) -> Memory:
        """After a collection of garbage."""
        gc.collect()
        if self._lines < 0:
            return Memory()
        live_kib = tracemalloc.get_traced_memory()[0] / 1024
        if not self._lines:
            return Memory(live_kib)
        now = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(False, tracemalloc.__file__)])
        self._first = first = self._first or now
        grown = now.compare_to(first, "lineno")[: self._lines]
        return Memory(live_kib, [f"{e.size_diff} bytes, {e.count_diff} blocks: {e.traceback}" for e in grown])


class LoopDelays:
    """How long the event loop was busy at a time; it begins to measure when somebody asks first."""

    def __init__(self) -> None:
        self._late_s: list[float] = []
        self._gc_s = 0.0
        self._gc_began_at = 0.0
        self._due_at = 0.0

    def now(self) -> Delays:
        """Since the last time."""
        if not self._due_at:
            gc.callbacks.append(self._collects)
            self._again()
        late_s, self._late_s = sorted(self._late_s), []
        gc_s, self._gc_s = self._gc_s, 0.0
        if not late_s:
            return Delays(0.0, 0.0, gc_s * 1e3)
        return Delays(late_s[-1] * 1e3, late_s[len(late_s) * 999 // 1000] * 1e3, gc_s * 1e3)

    def _again(self) -> None:
        self._due_at = time.perf_counter() + _TIMER_S
        asyncio.get_running_loop().call_later(_TIMER_S, self._called)

    def _called(self) -> None:
        self._late_s.append(max(0.0, time.perf_counter() - self._due_at))
        self._again()

    def _collects(self, phase: str, _: dict[str, Any]) -> None:
        if phase == "start":
            self._gc_began_at = time.perf_counter()
        else:
            self._gc_s = max(self._gc_s, time.perf_counter() - self._gc_began_at)


def obey(port: int, game: Game) -> None:
    """Tell the port; then answer each line on the standard input, and end with that."""
    memories, delays = Memories(game.traced_lines), LoopDelays()

    def said() -> None:
        if line := os.read(0, 4096):
            answer = delays.now() if line == b"delays\n" else memories.now()
            sys.stdout.write(f"{msgspec.json.encode(answer).decode()}\n")
            sys.stdout.flush()
        else:
            asyncio.get_running_loop().remove_reader(0)
            # At once: on SIGTERM a server waits for its rooms.
            signal.raise_signal(signal.SIGINT)

    asyncio.get_running_loop().add_reader(0, said)
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()


SERVERS: dict[str, Callable[[Game], None]] = {"holdfast": serve_holdfast, "picows": serve_picows}


if __name__ == "__main__":
    SERVERS[sys.argv[1]](msgspec.json.decode(sys.argv[2], type=Game))
