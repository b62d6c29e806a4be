"""Players of the clusters that are measured, in a process of their own: each sends numbers, and checks the answers.

Every player is a real session of the SDK that knows all nodes, and begins with another one. The first player of a room
creates it where it is connected; the others join it from other nodes, and are relayed.
"""

import asyncio
import multiprocessing
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from random import Random
from typing import Any, Self

import msgspec
import uvloop

import holdfast
from benchmarks.cluster_node import Count, Counted
from holdfast import ClientRoom, ClientSession, Outcome

AT_ONCE = 40
PATIENCE_S = 120.0
WRONG = ("lost", "doubled", "not resumed")


class Report(msgspec.Struct):
    """What happened since the last one."""

    latencies_s: list[float] = []
    """Of each number, from `send` to its answer."""
    resumed_at: list[float] = []
    """When players were told that they are back."""
    sent: int = 0
    """Since the beginning."""
    wrong: dict[str, int] = msgspec.field(default_factory=lambda: dict.fromkeys(WRONG, 0))
    """Since the beginning."""


class Player:
    """One of them."""

    def __init__(self, urls: Sequence[str], report: Report) -> None:
        self._urls = list(urls)
        self._report = report
        self._sent: list[float] = []
        self._answered = 0
        self._session: ClientSession | None = None
        self.room: ClientRoom | None = None

    async def begin(self, room_id: str, seats: int) -> str:
        """Sign in, and take a seat in this room, or in a new one; its id."""
        session = self._session = await holdfast.connect(self._urls, messages=[Counted], give_up_s=600.0)
        session.on_resume(self._resumed)
        if not room_id:
            room_id = (await session.create("ledger", max_players=seats)).id
        self.room = await session.join(room_id)
        return room_id

    async def play(self, per_s: float, ended: asyncio.Event, random: Random) -> None:
        """Count until the end, and until everything is answered."""
        assert self.room is not None
        reading = asyncio.create_task(self._read(self.room))
        while not ended.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), random.uniform(0.5, 1.5) / per_s)
            self._sent.append(time.monotonic())
            self._report.sent += 1
            await self.room.send(Count(len(self._sent)))
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await self.room.flush()
                while self._answered < len(self._sent):  # noqa: ASYNC110 - once, at the end
                    await asyncio.sleep(0.05)
        self._report.wrong["lost"] += len(self._sent) - self._answered
        reading.cancel()

    async def _read(self, room: ClientRoom) -> None:
        async for message in room:
            if not isinstance(message, Counted):
                continue
            self._report.latencies_s.append(time.monotonic() - self._sent[message.number - 1])
            wrong = self._report.wrong
            wrong["lost"] += max(0, message.number - self._answered - 1) + max(0, message.number - message.count)
            wrong["doubled"] += (message.number <= self._answered) + max(0, message.count - message.number)
            self._answered = max(self._answered, message.number)

    def _resumed(self, outcome: Outcome) -> None:
        self._report.resumed_at.append(time.monotonic())
        if outcome.kind != "resumed":
            self._report.wrong["not resumed"] += 1


async def _play(pipe: Connection, urls: Sequence[str], rooms: int, seats: int, per_s: float) -> None:
    report, random, ended = Report(), Random(1), asyncio.Event()
    players: list[Player] = []

    async def fill(room: int) -> None:
        room_id = ""
        for seat in range(seats):
            first = (room + seat) % len(urls)
            players.append(player := Player([*urls[first:], *urls[:first]], report))
            room_id = await player.begin(room_id, seats)

    for start in range(0, rooms, AT_ONCE):
        await asyncio.gather(*(fill(room) for room in range(start, min(rooms, start + AT_ONCE))))
    playing = [asyncio.create_task(player.play(per_s, ended, random)) for player in players]
    pipe.send(sorted({player.room.id for player in players if player.room is not None}))
    while await asyncio.to_thread(pipe.recv) != "end":
        pipe.send(msgspec.msgpack.encode(report))
        report.latencies_s, report.resumed_at = [], []
    ended.set()
    await asyncio.gather(*playing)
    pipe.send(msgspec.msgpack.encode(report))


def _run(pipe: Connection, *words: Any) -> None:
    uvloop.run(_play(pipe, *words))


class Players:
    """So many rooms with so many players each, who say so many numbers a second."""

    def __init__(self, urls: Sequence[str], *, rooms: int, seats: int, per_s: float) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(
            target=_run, args=(theirs, urls, rooms, seats, per_s), daemon=True
        )
        self.rooms: list[str] = []

    async def __aenter__(self) -> Self:
        self._process.start()
        self.rooms = await self._received()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._process.kill()
        await asyncio.to_thread(self._process.join)

    async def report(self, word: str = "report") -> Report:
        """What happened since the last report; after "end" the players have stopped, and have all their answers."""
        self._pipe.send(word)
        return msgspec.msgpack.decode(await self._received(), type=Report)

    async def _received(self) -> Any:
        return await asyncio.to_thread(self._pipe.recv)
