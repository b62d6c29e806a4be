"""Who plays the demo: bots on real WebSockets, each behind a link that breaks."""

import asyncio
from contextlib import suppress
from random import Random

import holdfast
from holdfast import ClientRoom, ClientSession, HoldfastError, Outcome
from holdfast.cli.demo.arena import Place, Ship, Steer, Tally, View, Welcome
from holdfast.cli.demo.proxy import Proxy

# As far as a bot's ship goes per command: half of it on its way, the other by chance. And how often it sends one.
_STEP = 1.5
_STEER_S = 0.05
# A link that was cut is back by then, a server that was killed too, and what was on its way has arrived.
_SETTLE_S = 30.0


class Brain:
    """Goes for the nearest coin, numbers what it sends, and counts what it hears."""

    def __init__(self, random: Random) -> None:
        self.sent = 0
        self.received = 0
        self.refused = 0
        self.views = Tally()
        self.ship = ""
        self.name = ""
        self.view: View | None = None
        """The newest one."""
        self._random = random
        self._heard = asyncio.Event()

    async def watch(self, room: ClientRoom) -> None:
        """Take in what the room says, until the seat is gone."""
        async for message in room:
            self.received += 1
            match message:
                case Welcome():
                    self.ship, self.name, self.views.last = message.ship, message.name, message.view
                case View():
                    self.views.count(message.number)
                    self.view = message
                case _:
                    self.refused += 1
            self._heard.set()

    async def steer(self, room: ClientRoom, stop: asyncio.Event) -> None:
        """Send commands until it is time to stop, whether anybody hears them now or not."""
        await self.has_seen(0)
        while not stop.is_set():
            self.sent += 1
            await room.send(Steer(self.sent, self.ship, *self._course()))
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _STEER_S)

    async def has_seen(self, command: int) -> None:
        """Wait for a view of the room after it has applied the command with this number, or a later one."""
        while (own := self.own) is None or own.steered.last < command:
            self._heard.clear()
            await self._heard.wait()

    @property
    def own(self) -> Ship | None:
        """Its ship, as last seen."""
        return self.view.ships.get(self.ship) if self.view is not None else None

    def _course(self) -> Place:
        """Towards the nearest coin as last seen, and a little at random."""
        dx, dy = self._random.uniform(-_STEP, _STEP), self._random.uniform(-_STEP, _STEP)
        if self.view is not None and self.own is not None:
            x, y = self.own.place
            coin_x, coin_y = min(self.view.coins, key=lambda coin: abs(coin[0] - x) + abs(coin[1] - y))
            dx += min(max(coin_x - x, -_STEP), _STEP)
            dy += min(max(coin_y - y, -_STEP), _STEP)
        return dx, dy


class Bot:
    """A player far away, on the other side of a proxy. What it knows of the server, the server told it."""

    def __init__(self, brain: Brain, proxy: Proxy, session: ClientSession, room: ClientRoom) -> None:
        self.brain = brain
        self.proxy = proxy
        self.session = session
        self.resumes = 0
        self.replayed = 0
        self.error: HoldfastError | None = None
        """Why it could not play to the end."""
        self._room = room
        self._missing = 0
        session.on_resume = self._resumed

    @classmethod
    async def join(cls, brain: Brain, proxy: Proxy, room_id: str) -> "Bot":
        """Connect through the proxy and take a seat."""
        await proxy.start()
        host, port = proxy.address
        session = await holdfast.connect(f"ws://{host}:{port}", messages=[Welcome, View])
        return cls(brain, proxy, session, await session.join(room_id))

    @property
    def name(self) -> str:
        """As the room calls its ship."""
        return self.brain.name

    @property
    def status(self) -> str:
        """As of any session."""
        if self.error is not None:
            return "ended"
        return "connected" if self.session.connected else "disconnected"

    @property
    def lost(self) -> int:
        """Commands and views that did not arrive."""
        return self._steered.lost + self.brain.views.lost + self._missing

    @property
    def doubled(self) -> int:
        """Commands and views that arrived twice."""
        return self._steered.doubled + self.brain.views.doubled

    @property
    def coins(self) -> int:
        """What it has won."""
        return own.coins if (own := self.brain.own) is not None else 0

    @property
    def _steered(self) -> Tally:
        return own.steered if (own := self.brain.own) is not None else Tally()

    def _resumed(self, outcome: Outcome) -> None:
        self.resumes += 1
        self.replayed += outcome.replayed

    async def play(self, stop: asyncio.Event) -> None:
        """Play until it is time to stop, then wait for what is still underway."""
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
        """The numbers show every gap but the last one: count what has not come when everything must have."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_S):
                await self._room.flush()
                await self.brain.has_seen(self.brain.sent)
        self._missing = self.brain.sent - self._steered.last

    async def leave(self) -> None:
        """End the session, and its network with it."""
        await self.session.close()
        await self.proxy.stop()
