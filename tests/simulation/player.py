"""A player: what they do, step by step, and the programs they do it with."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING

from holdfast import Refused, Reset, SessionEnded
from holdfast.transports.port import DialError
from tests.simulation.checker import Op
from tests.simulation.process import Memory, Process, Sitting

if TYPE_CHECKING:
    from tests.simulation.world import World

# In virtual time, and far longer than anything may take while there are faults: the longest wait between two
# attempts is 15 s, and no fault lasts longer than that; but servers may fall again and again.
STUCK_S = 300.0
# The part of what players say that asks for an answer.
ASKS = 0.25


class Actor:
    """One player with one program at a time, sometimes two."""

    process_type: type[Process] = Process
    words_max = 12

    def __init__(self, world: "World", name: str) -> None:
        self.world = world
        self.checker = world.checker
        self.name = name
        self.random = Random(f"{world.options.seed}/{name}")
        self.process: Process | None = None
        self._unflushed: list[Op] = []
        # Beside the other: what a seed did before there were asks, it nearly does still.
        self._choice = Random(f"{world.options.seed}/{name}/asks")
        # Careful programs save whenever they have sent something.
        self._is_careful = self.random.random() < 0.5
        self._steps: dict[Callable[[Process], Awaitable[None]], int] = {
            self.talk: 40,
            self.flush: 15,
            self.talk_and_be_cut: 8,
            self.save: 6,
            self.read_slowly: 5,
            self.move: 6,
            self.crash: 5,
            self.clone: 4,
            self.join_twice: 3,
            self.suspend: 3,
            self.say_bye: 2,
            self.present_retired: 5,
        }

    async def live(self, steps: int) -> None:
        """Do this many things."""
        for _ in range(steps):
            await asyncio.sleep(self.random.expovariate(2.0))
            step = self.random.choices(list(self._steps), list(self._steps.values()))[0]
            await self._try(step)

    async def _try(self, step: Callable[[Process], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(STUCK_S):
                process = await self.ready()
                self.checker.note(self.name, step.__name__)
                await step(process)
        except SessionEnded as error:
            if self.process is not None:
                self.process.ended(error)
        except (Refused, Reset) as refusal:
            self.checker.note(self.name, "was refused:", refusal)
        except TimeoutError:
            self.checker.fail("I10", f"{self.name} is stuck: {step.__name__} takes more than {STUCK_S:g} s")

    async def ready(self) -> Process:
        """A program that runs, with a seat if one can be had."""
        process = self.process
        if process is None or process.is_over:
            process = await self.begin()
        if process.sit() is None:
            self._unflushed.clear()
            kind = self.random.choice(self.world.kinds)
            await process.join(kind.kind)
        return process

    async def begin(self) -> Process:
        """Sign in as if for the first time."""
        self.process = await self._open(None, self._excuses())
        self._unflushed.clear()
        return self.process

    async def _open(self, memory: Memory | None, excuses: set[str], *, pause_s: float = 0.0) -> Process:
        while True:
            process = self.process_type(self.world, self.name, memory)
            # The same set, not a copy: somebody may present a used token of this session while this process connects.
            process.excuses = excuses
            process.pause_s = pause_s
            try:
                await process.open()
            except DialError:
                process.kill(silently=False)
                await asyncio.sleep(0.5)
            except SessionEnded as error:
                process.ended(error)
                process.kill(silently=False)
                raise
            else:
                return process

    def _excuses(self) -> set[str]:
        """Two sessions of one player may end each other."""
        return {"superseded", "reset"} if self.world.labels[self.name] > 1 else set()

    # Steps

    async def talk(self, process: Process) -> None:
        """Send a few operations."""
        for _ in range(self.random.randint(1, self.words_max)):
            is_refused = self.random.random() < 0.1
            ballast = self.random.choice([0, 0, 0, 100, 700])
            send = process.ask if self._choice.random() < ASKS else process.send
            op = await send(is_refused=is_refused, ballast=ballast, wish=self._wish())
            if op is None:
                return
            self._unflushed.append(op)
            if self._is_careful:
                process.remember()

    def _wish(self) -> str:
        if self.world.options.store is None:
            return ""
        wishes = {"": 40, "timer": 10, "bell": 10, "effect": 20, "own": 10, "team": 10, "close": 1}
        return self.random.choices(list(wishes), list(wishes.values()))[0]

    async def flush(self, process: Process) -> None:
        """Wait for the acknowledgement of everything."""
        if await process.flush(self._unflushed):
            self._unflushed.clear()

    async def talk_and_be_cut(self, process: Process) -> None:
        """Lose the connection while the room is still busy with what was said, and wait for it all the same."""
        await self.talk(process)
        await asyncio.sleep(self.random.choice([0.0, 0.1, 0.3]))
        process.session.cut()
        await self.flush(process)

    async def save(self, process: Process) -> None:
        """Write to disk."""
        process.remember()

    async def read_slowly(self, process: Process) -> None:
        """Take long over each message, for a while."""
        self.checker.count("slow readers")
        process.pause_s = self.random.choice([0.2, 1.0])
        self.world.start(self._read_quickly_again(process, self.random.uniform(1.0, 8.0)))

    async def _read_quickly_again(self, process: Process, after_s: float) -> None:
        await asyncio.sleep(after_s)
        process.pause_s = 0.0

    async def move(self, process: Process) -> None:
        """Leave the room, perhaps for another."""
        sitting = process.sit()
        if sitting is not None:
            self._unflushed.clear()
            await sitting.room.leave()
            sitting.has_left = True

    async def crash(self, process: Process) -> None:
        """The program dies, and starts again from what it had saved."""
        self.checker.count("crashes")
        self._unflushed.clear()
        process.kill(silently=self.random.random() < 0.5)
        long_s = self.world.options.grace_s + 4.0
        await asyncio.sleep(self.random.choice([0.0, 0.2, 1.0, 3.0, long_s]))
        self.process = None
        if self.random.random() < 0.3:
            # Once more, before anything was read of what came after the first crash.
            process = await self._open(process.memory, process.excuses, pause_s=1.0)
            process.kill(silently=False)
        self.process = await self._open(process.memory, process.excuses)

    async def suspend(self, process: Process) -> None:
        """The program ends in order, and goes on later."""
        self.checker.count("suspends")
        self._unflushed.clear()
        process.excuses.add("suspended")
        self.process = None
        memory = await process.suspend()
        await asyncio.sleep(self.random.choice([0.0, 1.0, 3.0]))
        self.process = await self._open(memory, process.excuses)

    async def clone(self, process: Process) -> None:
        """Start the program a second time from what it saves now, while the first goes on and hears of it late."""
        self.checker.count("takeovers: clone")
        self._unflushed.clear()
        memory = process.remember()
        process.excuses |= {"superseded", "token_reused", "reset"}
        if process.dialer.links:
            process.dialer.link.latency_s = self.random.choice([0.0, 0.3, 1.0])
        self.world.start(self._go_on(process))
        started_at = self.world.now()
        self.process = None
        clone = await self._open(memory, process.excuses)
        self.process = clone
        if clone.session.outcome is not None and clone.session.outcome.kind in ("resumed", "resynced"):
            self.checker.took_over(process.label, started_at)

    async def _go_on(self, process: Process) -> None:
        try:
            for _ in range(20):
                await process.send(is_refused=False, ballast=0)
                await asyncio.sleep(0.1)
        except SessionEnded as error:
            process.ended(error)
        finally:
            process.kill(silently=False)

    async def join_twice(self, process: Process) -> None:
        """Sign in a second time and take the seat of the first."""
        sitting = process.sit()
        if sitting is None:
            return
        self.checker.count("takeovers: second session")
        self._unflushed.clear()
        process.excuses |= {"superseded", "reset"}
        self.world.start(self._go_on(process))
        self.process = None
        second = await self.begin()
        started_at = self.world.now()
        taken = await second.join("", sitting.room.id)
        if taken is not None and taken.room.id == sitting.room.id:
            self.checker.took_over(process.label, started_at)

    async def say_bye(self, process: Process) -> None:
        """End the session on purpose."""
        self.checker.count("byes")
        process.excuses.add("bye")
        self.process = None
        await process.session.close()
        process.kill(silently=False)

    async def present_retired(self, process: Process) -> None:
        """Somebody comes with a token that was used before."""
        if process.retired:
            await self._present(process, process.retired.pop())

    async def rob(self) -> None:
        """The server has fallen, and somebody with such a token is there before its owner when it comes back."""
        process = self.process
        if process is None or not process.retired:
            return
        memory = process.retired.pop()
        while not self.world.is_up:  # noqa: ASYNC110 - costs nothing in virtual time
            await asyncio.sleep(0.001)
        self.checker.count("robberies")
        await self._present(process, memory)

    async def _present(self, process: Process, memory: Memory) -> None:
        self.checker.count("retired tokens presented")
        process.excuses |= {"token_reused", "reset"}
        thief = Process(self.world, self.name, memory)
        thief.excuses |= {"token_reused", "reset"}
        try:
            await thief.open()
        except (SessionEnded, DialError) as error:
            self.checker.note(thief.label, "was sent away:", error)
            return
        finally:
            thief.kill(silently=False)
        outcome = thief.session.outcome
        self.checker.expect(
            "I8", outcome is not None and outcome.kind in ("reset", "new"), "a retired token opened a session"
        )

    # The end

    async def has_settled(self) -> bool:
        """Be back, have a seat, and have everything answered that is said now; False if it did not come to that."""
        try:
            process = await self.ready()
            if process.sit() is None:
                return False
            ops = [await process.send(is_refused=False, ballast=0) for _ in range(3)]
            if not await process.flush([op for op in ops if op is not None]):
                return False
            return process.session.connected and await self._is_answered(process, process.sit())
        except SessionEnded as error:
            if self.process is not None:
                self.process.ended(error)
        except (Refused, Reset) as refusal:
            self.checker.note(self.name, "was refused:", refusal)
        return False

    async def _is_answered(self, process: Process, sitting: Sitting | None) -> bool:
        """Whether all answers have come; those that went with a declared gap never will, until more is said."""
        for _ in range(50):
            if sitting is None or sitting.is_over:
                return False
            if not sitting.view.awaited and not process.asking:
                return True
            await asyncio.sleep(0.1)
        return False

    def state(self) -> str:
        """For the message of a failure."""
        process = self.process
        if process is None:
            return "no process"
        return f"{process.label} connected={process.session.connected} {process.sitting and process.sitting.view}"
