"""One run of the demo: bots join and play while connections break and the server is killed."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import holdfast
from holdfast import ClientRoom, ClientSession, HoldfastError, Outcome
from holdfast.cli.demo.arena import Collected, Pilot, Place, Sea, Steer, Tally
from holdfast.cli.demo.nodes import DemoNodes
from holdfast.cli.demo.proxy import Cut, Proxy
from holdfast.cli.demo.server import Ready, ServerProcess, listening_at
from holdfast.cli.demo.udp_proxy import UdpProxy
from holdfast.http.api import DEFAULT_HOST, DEFAULT_PORT

try:
    import termios
    import tty
except ImportError:  # on Windows
    HAS_KEYS = False
else:
    HAS_KEYS = True

if TYPE_CHECKING:
    from holdfast.cli.demo.page import Page

# After every other cut the network stays down for up to this long, so that held seats can be seen.
_OUTAGE_S_MAX = 2.5
# The delay of the bots' connections, one way.
_DELAY_S_RANGE = (0.005, 0.04)

# How far a bot's ship moves per command, towards a coin and at random; and the time between commands.
_STEP = 1.5
_STEER_S = 0.05
# Enough for a cut connection and a killed server to return, and for everything under way to arrive.
_SETTLE_S = 30.0


class Bot:
    """A player who heads for the nearest coin. It knows of the server only what the room shares, and counts both ways:
    it numbers its commands, and checks the numbers of the messages that it receives."""

    def __init__(self, random: Random, proxy: Proxy | UdpProxy, session: ClientSession, room: ClientRoom) -> None:
        self.proxy = proxy
        self.session = session
        self.sent = self.received = self.refused = 0
        self.resumes = self.replayed = 0
        self.error: HoldfastError | None = None
        """Why its session ended early."""
        self._random = random
        self._room = room
        self._found = Tally()
        self._changed = asyncio.Event()
        self._missing = 0
        session.on_resume(self._resumed)
        room.on_change(lambda _: self._changed.set())

    @classmethod
    async def join(cls, random: Random, proxy: Proxy | UdpProxy, scheme: str, room_id: str) -> "Bot":
        """Connect through the proxy and take a seat."""
        await proxy.start()
        host, port = proxy.address
        session = await holdfast.connect(f"{scheme}://{host}:{port}", messages=[Collected], state=Sea, data=Pilot)
        return cls(random, proxy, session, await session.join(room_id))

    @property
    def status(self) -> str:
        if self.error is not None:
            return "ended"
        return "connected" if self.session.connected else "disconnected"

    @property
    def lost(self) -> int:
        """Commands and messages that did not arrive."""
        return self._steered.lost + self._found.lost + self._missing

    @property
    def duplicated(self) -> int:
        """Commands and messages that arrived twice."""
        return self._steered.duplicated + self._found.duplicated

    @property
    def own(self) -> Pilot:
        """Its ship, as the room shares it."""
        own: Pilot | None = self._room.mine
        return own if own is not None else Pilot()

    @property
    def _steered(self) -> Tally:
        return self.own.steered

    def _resumed(self, outcome: Outcome) -> None:
        self.resumes += 1
        self.replayed += outcome.replayed

    async def play(self, stop: asyncio.Event) -> None:
        """Send commands until `stop` is set, whether connected or not, then wait for messages that are under way."""
        await self._until(lambda: self._room.state is not None)
        watching = asyncio.create_task(self._watch())
        try:
            while not stop.is_set():
                self.sent += 1
                await self._room.send(Steer(self.sent, self.own.ship, *self._course()))
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), _STEER_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(_SETTLE_S):
                    await self._room.flush()
                    await self._until(lambda: self._steered.last >= self.sent)
            # The commands at the end that never arrived: no later number shows that they are missing.
            self._missing = self.sent - self._steered.last
        except HoldfastError as error:
            self.error = error
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def leave(self) -> None:
        await self.session.close()
        await self.proxy.stop()

    async def _watch(self) -> None:
        """Receive the room's messages until the seat is gone."""
        async for message in self._room:
            self.received += 1
            if isinstance(message, Collected):
                # The first one may be of a turn whose state is here already.
                self._found.last = self._found.last or message.number - 1
                self._found.count(message.number)
            else:
                self.refused += 1

    async def _until(self, is_met: Callable[[], bool]) -> None:
        """Wait for what the room shares to be so."""
        while not is_met():
            self._changed.clear()
            await self._changed.wait()

    def _course(self) -> Place:
        """Towards the nearest coin, and a little at random."""
        dx, dy = self._random.uniform(-_STEP, _STEP), self._random.uniform(-_STEP, _STEP)
        x, y = self.own.place
        coin_x, coin_y = min(self._room.state.coins, key=lambda coin: abs(coin[0] - x) + abs(coin[1] - y))
        return dx + min(max(coin_x - x, -_STEP), _STEP), dy + min(max(coin_y - y, -_STEP), _STEP)


SCHEMES = {"websocket": "ws", "tcp": "tcp", "enet": "enet"}
"""How the bots connect, and the URLs for it."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """The options of the command line."""

    bots: int
    seconds: float | None
    cut_every_s: float
    crash_every_s: float
    seed: int | None
    has_keys: bool = False
    http_port: int = DEFAULT_PORT
    transport: str = "websocket"
    nodes: int = 1


Draw = Callable[["Show"], None]
"""Shows the current state of a run; when its phase is "over", the result."""


class Show:
    """One run of the demo."""

    server: ServerProcess | DemoNodes

    def __init__(self, settings: DemoSettings, draw: Draw, draw_s: float, page: "Page | None" = None) -> None:
        """It is drawn at this interval. With a page, visitors play too."""
        self.settings = settings
        self.page = page
        self.bots: list[Bot] = []
        self.elapsed_s = 0.0
        self.phase = ""
        self.log = ""
        """The server's log; empty if there were no errors."""
        self._draw = draw
        self._draw_s = draw_s
        self._random = Random(settings.seed)  # noqa: S311 - not for secrets: where bots go, which connections are cut

    async def run(self) -> None:
        """Play until the time is up, `q` is pressed, or SIGINT or SIGTERM arrives; a second signal stops at once."""
        stop = asyncio.Event()
        with (
            _signals(stop),
            TemporaryDirectory(prefix="holdfast-demo-", ignore_cleanup_errors=True) as folder,
        ):
            self.server = self._server(Path(folder))
            async with self.server, self.page or nullcontext(), asyncio.TaskGroup() as tasks:
                # From now on the server may be killed, also while the bots are joining.
                supervising = tasks.create_task(self.server.keep_running())
                try:
                    ready = self.server.ready
                    assert ready is not None
                    self.bots = await asyncio.gather(*(self._bot(ready) for _ in range(self.settings.bots)))
                    with self._keys(stop):
                        await self._play(stop)
                finally:
                    await asyncio.gather(*(bot.leave() for bot in self.bots))
                    supervising.cancel()
                    self.log = self.server.log()

    def _server(self, folder: Path) -> ServerProcess | DemoNodes:
        """What runs the game: one server, or several nodes."""
        options: list[str] = []
        if self.page is not None:
            with listening_at(DEFAULT_HOST, self.settings.http_port) as sock:
                options = [str(sock.getsockname()[1]), self.page.url]
        if self.settings.nodes > 1:
            return DemoNodes(folder, self.settings.nodes, self._route, options)
        return ServerProcess(folder, lambda _: self._route(), [self.settings.transport, *options])

    def _keys(self, stop: asyncio.Event) -> AbstractContextManager[None]:
        if not self.settings.has_keys:
            return nullcontext()
        return pressed({"c": self.server.crash, "q": stop.set})

    def _route(self) -> None:
        """The server has moved, or a node has come or gone."""
        if self.page is not None:
            self.page.moved(self.server)
        for bot in self.bots:
            bot.proxy.target = self.server.route(bot.proxy.target)

    async def _bot(self, ready: Ready) -> Bot:
        delay_s = self._random.uniform(*_DELAY_S_RANGE)
        make = UdpProxy if self.settings.transport == "enet" else Proxy
        proxy = make(*self.server.route(None), random=self._random, delay_s=delay_s)
        return await Bot.join(self._random, proxy, SCHEMES[self.settings.transport], ready.room)

    async def _play(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            disturbing = [tasks.create_task(self._break_links()), tasks.create_task(self._crash_now_and_then())]
            drawing = tasks.create_task(self._keep_drawing())
            playing = [tasks.create_task(each.play(stop)) for each in self.bots]
            with suppress(TimeoutError):
                async with asyncio.timeout(self.settings.seconds):
                    await stop.wait()
            stop.set()
            self.phase = "stopping …"
            for task in disturbing:
                task.cancel()
            for bot in self.bots:
                bot.proxy.plug()
            await asyncio.wait(playing)
            drawing.cancel()
        self.phase = "over"
        self._draw(self)

    async def _break_links(self) -> None:
        """Cut the connection of a random bot whose connection is up, at random times."""
        up = set(self.bots)
        if self.settings.cut_every_s == 0:
            return

        async def break_link(bot: Bot) -> None:
            await bot.proxy.cut(self._random.choice(list(Cut)))
            bot.proxy.pull()
            await asyncio.sleep(max(self._random.uniform(-_OUTAGE_S_MAX, _OUTAGE_S_MAX), 0.0))
            bot.proxy.plug()
            up.add(bot)

        async with asyncio.TaskGroup() as outages:
            while True:
                await asyncio.sleep(self._random.expovariate(1 / self.settings.cut_every_s))
                if up:
                    bot = self._random.choice([bot for bot in self.bots if bot in up])
                    up.remove(bot)
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
                self._draw(self)
                await asyncio.sleep(self._draw_s)
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


def are_there_keys() -> bool:
    """Whether standard input is a terminal that single keys can be read from."""
    if not HAS_KEYS or not sys.stdin.isatty():
        return False
    try:
        return os.access(os.ttyname(sys.stdin.fileno()), os.R_OK)
    except OSError:
        # In a container, a terminal of the host has no name.
        return False


@contextmanager
def pressed(keys: Mapping[str, Callable[[], None]]) -> Iterator[None]:
    """Call a key's function whenever it is pressed, without Enter; restores the terminal after the block."""
    # Opened again: the event loop makes what it reads non-blocking, and standard output is the same terminal. Writing
    # to it would fail whenever its output is paused (Ctrl-S, a slow line).
    terminal = os.open(os.ttyname(sys.stdin.fileno()), os.O_RDONLY | os.O_NOCTTY)
    before = termios.tcgetattr(terminal)
    loop = asyncio.get_running_loop()

    def read() -> None:
        for key in os.read(terminal, 64).decode(errors="ignore").lower():
            if key in keys:
                keys[key]()

    # No line editing and no echo; Ctrl-C still sends a signal.
    tty.setcbreak(terminal)
    loop.add_reader(terminal, read)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        os.close(terminal)
