"""Virtual time: an event loop whose clock jumps to the next timer, so that a minute of game takes no time at all.

Everything in it is decided by the program alone: run it again and the same happens, at the same virtual times. There
are no sockets and no threads, for they would bring the real world's time with them.
"""

import asyncio
import random
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from holdfast.testing.machine import MachineLoop
from holdfast.testing.waiting import Patience, waits_for

T = TypeVar("T")

# A program that goes round this often without time passing will go round for ever.
_TURNS_AT_ONE_INSTANT_MAX = 100_000
# A program whose tasks start new ones so often when they are cancelled will never end.
_ENDINGS_MAX = 100


# How often it is looked whether a program gets on, as a part of its patience.
_LOOKS = 8

PATIENCE_S = 1200.0
"""How long a program may wait for something that no timer of its own will bring. Shorter than `Limits.idle_s`."""


class Deadlock(RuntimeError):
    """The program waits for what never comes: nothing is left to happen, or only pings have for a long time."""


class Livelock(RuntimeError):
    """Something happens again and again without time passing."""


class VirtualLoop(MachineLoop):
    """An event loop whose `time()` starts at 0 and moves only when there is nothing else to do."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._turns = 0
        self._patience: Patience | None = None
        self._look_at = 0.0
        self._look_s = 0.0
        # Where asyncio's loops ask the system for events and wait; here is no system, and waiting is arithmetic.
        self._selector = self

    def be_patient(self, task: "asyncio.Task[Any]", patience_s: float) -> None:
        """Raise `Deadlock` when this task waits for longer than that, without a timer of its own."""
        self._patience = Patience(task, patience_s)
        self._look_s = patience_s / _LOOKS

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def select(self, timeout: float | None) -> list[Any]:
        """Called by asyncio once a turn: 0 if something is ready, else the time to the next timer, None without one."""
        if timeout is None:
            raise Deadlock(f"nothing is ready and no timer is set at {self._now:g} s; {self._waiting()}")
        if timeout > 0:
            self._now += timeout
            self._turns = 0
            if self._patience is not None and self._now >= self._look_at:
                self._look(self._patience)
        self._turns += 1
        if self._turns > _TURNS_AT_ONE_INSTANT_MAX:
            self._turns = 0
            raise Livelock(f"{_TURNS_AT_ONE_INSTANT_MAX} turns at {self._now:g} s, and no time passes")
        return []

    def _look(self, patience: Patience) -> None:
        self._look_at = self._now + self._look_s
        if patience.is_over(self._now, getattr(self, "_scheduled", ())):
            self._patience = None
            raise Deadlock(f"at {self._now:g} s, nothing has come for long: {patience.explain()}")

    # Whatever they are given, these would wait for the real world.

    def run_in_executor(self, *_: Any) -> NoReturn:  # type: ignore[override]  # refused, whatever it is given
        """There are no threads."""
        raise RuntimeError("virtual time knows no threads: call the function itself, or use a real loop")

    def create_connection(self, *_: Any, **options: Any) -> NoReturn:
        """There are no sockets."""
        raise RuntimeError("virtual time knows no sockets: use holdfast.testing.MemoryServer, or a real loop")

    create_server = create_connection

    def _waiting(self) -> str:
        tasks = sorted(asyncio.all_tasks(self), key=lambda task: task.get_name())
        return "; ".join(map(waits_for, tasks)) or "no task waits"

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody has to be woken: `call_soon_threadsafe` is only ever called from this thread."""


def run(main: Coroutine[Any, Any, T], *, seed: int | None = None, patience_s: float = PATIENCE_S) -> T:
    """Run a coroutine to its end in virtual time.

    If it waits for `patience_s` with no timer of its own, for what never comes, that is a `Deadlock`.

    With a seed, Python's own `random` is seeded for the run, for games that use it, and put back afterwards.
    """
    loop = VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner, _seeded(seed):
        try:
            return runner.run(_patient(loop, main, patience_s))
        finally:
            loop.bury_machines()
            _end_tasks(loop)


async def _patient(loop: VirtualLoop, main: Coroutine[Any, Any, T], patience_s: float) -> T:
    task = asyncio.current_task()
    assert task is not None
    loop.be_patient(task, patience_s)
    return await main


def _end_tasks(loop: VirtualLoop) -> None:
    """Cancel what is left, and what comes of that: a task may start another one while it cleans up."""
    # What was started and never began would complain that nobody awaited it.
    loop.run_until_complete(asyncio.sleep(0))
    for _ in range(_ENDINGS_MAX):
        tasks = asyncio.all_tasks(loop)
        if not tasks:
            break
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))


@contextmanager
def _seeded(seed: int | None) -> Iterator[None]:
    if seed is None:
        yield
        return
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)
