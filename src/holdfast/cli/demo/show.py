"""The course of the demo: everybody joins, links break while they play, and in the end all must be whole."""

import asyncio
import signal
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Protocol

from holdfast import Limits, Server
from holdfast.cli.demo.arena import Arena
from holdfast.cli.demo.bots import Bot, Brain, Contestant, Npc
from holdfast.cli.demo.proxy import Cut, Proxy

_BOT_NAMES = (
    "Ada",
    "Bo",
    "Cleo",
    "Dag",
    "Eva",
    "Finn",
    "Gil",
    "Hana",
    "Ivo",
    "Jun",
    "Kai",
    "Lia",
    "Mio",
    "Nils",
    "Ona",
)
_NPC_NAMES = ("Gull", "Crab")
# After every other cut the network stays away for up to this long, so that seats are seen to be held.
_OUTAGE_S_MAX = 2.5
# How far away the bots are, one way.
_DELAY_S_RANGE = (0.005, 0.04)
# A ping every second keeps the latencies fresh.
_LIMITS = Limits(ping_s=1.0, silence_s=4.0)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line asked for."""

    bots: int
    seconds: float | None
    cut_every_s: float
    seed: int | None


class Screen(Protocol):
    """Where the show is seen."""

    @property
    def draw_s(self) -> float:
        """How often it wants to be drawn."""

    def draw(self, show: "Show") -> None:
        """Show how it goes."""

    def finish(self, show: "Show") -> None:
        """Show how it went."""


class Show:
    """One run of the demo."""

    def __init__(self, settings: Settings, screen: Screen) -> None:
        self.settings = settings
        self.contestants: list[Contestant] = []
        self.elapsed_s = 0.0
        self._bots: list[Bot] = []
        self.phase = "Ctrl-C ends it"
        self._screen = screen
        self._random = Random(settings.seed)  # noqa: S311 - where bots go and which links are cut, repeatable on demand

    async def run(self) -> None:
        """Play until the time is up, or SIGINT or SIGTERM comes."""
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with Server([Arena], port=0, tcp_port=None, limits=_LIMITS) as server:
            try:
                await self._join(server)
                await self._play(stop)
            finally:
                await asyncio.gather(*(bot.leave() for bot in self._bots))

    async def _join(self, server: Server) -> None:
        arena = await server.create_room("arena")
        assert isinstance(arena, Arena)
        address = server.addresses["websocket"]
        self._bots = await asyncio.gather(*(self._bot(place, arena, address) for place in range(self.settings.bots)))
        npcs = [await Npc.join(name, Brain(self._random), arena, server) for name in _NPC_NAMES]
        self.contestants = [*self._bots, *npcs]

    async def _bot(self, place: int, arena: Arena, address: tuple[str, int]) -> Bot:
        proxy = Proxy(*address, random=self._random, delay_s=self._random.uniform(*_DELAY_S_RANGE))
        return await Bot.join(_name(place), Brain(self._random), arena, proxy)

    async def _play(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            breaking = tasks.create_task(self._break_links())
            drawing = tasks.create_task(self._keep_drawing())
            playing = [tasks.create_task(each.play(stop)) for each in self.contestants]
            with suppress(TimeoutError):
                async with asyncio.timeout(self.settings.seconds):
                    await stop.wait()
            stop.set()
            self.phase = "ending …"
            breaking.cancel()
            for bot in self._bots:
                bot.proxy.plug()
            await asyncio.wait(playing)
            drawing.cancel()
        self.phase = "over"
        self._screen.finish(self)

    async def _break_links(self) -> None:
        """Cut a link now and then, always one that is whole."""
        whole = set(self._bots)
        if self.settings.cut_every_s == 0:
            return

        async def break_link(bot: Bot) -> None:
            await bot.proxy.cut(self._random.choice(list(Cut)))
            bot.proxy.pull()
            await asyncio.sleep(max(self._random.uniform(-_OUTAGE_S_MAX, _OUTAGE_S_MAX), 0.0))
            bot.proxy.plug()
            whole.add(bot)

        async with asyncio.TaskGroup() as outages:
            while True:
                await asyncio.sleep(self._random.expovariate(1 / self.settings.cut_every_s))
                if whole:
                    bot = self._random.choice([bot for bot in self._bots if bot in whole])
                    whole.remove(bot)
                    outages.create_task(break_link(bot))

    async def _keep_drawing(self) -> None:
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        while True:
            self.elapsed_s = loop.time() - began_at
            self._screen.draw(self)
            await asyncio.sleep(self._screen.draw_s)


def _name(place: int) -> str:
    lap, name = divmod(place, len(_BOT_NAMES))
    return _BOT_NAMES[name] + (str(lap + 1) if lap else "")
