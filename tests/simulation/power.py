"""What befalls the server and its store: power cuts, restarts, pauses that outlast a takeover, disks that fail."""

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from random import Random
from typing import TYPE_CHECKING

from holdfast.stores import Broken, StoreError, Unavailable, Unknown
from holdfast.testing import Crashed

if TYPE_CHECKING:
    from tests.simulation.player import Actor
    from tests.simulation.world import MortalServer, World

# As soon as a store saves again, rooms go on.
_FULL_S = (0.3, 0.8, 2.5)
_DOWN_S = (0.02, 0.3, 2.0)


class Power:
    """One fault after another, until the world heals."""

    def __init__(self, world: "World") -> None:
        assert world.options.store is not None
        self.world = world
        self.options = world.options.store
        self.random = Random(f"{world.options.seed}/power")
        self._zombies: list[MortalServer] = []
        self._faults: dict[str, tuple[Callable[[], Awaitable[None]], int]] = {
            "server crash": (self._crash, 4),
            "server crash in a commit": (self._crash_in_commit, 4),
            "server crash after a commit": (self._crash_after_commit, 4),
            "server stop": (self._stop, 2),
            "server pause": (self._pause, 4),
            "disk full": (self._fill_up, 2),
            "disk broken": (self._break, 1),
            "commit refused": (self._refuse, 2),
            "commit unknown": (self._forget, 3),
            "commit slow": (self._slow_down, 2),
        }
        if self.options.has_rollbacks:
            self._faults["store rolled back"] = (self._roll_back, 8)
        if self.options.has_robberies:
            self._faults["robbery"] = (self._rob, 40)

    async def run(self) -> None:
        """Go on until cancelled."""
        names = list(self._faults)
        weights = [weight for _, weight in self._faults.values()]
        while True:
            await asyncio.sleep(self.random.expovariate(1 / self.options.outage_s))
            name = self.random.choices(names, weights)[0]
            self.world.checker.note("fault:", name)
            self.world.checker.count(f"fault: {name}")
            await self._faults[name][0]()

    async def heal(self) -> None:
        """There is one server, it has everything, and its store works."""
        for server in [*self._zombies, self.world.server]:
            server.crash()
        self._zombies.clear()
        await self._begin(is_safe=True)

    # The server

    async def _crash(self) -> None:
        self._cut(self.world.server)
        await self._begin_again()

    async def _crash_in_commit(self) -> None:
        for _ in range(1000):
            if self.world.store.is_writing:
                break
            await asyncio.sleep(0.001)
        await self._crash()

    async def _crash_after_commit(self) -> None:
        """The disk has it, and the server does not know."""
        await self.world.next_written()
        await self._crash()

    async def _roll_back(self) -> None:
        """The server falls, and somebody restores an older copy of its store; perhaps the same one twice."""
        backup = self.world.backup()
        for _ in range(self.random.choice([1, 1, 2])):
            await asyncio.sleep(self.random.choice([0.05, 0.5, 2.0]))
            self.world.server.crash(silently=self.random.random() < 0.3)
            self.world.restore(backup)
            await self._begin_again()

    async def _rob(self) -> None:
        """The server falls just after a token was used up, before anything else is saved of that session."""
        robbed: list[Actor] = []
        while not robbed:
            await asyncio.sleep(0.001)
            robbed = [actor for actor in self.world.actors if actor.process is not None and actor.process.retired]
        self.world.server.crash()
        self.world.start(robbed[0].rob())
        await self._begin_again()

    async def _stop(self) -> None:
        self.world.fell(self.world.server, is_orderly=True)
        await self.world.server.stop()
        self.world.forget_processes()
        await self._begin_again()

    async def _pause(self) -> None:
        """The server stands still, another takes its place, and then it goes on as if nothing had happened."""
        old = self.world.server
        if self.random.random() < 0.5:
            await self.world.next_written()
        await self._written()
        self.world.fell(old)
        old.pause()
        self._zombies.append(old)
        for link in old.links:
            fate = self.random.choice(["cut", "half-open", "stays"])
            if fate == "cut":
                link.cut()
            elif fate == "half-open":
                link.half_open("server")
        await self._begin_again()
        await asyncio.sleep(self.random.choice([0.0, 0.3, 1.5]))
        self.world.checker.note("the old server wakes up")
        # The pause counted towards the graces of its sessions, and these count again.
        old.life.ended_at = inf
        old.wake()
        await asyncio.sleep(self.random.uniform(0.5, 5.0))
        self._zombies.remove(old)
        self._cut(old)

    async def _written(self) -> None:
        """Until nothing is on its way to the disk: what arrives after the next server has read is another story."""
        while self.world.store.is_writing:  # noqa: ASYNC110 - costs nothing in virtual time
            await asyncio.sleep(0.001)

    def _cut(self, server: "MortalServer") -> None:
        server.crash(silently=self.random.random() < 0.3)
        self.world.start(self.random.choice(self.world.actors).rob())

    async def _begin_again(self) -> None:
        await asyncio.sleep(self.random.choice(_DOWN_S))
        await self._begin()

    async def _begin(self, *, is_safe: bool = False) -> None:
        while True:
            starting = asyncio.get_running_loop().create_task(self.world.begin_life())
            try:
                if not is_safe and self.random.random() < 0.2:
                    # It may fall again before it stands.
                    await asyncio.sleep(self.random.random() * 6 * self.options.latency_s)
                    if not starting.done():
                        self.world.checker.count("crashes at the start")
                        self.world.server.crash()
                await starting
            except Crashed:
                continue
            finally:
                starting.cancel()
            return

    # The store

    async def _fill_up(self) -> None:
        store = self.world.store
        store.is_full = True
        await asyncio.sleep(self.random.choice(_FULL_S))
        store.is_full = False

    async def _break(self) -> None:
        """A failed fsync: the server ends itself."""
        server = self.world.server
        self._fail(Broken("fsync failed"))
        for _ in range(100):
            await asyncio.sleep(0.1)
            if not server.machine.is_running:
                break
        else:
            server.crash()
        await self._begin_again()

    async def _refuse(self) -> None:
        self._fail(Unavailable("the file is locked"))

    async def _forget(self) -> None:
        self._fail(Unknown("no answer"))

    def _fail(self, error: StoreError) -> None:
        is_written = self.random.choice([True, False, None])
        self.world.store.fail(error, call=self.random.randint(1, 4), is_written=is_written)

    async def _slow_down(self) -> None:
        store = self.world.store
        store.latency_s = self.random.choice([0.3, 1.5])
        await asyncio.sleep(self.random.uniform(1.0, 3.0))
        store.latency_s = self.options.latency_s
