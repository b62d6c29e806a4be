"""Virtual time, and machines that can be paused or crashed: an event loop whose clock jumps to the next timer.

The program alone decides what happens: run it again, and the same happens at the same virtual times. There are no
sockets and no threads, because they depend on real time.

A machine is everything that runs on one computer. Tasks, timers and callbacks that are started on a machine belong to
it, and so does everything that they start. After a crash nothing more runs, not even cleanup; a paused machine runs
later what it missed.

A server and its clients ping each other for ever, so there is always a next timer. A program is stuck when its main
task, and every task that it waits for, has waited in one place for a long virtual time with no timer of its own.
"""

import asyncio
import linecache
import random
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from inspect import iscoroutine
from types import CoroutineType, FrameType
from typing import Any, Literal, NoReturn, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

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


_HERE: ContextVar["Machine | None"] = ContextVar("machine", default=None)


@dataclass(slots=True, eq=False)
class Call:
    """A callback that is due on a machine. It can be cancelled until it has run."""

    callback: Callable[..., Any]
    args: tuple[Any, ...]
    context: Context
    handle: asyncio.Handle | None = None

    @property
    def is_step(self) -> bool:
        """Whether this is a step of a task, without which the task could not even be cancelled."""
        return isinstance(getattr(self.callback, "__self__", None), asyncio.Task)

    def run(self) -> None:
        if self.handle is None or not self.handle.cancelled():
            self.callback(*self.args)


class Crashed(Exception):
    """The machine crashed before the work was done."""


class Machine:
    """One computer: `do` work on it, `pause` it, or `crash` it for good."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._state: Literal["running", "paused", "dead", "buried"] = "running"
        self._missed: list[Call] = []
        # Held until the end: a task that is garbage-collected cleans up, which a crashed machine does not.
        self._tasks: set[asyncio.Task[Any]] = set()
        self._power_cut: asyncio.Future[Any] = loop.create_future()
        self._context = copy_context()
        self._context.run(_HERE.set, self)
        if isinstance(loop, VirtualLoop):
            loop.machines.append(self)

    @staticmethod
    def here() -> "Machine | None":
        """The machine that the current code runs on, if any."""
        return _HERE.get()

    @property
    def is_running(self) -> bool:
        """Whether it has power and is not paused."""
        return self._state == "running"

    @property
    def has_crashed(self) -> bool:
        """Whether it has lost its power for good."""
        return self._state in ("dead", "buried")

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on this machine; raises `Crashed` if the machine crashes before it ends."""
        task = self._loop.create_task(work, context=self._context.copy())
        try:
            await self._ended(task)
        except asyncio.CancelledError:
            task.cancel()
            await self._ended(task)
            raise
        if not task.done():
            raise Crashed
        return task.result()

    async def _ended(self, task: "asyncio.Task[Any]") -> None:
        ends: list[asyncio.Future[Any]] = [task, self._power_cut]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)

    def call(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function on this machine: now, or when it is no longer paused."""
        context = self._context.copy()
        context.run(self.run, Call(function, args, context))

    def result_of(self, function: Callable[[], T]) -> T:
        """Call a function on this machine now, and return its result; only while the machine is running."""
        if Machine.here() is self:
            return function()
        if not self.is_running:
            raise RuntimeError("the machine is paused, or has crashed: it can answer nothing now")
        return self._context.copy().run(function)

    def pause(self) -> None:
        """Run nothing until `wake`, as with a debugger, SIGSTOP or a virtual machine that is moved."""
        self._check_loop()
        if self._state == "running":
            self._state = "paused"

    def wake(self) -> None:
        """Continue: everything that was due in the meantime runs now, in order."""
        if self._state == "paused":
            self._state = "running"
            self._run_missed()

    def crash(self) -> None:
        """Cut the power: whatever is running is never finished."""
        self._check_loop()
        if self._state in ("running", "paused"):
            self._state = "dead"
            self._missed = [call for call in self._missed if call.is_step]
            self._power_cut.set_result(None)

    # For the loop

    def run(self, call: Call) -> None:
        """Run a callback of this machine, or keep it for later; called in its context."""
        if self._state in ("running", "buried"):
            call.run()
        elif self._state == "paused" or call.is_step:
            self._missed.append(call)

    def own(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def bury(self) -> None:
        """The program has ended: let cancelled tasks finish."""
        self._state = "buried"
        self._run_missed()

    def _run_missed(self) -> None:
        missed, self._missed = self._missed, []
        for call in missed:
            self._loop.call_soon(call.context.run, self.run, call, context=Context())

    def _check_loop(self) -> None:
        if not isinstance(self._loop, VirtualLoop):
            raise RuntimeError(  # noqa: TRY004 - it is not an argument
                "machines can be paused and crashed in virtual time only: use holdfast.testing.run"
            )


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose `time()` starts at 0 and moves only when there is nothing else to do.

    It asks the machine of every callback whether it may run.
    """

    def __init__(self) -> None:
        super().__init__()
        self.machines: list[Machine] = []
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

    # Machines

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        # Not `or`: an empty context is falsy.
        context = copy_context() if context is None else context
        machine = context.get(_HERE)
        if machine is None:
            return super().call_soon(callback, *args, context=context)
        call = Call(callback, args, context)
        call.handle = super().call_soon(machine.run, call, context=context)
        return call.handle

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        context = copy_context() if context is None else context
        machine = context.get(_HERE)
        if machine is None:
            return super().call_at(when, callback, *args, context=context)
        call = Call(callback, args, context)
        call.handle = handle = super().call_at(when, machine.run, call, context=context)
        return handle

    def create_task(self, coro: Any, *, context: Context | None = None, **options: Any) -> asyncio.Task[Any]:
        task = super().create_task(coro, context=context, **options)
        machine = _HERE.get() if context is None else context.get(_HERE)
        if machine is not None:
            machine.own(task)
        return task

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
            for machine in loop.machines:
                machine.bury()
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
