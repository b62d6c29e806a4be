"""Virtual time: an event loop whose clock jumps to the next timer, so that waiting takes no real time.

The program alone decides what happens: run it again, and the same happens at the same virtual times. There are no
sockets and no threads, because they depend on real time.

A server and its clients ping each other for ever, so there is always a next timer. A program is stuck when its main
task, and every task that it waits for, has waited in one place for a long virtual time with no timer of its own.
"""

import asyncio
import linecache
import random
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from inspect import iscoroutine
from types import CoroutineType, FrameType
from typing import Any, NoReturn, TypeVar

from holdfast.testing.machine import MachineLoop

T = TypeVar("T")

# A program that takes this many turns without time passing is in an endless loop.
_TURNS_AT_ONE_INSTANT_MAX = 100_000
# How often tasks are cancelled at the end: each may start a new one while it is cancelled.
_ENDINGS_MAX = 100
# How many times the program's progress is checked within its patience.
_CHECKS = 8
_ASYNCIO = asyncio.__name__ + "."

Place = tuple[tuple["CoroutineType[Any, Any, Any]", int], ...]
"""The coroutines of a task, from the outside in, and where each of them waits."""

PATIENCE_S = 1200.0
"""How long a program may wait without a timer of its own. Shorter than `Limits.idle_s`."""


class Deadlock(RuntimeError):
    """The program waits for something that never happens: nothing is left to run, or only pings."""


class Livelock(RuntimeError):
    """The program runs in a loop without time passing."""


class Patience:
    """Checks from time to time whether a task makes progress."""

    def __init__(self, task: "asyncio.Task[Any]", patience_s: float) -> None:
        self._task = task
        self._patience_s = patience_s
        self._places: set[Place] = set()
        self._since = 0.0

    def is_over(self, now: float, timers: Iterable[asyncio.TimerHandle]) -> bool:
        """Whether the task has waited too long, and none of these timers will wake it."""
        tasks = list(_waited_for(self._task))
        places = {_place(task) for task in tasks}
        if places != self._places or _will_be_woken(tasks, timers):
            self._places, self._since = places, now
        return now - self._since >= self._patience_s

    def explain(self) -> str:
        return "; ".join(waits_for(task) for task in _waited_for(self._task))


def waits_for(task: "asyncio.Task[Any]") -> str:
    """What a task waits for: the line of the program, and the method and object that it called."""
    frames = [frame for coroutine, _ in _place(task) if (frame := coroutine.cr_frame) is not None]
    own = [frame for frame in frames if not frame.f_globals.get("__name__", "").startswith("holdfast.")]
    called = frames[frames.index(own[-1]) + 1 :] if own else frames
    told = f"{task.get_name()} waits"
    if own:
        file, number = own[-1].f_code.co_filename, own[-1].f_lineno
        told += f" at {file}:{number} for `{linecache.getline(file, number).strip()}`"
    if called:
        self = called[0].f_locals.get("self")
        told += f", in {called[0].f_code.co_qualname}" + (f" of {self!r}" if self is not None else "")
    return told


def _place(task: "asyncio.Task[Any]") -> Place:
    return tuple(
        (coroutine, coroutine.cr_frame.f_lasti if coroutine.cr_frame is not None else -1)
        for coroutine in _chain(task)
        # asyncio makes new ones each time that a condition is checked.
        if coroutine.cr_frame is None or not _is_asyncio(coroutine.cr_frame)
    )


def _chain(task: "asyncio.Task[Any]") -> Iterator["CoroutineType[Any, Any, Any]"]:
    awaited: Any = task.get_coro()
    while iscoroutine(awaited):
        yield awaited
        awaited = awaited.cr_await


def _waited_for(task: "asyncio.Task[Any]") -> Iterator["asyncio.Task[Any]"]:
    """A task, and those that it waits for: itself, in `gather` or in a task group."""
    seen: set[asyncio.Task[Any]] = set()
    waiting: list[Any] = [task]
    while waiting:
        future = waiting.pop()
        if isinstance(future, asyncio.Task):
            if future in seen or future.done():
                continue
            seen.add(future)
            yield future
            waiting.append(_future_of(future))
            waiting += _group_of(future)
        else:
            waiting += getattr(future, "_children", ())


def _future_of(task: "asyncio.Task[Any]") -> Any:
    return getattr(task, "_fut_waiter", None)


def _group_of(task: "asyncio.Task[Any]") -> Iterator["asyncio.Task[Any]"]:
    for coroutine in _chain(task):
        frame = coroutine.cr_frame
        group = frame.f_locals.get("self") if frame is not None and _is_asyncio(frame) else None
        if isinstance(group, asyncio.TaskGroup):
            yield from getattr(group, "_tasks", ())


def _will_be_woken(tasks: list["asyncio.Task[Any]"], timers: Iterable[asyncio.TimerHandle]) -> bool:
    """Whether one of the timers is what a task sleeps or has a timeout with."""
    # By identity: the arguments of timers need not be hashable.
    futures = {id(future) for task in tasks if (future := _future_of(task)) is not None}
    for timer in timers:
        if timer.cancelled():
            continue
        callback, arguments = getattr(timer, "_callback", None), getattr(timer, "_args", None) or ()
        owner = getattr(callback, "__self__", None)
        if id(owner) in futures or any(id(argument) in futures for argument in arguments):
            return True
        if isinstance(owner, asyncio.Timeout) and getattr(owner, "_task", None) in tasks:
            return True
    return False


def _is_asyncio(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith(_ASYNCIO)


class VirtualLoop(MachineLoop):
    """An event loop whose `time()` starts at 0 and moves only when there is nothing else to do."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._turns = 0
        self._patience: Patience | None = None
        self._check_at = 0.0
        self._check_s = 0.0
        # asyncio's loops wait in their selector; here waiting is an addition.
        self._selector = self

    def be_patient(self, task: "asyncio.Task[Any]", patience_s: float) -> None:
        """Raise `Deadlock` when this task waits for longer than that, without a timer of its own."""
        self._patience = Patience(task, patience_s)
        self._check_s = patience_s / _CHECKS

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
            if self._patience is not None and self._now >= self._check_at:
                self._check_progress(self._patience)
        self._turns += 1
        if self._turns > _TURNS_AT_ONE_INSTANT_MAX:
            self._turns = 0
            raise Livelock(f"{_TURNS_AT_ONE_INSTANT_MAX} turns at {self._now:g} s, and no time passes")
        return []

    def _check_progress(self, patience: Patience) -> None:
        self._check_at = self._now + self._check_s
        if patience.is_over(self._now, getattr(self, "_scheduled", ())):
            self._patience = None
            raise Deadlock(f"at {self._now:g} s, the program has waited too long: {patience.explain()}")

    # These would depend on real time.

    def run_in_executor(self, *_: Any) -> NoReturn:  # type: ignore[override]  # refused, whatever it is given
        raise RuntimeError("there are no threads in virtual time: call the function directly, or use a real loop")

    def create_connection(self, *_: Any, **options: Any) -> NoReturn:
        raise RuntimeError("there are no sockets in virtual time: use holdfast.testing.MemoryServer, or a real loop")

    create_server = create_connection

    def _waiting(self) -> str:
        tasks = sorted(asyncio.all_tasks(self), key=lambda task: task.get_name())
        return "; ".join(map(waits_for, tasks)) or "no task waits"

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nothing to wake: `call_soon_threadsafe` is only called from this thread."""


def run(main: Coroutine[Any, Any, T], *, seed: int | None = None, patience_s: float = PATIENCE_S) -> T:
    """Run a coroutine to its end in virtual time.

    If it waits for `patience_s` without a timer of its own, it fails with `Deadlock`.

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
    """Cancel the remaining tasks, and those that they start while they clean up."""
    # Let every task start: one that never ran would warn that it was not awaited.
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
