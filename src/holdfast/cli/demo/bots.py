"""The demo's bots: players on real WebSocket connections, each through a proxy that breaks them."""

import asyncio
from contextlib import suppress
from random import Random

import holdfast
from holdfast import ClientRoom, ClientSession, HoldfastError, Outcome
from holdfast.cli.demo.arena import Launched, Place, Ship, Steer, Tally, View
from holdfast.cli.demo.proxy import Proxy

# How far a bot's ship moves per command, towards a coin and at random; and the time between commands.
_STEP = 1.5
_STEER_S = 0.05
# Enough for a cut connection and a killed server to return, and for everything under way to arrive.
_SETTLE_S = 30.0


class Brain:
    """Heads for the nearest coin, numbers the commands that it sends, and counts the views that it receives."""

    def __init__(self, random: Random) -> None:
        self.sent = 0
        self.received = 0
        self.refused = 0
        self.views = Tally()
        self.ship = ""
        self.name = ""
        self.view: View | None = None
        """The latest view."""
        self._random = random
        self._heard = asyncio.Event()

    async def watch(self, room: ClientRoom) -> None:
        """Receive the room's messages until the seat is gone."""
        async for message in room:
            self.received += 1
            match message:
                case Launched():
                    self.ship, self.name, self.views.last = message.ship, message.name, message.view
                case View():
                    self.views.count(message.number)
                    self.view = message
                case _:
                    self.refused += 1
            self._heard.set()

    async def steer(self, room: ClientRoom, stop: asyncio.Event) -> None:
        """Send commands until `stop` is set, whether connected or not."""
        await self.has_seen(0)
        while not stop.is_set():
            self.sent += 1
            await room.send(Steer(self.sent, self.ship, *self._course()))
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _STEER_S)

    async def has_seen(self, command: int) -> None:
        """Wait for a view that includes the command with this number or a later one."""
        while (own := self.own) is None or own.steered.last < command:
            self._heard.clear()
            await self._heard.wait()

    @property
    def own(self) -> Ship | None:
        """Its ship in the latest view."""
        return self.view.ships.get(self.ship) if self.view is not None else None

    def _course(self) -> Place:
        """Towards the nearest coin in the latest view, and a little at random."""
        dx, dy = self._random.uniform(-_STEP, _STEP), self._random.uniform(-_STEP, _STEP)
        if self.view is not None and self.own is not None:
            x, y = self.own.place
            coin_x, coin_y = min(self.view.coins, key=lambda coin: abs(coin[0] - x) + abs(coin[1] - y))
            dx += min(max(coin_x - x, -_STEP), _STEP)
            dy += min(max(coin_y - y, -_STEP), _STEP)
        return dx, dy


class Bot:
    """A player who connects through a proxy, and knows of the server only what it sends."""

    def __init__(self, brain: Brain, proxy: Proxy, session: ClientSession, room: ClientRoom) -> None:
        self.brain = brain
        self.proxy = proxy
        self.session = session
        self.resumes = 0
        self.replayed = 0
        self.error: HoldfastError | None = None
        """Why its session ended early."""
        self._room = room
        self._missing = 0
        session.on_resume = self._resumed

    @classmethod
    async def join(cls, brain: Brain, proxy: Proxy, room_id: str) -> "Bot":
        """Connect through the proxy and take a seat."""
        await proxy.start()
        host, port = proxy.address
        session = await holdfast.connect(f"ws://{host}:{port}", messages=[Launched, View])
        return cls(brain, proxy, session, await session.join(room_id))

    @property
    def name(self) -> str:
        """The name of its ship."""
        return self.brain.name

    @property
    def status(self) -> str:
        """The state of its session."""
        if self.error is not None:
            return "ended"
        return "connected" if self.session.connected else "disconnected"

    @property
    def lost(self) -> int:
        """Commands and views that did not arrive."""
        return self._steered.lost + self.brain.views.lost + self._missing

    @property
    def duplicated(self) -> int:
        """Commands and views that arrived twice."""
        return self._steered.duplicated + self.brain.views.duplicated

    @property
    def coins(self) -> int:
        """The coins that it has collected."""
        return own.coins if (own := self.brain.own) is not None else 0

    @property
    def _steered(self) -> Tally:
        return own.steered if (own := self.brain.own) is not None else Tally()

    def _resumed(self, outcome: Outcome) -> None:
        self.resumes += 1
        self.replayed += outcome.replayed

    async def play(self, stop: asyncio.Event) -> None:
        """Play until `stop` is set, then wait for messages that are still under way."""
        watching = asyncio.create_task(self.brain.watch(self._room))
        try:
            await self.brain.steer(self._room, stop)
            await self._settle()
        except HoldfastError as error:
            self.error = error
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _settle(self) -> None:
        """Count the commands at the end that never arrived: no later number shows that they are missing."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_S):
                await self._room.flush()
                await self.brain.has_seen(self.brain.sent)
        self._missing = self.brain.sent - self._steered.last

    async def leave(self) -> None:
        """End the session and its proxy."""
        await self.session.close()
        await self.proxy.stop()
