"""One simulated world: a real server, real clients and a bad network in one process and in virtual time."""

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from holdfast.server.server import DIALECTS
from holdfast.testing import MemoryServer, Network, run
from tests.simulation.bounds import sample
from tests.simulation.chaos import Chaos
from tests.simulation.checker import Checker, Violation
from tests.simulation.game import rooms
from tests.simulation.hostile import Hostile
from tests.simulation.options import Options
from tests.simulation.player import Actor
from tests.simulation.process import Process

SAMPLE_S = 0.2
AFTERMATH_S = 5.0
# What remains to be done when the faults are over: to notice the last one, to wait for the next attempt (15 s at
# most), to sign in anew and to answer.
SETTLE_S = 90.0


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one seed."""

    options: Options
    violations: list[Violation]
    counts: Counter[str]
    virtual_s: float
    digest: str
    history: list[str]


class World:
    """Everything of one seed."""

    def __init__(self, options: Options, ignored: frozenset[str]) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time
        self.options = options
        self.checker = Checker(loop.time, ignored=ignored)
        self.kinds = rooms(self.checker, options)
        network = Network(Random(f"{options.seed}/network"), latency_s=options.latency_s, jitter_s=options.jitter_s)
        self.server = MemoryServer(
            self.kinds, seed=options.seed, network=network, grace_s=options.grace_s, limits=options.limits
        )
        self._random = Random(f"{options.seed}/dialects")
        self.labels: Counter[str] = Counter()
        self.processes: list[Process] = []
        self.actors = [Actor(self, f"player{number}") for number in range(options.players)]
        self.hostile = Hostile(self)
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed = asyncio.Event()
        self.checker.failed = self._failed.set

    def next_label(self, player: str) -> str:
        """A name for a new process."""
        self.labels[player] += 1
        return f"{player}#{self.labels[player]}"

    def next_dialect(self) -> str:
        """What the next process speaks, unless it goes on with a session that speaks something else."""
        return self._random.choice(DIALECTS).name

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something beside everything else; what it raises is a failure."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.checker.fail("BUG", f"the simulation failed: {task.exception()!r}")

    async def run(self) -> None:
        """Live, heal, settle, and see that everything is as promised."""
        story = asyncio.get_running_loop().create_task(self._story())
        failed = asyncio.get_running_loop().create_task(self._failed.wait())
        await asyncio.wait([story, failed], return_when=asyncio.FIRST_COMPLETED)
        failed.cancel()
        if not story.done():
            story.cancel()
        elif story.exception() is not None:
            raise story.exception()  # type: ignore[misc]  # it is not None

    async def _story(self) -> None:
        await self.server.start()
        chaos = Chaos(self)
        trouble = [self.start(chaos.run()), self.start(self.hostile.run())]
        sampler = self.start(self._sample())
        await asyncio.gather(*(actor.live(self.options.steps) for actor in self.actors))
        for task in trouble:
            task.cancel()
        chaos.heal()
        # For what was on its way: a late hello, a program that is about to be killed.
        await asyncio.sleep(AFTERMATH_S)
        await asyncio.gather(*(self._settle(actor) for actor in self.actors))
        for kind in self.kinds:
            kind.is_quiet = True
        await asyncio.sleep(2.0)
        for actor in self.actors:
            self._check_whole(actor)
        sampler.cancel()
        await self._check_empty()
        self._check_counters()
        await self._stop()

    async def _sample(self) -> None:
        while True:
            sample(self)
            await asyncio.sleep(SAMPLE_S)

    async def _settle(self, actor: Actor) -> None:
        try:
            async with asyncio.timeout(SETTLE_S):
                while not await actor.has_settled():  # noqa: ASYNC110 - costs nothing in virtual time
                    await asyncio.sleep(0.5)
        except TimeoutError:
            self.checker.fail("I10", f"{actor.name} is not back after {SETTLE_S:g} s: {actor.state()}")

    def _check_whole(self, actor: Actor) -> None:
        """A stream that is quiet has arrived to its end."""
        process = actor.process
        sitting = process.sitting if process is not None else None
        if process is None or process.is_over or sitting is None or sitting.is_over:
            self.checker.fail("I10", f"{actor.name} was back, and is gone again: {actor.state()}")
            return
        room = self.server.rooms.get(sitting.room.id)
        player = room.player(actor.name) if room is not None else None
        if player is None:
            self.checker.fail("P3", f"{process.label} believes that it has a seat in {sitting.room}")
            return
        view = sitting.view
        end = (len(self.checker.logs.get(sitting.room.id, ())), player.data.told)
        self.checker.expect("I1", (view.at, view.told) == end, f"{process.label} is at {view}, the room at {end}")
        self.checker.expect("I12", not view.is_blind, f"{process.label} was resynced and never shown the state")
        self.checker.expect("I10", not view.awaited, f"{process.label} still awaits {list(view.awaited)}")

    async def _check_empty(self) -> None:
        """When everybody has gone, nothing is left of them."""
        limits, server = self.options.limits, self.server
        for process in self.processes:
            process.excuses.add("bye")
        for client in server.clients:
            await client.close()
        await asyncio.sleep(limits.silence_s + self.options.grace_s + limits.unjoined_s)
        left = {
            "sessions": len(server.sessions),
            "rooms": len(server.rooms),
            "connections": len(server.node.connections),
            "wires": len(server.network.wires),
        }
        self.checker.expect("I9", not any(left.values()), f"everybody has gone, and there are still {left}")

    def _check_counters(self) -> None:
        counters = self.server.counters
        self.checker.count("takeovers", counters.takeovers)
        self.checker.count("replayed", counters.messages_replayed)
        self.checker.count("doubles ignored", counters.duplicates_ignored)
        self.checker.count("streams overflowed", counters.streams_overflowed)
        self.checker.expect("BUG", not counters.turns_failed, f"{counters.turns_failed} turns failed")
        self.checker.expect("BUG", not counters.internal_errors, f"{counters.internal_errors} internal errors")
        broken = counters.protocol_errors - self.hostile.offences
        self.checker.expect("BUG", broken <= 0, f"honest clients broke the protocol {broken} times")

    async def _stop(self) -> None:
        try:
            async with asyncio.timeout(30.0):
                await self.server.stop()
        except TimeoutError:
            self.checker.fail("I10", "the server does not stop")


class _Ear(logging.Handler):
    """Hears what the library logs: its own errors are failures."""

    def __init__(self, checker: Checker) -> None:
        super().__init__(logging.WARNING)
        self._checker = checker

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        self._checker.note("log:", record.getMessage(), repr(cause) if cause else "")
        if record.levelno >= logging.ERROR or "broke the protocol" in record.msg:
            self._checker.fail("BUG", f"{record.getMessage()}: {cause!r}")


async def _simulate(options: Options, ignored: frozenset[str]) -> Result:
    world = World(options, ignored)
    logger = logging.getLogger("holdfast")
    ear = _Ear(world.checker)
    logger.addHandler(ear)
    before, logger.propagate = logger.propagate, False
    try:
        await world.run()
    finally:
        logger.removeHandler(ear)
        logger.propagate = before
    checker = world.checker
    return Result(options, checker.violations, checker.counts, world.now(), checker.digest, checker.history)


def simulate(options: Options, *, ignored: frozenset[str] = frozenset()) -> Result:
    """Run one world from its beginning to its end, or to the first promise that it breaks."""
    return run(_simulate(options, ignored))
