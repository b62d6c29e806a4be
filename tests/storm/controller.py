"""The storm itself: clients at play, and a server that is killed, stopped, duplicated and starved."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from holdfast.stores import open_store
from tests.storm.disk import Disk, NatsDisk
from tests.storm.final import is_settled, write_final
from tests.storm.history import Writer
from tests.storm.life import Clients, Life, start
from tests.storm.relay import Relay

# Many times what it takes: only a hang ends here.
DEADLINE_S = 120.0
# A server that finds the file locked by one that was stopped in the middle of a commit does not get ready.
_READY_S = 15.0


class Stuck(Exception):
    """Something that must happen did not: the storm ends here, and its histories are checked as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much of everything."""

    seed: int
    kills: int
    clients: int = 12
    groups: int = 2
    seats: int = 6
    hurry: float = 1.0
    """What part of its back-off a client waits."""

    def episodes(self, random: Random) -> list[str]:
        """What is done to the server, in this order. Some kills find everybody there, some a part, some nobody."""
        anytime = between = self.kills * 2 // 5
        episodes = (
            ["kill in play"] * (self.kills - anytime - between)
            + ["kill between"] * between
            + ["kill anytime"] * anytime
            + ["stop"] * max(3, self.kills // 10)
            + ["zombie"] * max(1, self.kills // 20)
            + ["full"] * max(1, self.kills // 40)
        )
        random.shuffle(episodes)
        return episodes

    @property
    def names(self) -> list[str]:
        """Of the clients; wanderers are those whose names begin with w."""
        wanderers = self.clients // 6
        return [f"c{n}" for n in range(self.clients - wanderers)] + [f"w{n}" for n in range(wanderers)]


class Storm:
    """One run. `show` is told now and then how far it is."""

    def __init__(self, plan: Plan, folder: Path, disk: Disk | NatsDisk, show: Callable[["Storm"], None]) -> None:
        self.plan = plan
        self.counts: Counter[str] = Counter()
        self._news = asyncio.Event()
        self.clients = Clients(plan.names, self._news)
        self._folder = folder
        self._disk = disk
        self._show = show
        self._random = Random(plan.seed)
        self._history = Writer(folder / "storm.jsonl")
        self._relay = Relay()
        self._lives: list[Life] = []
        self._pointing: asyncio.Task[None] | None = None
        self._killed_at = 0.0

    async def run(self) -> None:
        """From the first start to the orderly end; what goes wrong is in the histories."""
        running = asyncio.current_task()
        assert running is not None
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, running.cancel)
        async with self._relay:
            try:
                await self._start()
                await self._ready()
                plan = self.plan
                await self.clients.start(plan.groups, self._relay.url, self._folder, plan.seats, plan.hurry)
                await self._everybody_back()
                for episode in self.plan.episodes(self._random):
                    await self._episode(episode)
                    self._show(self)
                await self._finish()
            except Stuck as stuck:
                self._history.note("fault", str(stuck))
            finally:
                await self._end()

    @property
    def back(self) -> int:
        """How many clients are back since the last kill."""
        return sum(at > self._killed_at for at in self.clients.back_at.values())

    @property
    def _life(self) -> Life:
        return self._lives[-1]

    async def _episode(self, name: str) -> None:
        match name:
            case "kill in play":
                await self._everybody_back()
                await self._pause(1.0)
                await self._kill()
                await self._everybody_back()
            case "kill between":
                await self._back(self._random.randint(1, len(self.plan.names)))
                await self._pause(0.6)
                await self._kill()
            case "kill anytime":
                await self._pause(1.2)
                await self._kill()
            case "stop":
                await self._stop()
            case "zombie":
                await self._zombie()
            case "full":
                await self._full()
            case _:
                raise ValueError(f"nothing is called {name!r}")

    # What is done to the server

    async def _start(self) -> Life:
        number = len(self._lives)
        pace = self._random.choice(["eager", "lazy"])
        self._history.note("start", number, pace)
        words = (self._disk.store, self._folder, number, pace)
        process = await start("tests.storm.server", *words, log=self._folder / f"life-{number}.log")
        life = Life(number, process, self._news)
        self._lives.append(life)
        if self._pointing is not None:
            self._pointing.cancel()
        self._pointing = asyncio.create_task(self._point(life))
        return life

    async def _point(self, life: Life) -> None:
        """Send the clients there as soon as it is ready."""
        while life.port is None and life.code is None:
            self._news.clear()
            await self._news.wait()
        if life.port is not None:
            self._history.note("ready", life.number)
            self._relay.point(life.port)

    async def _kill(self, life: Life | None = None) -> None:
        """SIGKILL, and start another at once, unless it is one that is left over."""
        victim = life or self._life
        if victim.code is not None:
            raise Stuck(f"life {victim.number} of the server ended by itself with {victim.code}")
        victim.signal(signal.SIGKILL)
        self._history.note("kill", victim.number)
        self.counts["kills"] += 1
        if victim is self._life:
            self._killed_at = time.monotonic()
            self._relay.point(None)
            await victim.ended()
            await self._start()
        else:
            await victim.ended()

    async def _stop(self) -> None:
        """SIGSTOP for a while; then it goes on, or is killed as it is."""
        await self._ready()
        life = self._life
        self._halt(life)
        await self._pause(2.0)
        if self._random.random() < 0.3:
            await self._kill()
        else:
            self._go_on(life)

    def _halt(self, life: Life) -> None:
        life.signal(signal.SIGSTOP)
        self._history.note("stop", life.number)
        self.counts["stops"] += 1

    def _go_on(self, life: Life) -> None:
        self._history.note("continue", life.number)
        life.signal(signal.SIGCONT)

    async def _zombie(self) -> None:
        """Another server takes over while the first is stopped; when that wakes up, it has nothing to say any more."""
        await self._everybody_back()
        old, rooms = self._life, self.clients.rooms
        self._halt(old)
        self._killed_at = time.monotonic()
        self._relay.point(None)
        self.counts["zombies"] += 1
        self._history.note("zombie", old.number)
        new = await self._start()
        is_late = self._random.random() < 0.5
        is_ready = await self._until(lambda: new.port is not None or new.code is not None, _READY_S)
        if not is_ready or new.code is not None:
            # The first was stopped in the middle of a commit, and keeps the file locked.
            await self._kill(old)
            if new.code is not None:
                self._history.note("end", new.number, new.code)
                await self._start()
            return
        if is_late:
            # Not if the claim of the new one waits for a lock that the old one has.
            is_late = await self._until(lambda: self.back == len(self.plan.names), 10.0)
        self._go_on(old)
        is_fenced = await self._until(lambda: rooms <= old.fenced or bool(new.fenced), 30.0 if is_late else 3.0)
        if is_late and not is_fenced:
            raise Stuck(f"life {old.number} woke up after life {new.number} took over, and was not fenced")
        self.counts["fenced"] += bool(old.fenced)
        if new.fenced:
            # The old one had the last word before the new one could claim a room: both are right about some rooms.
            await self._kill(old)
            await self._kill()
        elif self._random.random() < 0.5:
            await self._kill(old)
        else:
            await self._end_in_order(old)

    async def _full(self) -> None:
        """The disk is full for a while, or the NATS server killed; in some cases the server is killed meanwhile."""
        await self._everybody_back()
        life = self._life
        refusals = life.refusals
        self._disk.fill([life.pid])
        self._history.note("full", self._disk.manner)
        self.counts["full"] += 1

        def is_noticed() -> bool:
            self._disk.top_up()
            return life.refusals > refusals or life.code is not None

        if not await self._until(is_noticed, DEADLINE_S):
            raise Stuck("the disk is full, and the store does not mind")
        await self._pause(3.5)
        if self._random.random() < 0.4:
            await self._kill()
            await self._pause(2.0)
        self._disk.free([self._life.pid])
        self._history.note("freed")
        if self._life.code is not None:
            self._history.note("end", self._life.number, self._life.code)
            await self._start()

    # Waiting

    async def _pause(self, longest_s: float) -> None:
        await asyncio.sleep(self._random.uniform(0.0, longest_s))

    async def _ready(self) -> None:
        life = self._life
        if not await self._until(lambda: life.port is not None or life.code is not None, DEADLINE_S):
            raise Stuck(f"life {life.number} of the server does not get ready")

    async def _everybody_back(self) -> None:
        await self._back(len(self.plan.names))

    async def _back(self, how_many: int) -> None:
        await self._clients_are("back", lambda: self.back >= how_many)

    async def _clients_are(self, what: str, holds: Callable[[], bool]) -> None:
        life = self._life
        is_over = await self._until(lambda: holds() or bool(self.clients.failed) or life.code is not None, DEADLINE_S)
        if life.code is not None:
            raise Stuck(f"life {life.number} of the server ended by itself with {life.code}")
        if not is_over:
            raise Stuck(f"the clients are not {what} after {DEADLINE_S:g} s")
        if self.clients.failed:
            raise Stuck(self.clients.failed[0])

    async def _until(self, holds: Callable[[], bool], within_s: float) -> bool:
        """Wait until something is true that one of the programs tells."""
        try:
            async with asyncio.timeout(within_s):
                while not holds():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    # The end

    async def _finish(self) -> None:
        """No more trouble: everything that was begun comes to its end."""
        await self._everybody_back()
        names = set(self.plan.names)
        self.clients.tell("finish")
        await self._clients_are("through", lambda: self.clients.finished == names)
        self.clients.tell("ask")
        await self._clients_are("told the last event", lambda: self.clients.done == names)
        store = open_store(self._disk.store)
        await store.open()
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not is_settled(await store.list("")):  # noqa: ASYNC110 - of another process there is no event
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise Stuck("timers or effects are not done") from None
        finally:
            await store.close()
        await self._end_in_order(self._life)

    async def _end_in_order(self, life: Life) -> None:
        life.signal(signal.SIGTERM)
        if not await self._until(lambda: life.code is not None, DEADLINE_S):
            raise Stuck(f"life {life.number} does not end after SIGTERM")
        self._history.note("end", life.number, life.code)
        if life.code:
            raise Stuck(f"life {life.number} was told to end, and its code was {life.code}")

    async def _end(self) -> None:
        if self._pointing is not None:
            self._pointing.cancel()
        for life in self._lives:
            if life.code is None:
                life.signal(signal.SIGKILL)
            await life.ended()
        await self.clients.end()
        self._disk.free([])
        await write_final(self._disk.store, self._folder)
