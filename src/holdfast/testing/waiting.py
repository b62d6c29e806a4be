"""Who waits for what in a program: told when it can never come.

A server and its clients ping each other for ever, so there is always a next timer. A program is stuck when its main
task, and every task that it waits for, has stood at one place for a long virtual time with no timer of its own.
"""

import asyncio
import linecache
from collections.abc import Iterable, Iterator
from inspect import iscoroutine
from types import CoroutineType, FrameType
from typing import Any

_ASYNCIO = asyncio.__name__ + "."

Place = tuple[tuple["CoroutineType[Any, Any, Any]", int], ...]
"""The coroutines of a task, from the outside in, and where each of them waits."""


class Patience:
    """Looks now and then whether a task gets on."""

    def __init__(self, task: "asyncio.Task[Any]", patience_s: float) -> None:
        self._task = task
        self._patience_s = patience_s
        self._places: set[Place] = set()
        self._since = 0.0

    def is_over(self, now: float, timers: Iterable[asyncio.TimerHandle]) -> bool:
        """Whether the task has waited for too long, and for nothing that these timers will bring."""
        tasks = list(_waited_for(self._task))
        places = {_place(task) for task in tasks}
        if places != self._places or _will_be_woken(tasks, timers):
            self._places, self._since = places, now
        return now - self._since >= self._patience_s

    def explain(self) -> str:
        """What each of the tasks waits for."""
        return "; ".join(waits_for(task) for task in _waited_for(self._task))


def waits_for(task: "asyncio.Task[Any]") -> str:
    """What a task waits for: the line of the program, and what that has called on which object."""
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
        # Those of asyncio are new each time that a condition is looked at again.
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
    # By identity: what timers are given need not be hashable.
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
