"""Machines: everything that runs on one computer, which can be paused or crashed as a whole at any moment.

Tasks, timers and callbacks that are started on a machine belong to it, and so does everything that they start. After a
crash nothing more runs, not even cleanup; a paused machine runs later what it missed. Needs virtual time.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

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
        if isinstance(loop, MachineLoop):
            loop.machines.append(self)

    @staticmethod
    def here() -> "Machine | None":
        """The machine that the current code runs on, if any."""
        return _HERE.get()

    @property
    def is_running(self) -> bool:
        """Whether it has power and is not paused."""
        return self._state == "running"

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
        if not isinstance(self._loop, MachineLoop):
            raise RuntimeError(  # noqa: TRY004 - it is not an argument
                "machines can be paused and crashed in virtual time only: use holdfast.testing.run"
            )


class MachineLoop(asyncio.BaseEventLoop):
    """An event loop that asks the machine of every callback whether it may run."""

    def __init__(self) -> None:
        super().__init__()
        self.machines: list[Machine] = []

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

    def bury_machines(self) -> None:
        for machine in self.machines:
            machine.bury()
