"""The course of the demo: everybody joins, links break and the server dies while they play, and all must be whole."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

from holdfast.cli.demo.bots import Bot, Brain
from holdfast.cli.demo.keys import pressed
from holdfast.cli.demo.proxy import Cut, Proxy
from holdfast.cli.demo.server import Ready
from holdfast.cli.demo.sockets import free_port
from holdfast.cli.demo.supervisor import Supervisor
from holdfast.http.limits import DEFAULT_HOST, DEFAULT_PORT

if TYPE_CHECKING:
    from holdfast.cli.demo.page import Page

# After every other cut the network stays away for up to this long, so that seats are seen to be held.
_OUTAGE_S_MAX = 2.5
# How far away the bots are, one way.
_DELAY_S_RANGE = (0.005, 0.04)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line asked for."""

    bots: int
    seconds: float | None
    cut_every_s: float
    crash_every_s: float
    seed: int | None
    has_keys: bool = False
    http_port: int = DEFAULT_PORT


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

    server: Supervisor

    def __init__(self, settings: Settings, screen: Screen, page: "Page | None" = None) -> None:
        """With a page, visitors play too."""
        self.settings = settings
        self.page = page
        self.bots: list[Bot] = []
        self.elapsed_s = 0.0
        self.phase = ""
        self.log = ""
        """What the server complained of; empty if all was well."""
        self._screen = screen
        self._random = Random(settings.seed)  # noqa: S311 - where bots go and which links are cut, repeatable on demand

    async def run(self) -> None:
        """Play until the time is up, `q` is pressed, or SIGINT or SIGTERM comes; a second one ends it at once."""
        stop = asyncio.Event()
        with (
            _signals(stop),
            TemporaryDirectory(prefix="holdfast-demo-", ignore_cleanup_errors=True) as folder,
        ):
            options = (
                (str(free_port(DEFAULT_HOST, self.settings.http_port)), self.page.url) if self.page is not None else ()
            )
            self.server = Supervisor(Path(folder), self._moved, options)
            async with self.server, self.page or nullcontext(), asyncio.TaskGroup() as tasks:
                # From now on it may be killed, also while the bots are still joining.
                supervising = tasks.create_task(self.server.keep_running())
                try:
                    await self._join()
                    with self._keys(stop):
                        await self._play(stop)
                finally:
                    await asyncio.gather(*(bot.leave() for bot in self.bots))
                    supervising.cancel()
                    self.log = self.server.log()

    def _keys(self, stop: asyncio.Event) -> AbstractContextManager[None]:
        if not self.settings.has_keys:
            return nullcontext()
        return pressed({"c": self.server.crash, "q": stop.set})

    def _moved(self, ready: Ready) -> None:
        if self.page is not None:
            self.page.moved(self.server)
        for bot in self.bots:
            bot.proxy.target = (ready.host, ready.port)

    async def _join(self) -> None:
        ready = self.server.ready
        assert ready is not None
        self.bots = await asyncio.gather(*(self._bot(ready) for _ in range(self.settings.bots)))

    async def _bot(self, ready: Ready) -> Bot:
        delay_s = self._random.uniform(*_DELAY_S_RANGE)
        proxy = Proxy(ready.host, ready.port, random=self._random, delay_s=delay_s)
        return await Bot.join(Brain(self._random), proxy, ready.room)

    async def _play(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            disturbing = [tasks.create_task(self._break_links()), tasks.create_task(self._crash_now_and_then())]
            drawing = tasks.create_task(self._keep_drawing())
            playing = [tasks.create_task(each.play(stop)) for each in self.bots]
            with suppress(TimeoutError):
                async with asyncio.timeout(self.settings.seconds):
                    await stop.wait()
            stop.set()
            self.phase = "ending …"
            for task in disturbing:
                task.cancel()
            for bot in self.bots:
                bot.proxy.plug()
            await asyncio.wait(playing)
            drawing.cancel()
        self.phase = "over"
        self._screen.finish(self)

    async def _break_links(self) -> None:
        """Cut a link now and then, always one that is whole."""
        whole = set(self.bots)
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
                    bot = self._random.choice([bot for bot in self.bots if bot in whole])
                    whole.remove(bot)
                    outages.create_task(break_link(bot))

    async def _crash_now_and_then(self) -> None:
        while self.settings.crash_every_s > 0:
            await asyncio.sleep(self.settings.crash_every_s)
            self.server.crash()

    async def _keep_drawing(self) -> None:
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        try:
            while True:
                self.elapsed_s = loop.time() - began_at
                self._screen.draw(self)
                await asyncio.sleep(self._screen.draw_s)
        finally:
            self.elapsed_s = loop.time() - began_at


@contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None

    def told() -> None:
        if stop.is_set():
            task.cancel()
        stop.set()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, told)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
