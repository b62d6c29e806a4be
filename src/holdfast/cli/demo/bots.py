"""Who plays the demo: bots behind bad links, and pilots made of code inside the server. One brain steers both."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from random import Random
from typing import Protocol, Self

import holdfast
from holdfast import ClientRoom, ClientSession, HoldfastError, Message, Player, Server
from holdfast.cli.demo.arena import Arena, Pilot, Steer, Tally, View, Welcome
from holdfast.cli.demo.proxy import Proxy

# As far as a ship goes per command, and how often a bot sends one.
_STEP = 2.0
_STEER_S = 0.05
# A link that was cut is back by then, and what was on its way has arrived.
_SETTLE_S = 20.0


class Seat(Protocol):
    """What a brain needs of a seat: a client's and an agent's both have it."""

    async def send(self, message: Message) -> None:
        """Say something to the room."""

    def __aiter__(self) -> AsyncIterator[Message]:
        """Hear what the room says."""


class Brain:
    """Follows the coin, numbers what it sends, and counts what it hears."""

    def __init__(self, random: Random) -> None:
        self.sent = 0
        self.received = 0
        self.refused = 0
        self.views = Tally()
        self._random = random
        self._ship = ""
        self._view: View | None = None
        self._heard = asyncio.Event()

    async def watch(self, seat: Seat) -> None:
        """Take in what the room says, until the seat is gone."""
        async for message in seat:
            self.received += 1
            match message:
                case Welcome():
                    self._ship, self.views.last = message.ship, message.view
                case View():
                    self.views.count(message.number)
                    self._view = message
                case _:
                    self.refused += 1
            self._heard.set()

    async def steer(self, seat: Seat, stop: asyncio.Event) -> None:
        """Send commands until it is time to stop, whether anybody hears them now or not."""
        await self.has_seen(1)
        while not stop.is_set():
            self.sent += 1
            await seat.send(Steer(self.sent, self._ship, *self._course()))
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _STEER_S)

    async def has_seen(self, view: int) -> None:
        """Wait until the view with this number, or a later one, has come in."""
        while self._view is None or self.views.last < view:
            self._heard.clear()
            await self._heard.wait()

    def _course(self) -> tuple[float, float]:
        """Towards the coin as last seen, and a little at random."""
        dx, dy = self._random.uniform(-_STEP, _STEP), self._random.uniform(-_STEP, _STEP)
        if self._view is not None and (place := self._view.ships.get(self._ship)) is not None:
            dx += min(max(self._view.coin[0] - place[0], -_STEP), _STEP)
            dy += min(max(self._view.coin[1] - place[1], -_STEP), _STEP)
        return dx, dy


class Hasty(Random):
    """Low chance only: links here break far more often than any real network's, so a bot waits less between two dials.

    With a client's usual patience, which grows while nobody answers, some bot would outstay its grace sooner or later.
    """

    def random(self) -> float:
        """From 0 to 1/16."""
        return super().random() / 16


class Contestant:
    """One player of the demo, seen from both ends: the brain that plays, and the player in the room."""

    def __init__(self, name: str, brain: Brain, seat: Seat, player: Player[Pilot]) -> None:
        self.name = name
        self.brain = brain
        self.player = player
        self.error: HoldfastError | None = None
        """Why it could not play to the end."""
        self._seat = seat
        self._missing = 0

    @property
    def lost(self) -> int:
        """Commands and views that did not arrive."""
        return self.player.data.steered.lost + self.brain.views.lost + self._missing

    @property
    def doubled(self) -> int:
        """Commands and views that arrived twice."""
        return self.player.data.steered.doubled + self.brain.views.doubled

    async def play(self, stop: asyncio.Event) -> None:
        """Play until it is time to stop, then wait for what is still underway."""
        watching = asyncio.create_task(self.brain.watch(self._seat))
        try:
            await self.brain.steer(self._seat, stop)
            await self._settle()
        except HoldfastError as error:
            self.error = error
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _settle(self) -> None:
        """The numbers show every gap but the last one: count what has not come when everything must have."""
        room = self.player.session.room
        last_view = room.views if isinstance(room, Arena) else 0
        with suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_S):
                await self._flush()
                await self.brain.has_seen(last_view)
        self._missing = self.brain.sent - self.player.data.steered.last + max(last_view - self.brain.views.last, 0)

    async def _flush(self) -> None:
        """Wait until the room has applied every command; it has, for who is in its process."""


class Bot(Contestant):
    """A player far away, on the other side of a proxy."""

    proxy: Proxy
    _session: ClientSession
    _room: ClientRoom

    @classmethod
    async def join(cls, name: str, brain: Brain, arena: Arena, proxy: Proxy) -> Self:
        """Connect through the proxy and take a seat."""
        await proxy.start()
        host, port = proxy.address
        session = await holdfast.connect(f"ws://{host}:{port}", messages=[Welcome, View], random=Hasty())
        room = await session.join(arena.id)
        bot = cls(name, brain, room, _player(arena, session.player_id))
        bot.proxy, bot._session, bot._room = proxy, session, room
        return bot

    async def leave(self) -> None:
        """End the session, and its network with it."""
        await self._session.close()
        await self.proxy.stop()

    async def _flush(self) -> None:
        await self._room.flush()


class Npc(Contestant):
    """A player made of code: a session with no socket."""

    @classmethod
    async def join(cls, name: str, brain: Brain, arena: Arena, server: Server) -> Self:
        """Take a seat from inside the server."""
        agent = server.open_agent(name)
        seat = await agent.join(arena.id)
        return cls(name, brain, seat, _player(arena, agent.session.player_id))


def _player(arena: Arena, player_id: str) -> Player[Pilot]:
    player = arena.player(player_id)
    assert player is not None, "joined a moment ago"
    return player
