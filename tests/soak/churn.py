"""Players who come and go, in a process of their own: each life is a session with rooms, messages and drops."""

import asyncio
import signal
import traceback
from multiprocessing.connection import Connection
from random import Random

import uvloop

import holdfast
from holdfast import ClientRoom, ClientSession, NotFound, NotSeated, RoomFull, RoomLocked
from tests.soak.game import LONG, MESSAGES, SHORT, Finish, Say, Tell

# Longer than anything that is waited for on a busy machine.
_PATIENCE_S = 60.0
_Counts = dict[str, int]
# A room may end, or fill up, while somebody is on the way to it.
_RACES = (NotFound, NotSeated, RoomFull, RoomLocked)


def churn(pipe: Connection, url: str, players: int, seed: int) -> None:
    """For every number on the pipe, live so many lives each, and answer with what happened; 0 ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_churn(pipe, url, players, Random(seed)))


async def _churn(pipe: Connection, url: str, players: int, random: Random) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            lives = await loop.run_in_executor(None, pipe.recv)
        except EOFError:
            return
        if not lives:
            return
        counts: _Counts = {}
        async with asyncio.TaskGroup() as group:
            for number in range(players):
                group.create_task(_lives(url, Random(f"{random.random()} {number}"), lives, counts))
        pipe.send(counts)


async def _lives(url: str, random: Random, lives: int, counts: _Counts) -> None:
    for _ in range(lives):
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await _life(url, random, counts)
        except Exception:  # noqa: BLE001 - whatever it is, it is told and counts as a failure of the soak
            _count(counts, "errors")
            traceback.print_exc()


async def _life(url: str, random: Random, counts: _Counts) -> None:
    session = await holdfast.connect(url, messages=MESSAGES)
    _count(counts, "sessions")
    try:
        for _ in range(random.randint(1, 3)):
            try:
                await _visit(session, random, counts)
            except _RACES:
                _count(counts, "races")
    finally:
        if random.random() < 0.2:
            # Gone without a word: the seat is held until its grace ends.
            await session.suspend()
            _count(counts, "gone")
        else:
            await session.close()


async def _visit(session: ClientSession, random: Random, counts: _Counts) -> None:
    room = await session.join_or_create(random.choice(SHORT + LONG))
    _count(counts, "joins")
    reader = asyncio.create_task(_read(room, counts))
    try:
        for number in range(random.randint(1, 12)):
            await room.send(Tell(f"{number}") if random.random() < 0.2 else Say(f"{number}"))
            if random.random() < 0.15:
                session.cut()
                _count(counts, "cuts")
            await asyncio.sleep(random.random() * 0.04)
        await room.flush()
        if random.random() < 0.1 and room.kind in SHORT:
            await room.send(Finish())
            await room.flush()
        await room.leave()
    finally:
        reader.cancel()


async def _read(room: ClientRoom, counts: _Counts) -> None:
    async for _ in room:
        _count(counts, "heard")


def _count(counts: _Counts, what: str) -> None:
    counts[what] = counts.get(what, 0) + 1
