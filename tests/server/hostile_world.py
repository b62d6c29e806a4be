"""A room, a client in it that keeps the rules, and the proof that nothing was noticed there of what others did."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import holdfast
from holdfast import Limits, Message, Player, PlayerData, Refused, Room, Server, Tcp, WebSocket, on
from holdfast.testing import generous
from tests.deadlines import DEADLINE_S
from tests.server.foreign import Door, Foreigner


class Say(Message):
    n: int


class Said(Message):
    n: int


class Turned(Message):
    n: int


class Walk(Message):
    way: Literal["north", "south"]


class Guess(Message):
    text: str = ""


class Hold(Message):
    pass


class Hall(Room[PlayerData]):
    """Echoes, and counts its ticks aloud."""

    max_players = 4096
    tick_hz = 100
    # Long enough to come back at once; who does not is gone before hundreds are left behind.
    grace_s = 5.0

    def on_create(self, config: dict[str, Any]) -> None:
        self.ticks = 0
        self.said: list[tuple[str, int]] = []
        self.released = asyncio.Event()

    def on_tick(self, dt_s: float) -> None:
        self.ticks += 1
        self.broadcast(Turned(self.ticks))

    @on(Say)
    def say(self, player: Player[PlayerData], message: Say) -> None:
        self.said.append((player.id, message.n))
        player.send(Said(message.n))

    @on(Walk)
    def walk(self, player: Player[PlayerData], message: Walk) -> None:
        """Nothing to do: the body is the point."""

    @on(Guess)
    def guess(self, player: Player[PlayerData], message: Guess) -> None:
        raise Refused(message.text)

    @on(Hold)
    async def hold(self, player: Player[PlayerData], message: Hold) -> None:
        """Keeps the room busy until it is released."""
        await self.released.wait()


class Bystander:
    """Asks for an echo at every tick, and notes what is missing or out of order."""

    def __init__(self, session: holdfast.ClientSession, room: holdfast.ClientRoom) -> None:
        self.session = session
        self.faults: list[str] = []
        self.echoes = 0
        self._ticks = 0
        self._asked = 0
        self._room = room
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._play())

    async def _play(self) -> None:
        async for message in self._room:
            match message:
                case Turned(n):
                    self._check("tick", self._ticks + 1 if self._ticks else n, n)
                    self._ticks = n
                    self._asked += 1
                    await self._room.send(Say(self._asked))
                case Said(n):
                    self._check("echo", self.echoes + 1, n)
                    self.echoes = n
                case _:
                    self.faults.append(f"unexpected {message}")
            self._changed.set()

    def _check(self, what: str, expected: int, got: int) -> None:
        if got != expected:
            self.faults.append(f"{what} {got} came instead of {expected}")

    async def plays_on(self) -> None:
        """Until an echo has come back of something that was said after this call."""
        wanted = self._asked + 1
        async with asyncio.timeout(DEADLINE_S):
            while self.echoes < wanted:
                if self._task.done():
                    raise AssertionError(f"the bystander's play ended: {self._task.exception()!r} {self.faults}")
                self._changed.clear()
                await self._changed.wait()
        assert self.faults == []
        assert self.session.drops == 0

    async def stop(self) -> None:
        """Play no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class ErrorLog(logging.Handler):
    """What was logged as an error, by anybody."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(self.format(record))


@dataclass
class World:
    """A server, the room that everybody is in, and who must not notice anything."""

    server: Server
    hall: Hall
    bystander: Bystander
    errors: ErrorLog

    def enter(self, door: Door) -> AbstractAsyncContextManager[Foreigner]:
        """A foreigner at this door."""
        return door.enter(self.server.addresses)

    def said_by(self, foreigner: Foreigner) -> list[int]:
        """What the room has heard of a peer, in order."""
        return [n for player_id, n in self.hall.said if player_id == foreigner.welcome[2]]

    async def is_undisturbed(self) -> None:
        """The bystander plays on, and nothing of ours raised."""
        await self.bystander.plays_on()
        assert self.server.counters.internal_errors == 0
        assert self.errors.messages == []


@asynccontextmanager
async def a_world(limits: Limits) -> AsyncIterator[World]:
    """A world of its own; at its end it must be undisturbed."""
    errors = ErrorLog()
    logging.getLogger().addHandler(errors)
    try:
        # All of them come from one address, and many are refused.
        async with Server([Hall], listen=[WebSocket(port=0), Tcp(port=0)], limits=generous(limits)) as server:
            hall = await server.create_room("hall")
            assert isinstance(hall, Hall)
            host, port = server.addresses["websocket"]
            async with holdfast.connect(f"ws://{host}:{port}", messages=[Said, Turned]) as session:
                world = World(server, hall, Bystander(session, await session.join(hall.id)), errors)
                try:
                    yield world
                    await world.is_undisturbed()
                finally:
                    await world.bystander.stop()
        # What asyncio has to say of tasks and futures that nobody awaited, it says when they are collected.
        gc.collect()
        assert errors.messages == []
    finally:
        logging.getLogger().removeHandler(errors)
