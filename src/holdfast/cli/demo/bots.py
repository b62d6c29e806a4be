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


class Bot:
    """A player who heads for the nearest coin. It knows of the server only what it is sent, and counts both ways: it
    numbers its commands, and checks the numbers of the views that it receives."""

    def __init__(self, random: Random, proxy: Proxy, session: ClientSession, room: ClientRoom) -> None:
        self.proxy = proxy
        self.session = session
        self.ship = ""
        self.name = ""
        self.sent = self.received = self.refused = 0
        self.resumes = self.replayed = 0
        self.error: HoldfastError | None = None
        """Why its session ended early."""
        self._random = random
        self._room = room
        self._view: View | None = None
        self._views = Tally()
        self._heard = asyncio.Event()
        self._missing = 0
        session.on_resume = self._resumed

    @classmethod
    async def join(cls, random: Random, proxy: Proxy, room_id: str) -> "Bot":
        """Connect through the proxy and take a seat."""
        await proxy.start()
        host, port = proxy.address
        session = await holdfast.connect(f"ws://{host}:{port}", messages=[Launched, View])
        return cls(random, proxy, session, await session.join(room_id))

    @property
    def status(self) -> str:
        """The state of its session."""
        if self.error is not None:
            return "ended"
        return "connected" if self.session.connected else "disconnected"

    @property
    def lost(self) -> int:
        """Commands and views that did not arrive."""
        return self._steered.lost + self._views.lost + self._missing

    @property
    def duplicated(self) -> int:
        """Commands and views that arrived twice."""
        return self._steered.duplicated + self._views.duplicated

    @property
    def own(self) -> Ship | None:
        """Its ship in the latest view."""
        return self._view.ships.get(self.ship) if self._view is not None else None

    @property
    def _steered(self) -> Tally:
        return own.steered if (own := self.own) is not None else Tally()

    def _resumed(self, outcome: Outcome) -> None:
        self.resumes += 1
        self.replayed += outcome.replayed

    async def play(self, stop: asyncio.Event) -> None:
        """Send commands until `stop` is set, whether connected or not, then wait for messages that are under way."""
        watching = asyncio.create_task(self._watch())
        try:
            await self._has_seen(0)
            while not stop.is_set():
                self.sent += 1
                await self._room.send(Steer(self.sent, self.ship, *self._course()))
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), _STEER_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(_SETTLE_S):
                    await self._room.flush()
                    await self._has_seen(self.sent)
            # The commands at the end that never arrived: no later number shows that they are missing.
            self._missing = self.sent - self._steered.last
        except HoldfastError as error:
            self.error = error
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def leave(self) -> None:
        """End the session and its proxy."""
        await self.session.close()
        await self.proxy.stop()

    async def _watch(self) -> None:
        """Receive the room's messages until the seat is gone."""
        async for message in self._room:
            self.received += 1
            match message:
                case Launched():
                    self.ship, self.name, self._views.last = message.ship, message.name, message.view
                case View():
                    self._views.count(message.number)
                    self._view = message
                case _:
                    self.refused += 1
            self._heard.set()

    async def _has_seen(self, command: int) -> None:
        """Wait for a view that includes the command with this number or a later one."""
        while (own := self.own) is None or own.steered.last < command:
            self._heard.clear()
            await self._heard.wait()

    def _course(self) -> Place:
        """Towards the nearest coin in the latest view, and a little at random."""
        dx, dy = self._random.uniform(-_STEP, _STEP), self._random.uniform(-_STEP, _STEP)
        if self._view is not None and self.own is not None:
            x, y = self.own.place
            coin_x, coin_y = min(self._view.coins, key=lambda coin: abs(coin[0] - x) + abs(coin[1] - y))
            dx += min(max(coin_x - x, -_STEP), _STEP)
            dy += min(max(coin_y - y, -_STEP), _STEP)
        return dx, dy
