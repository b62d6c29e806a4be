"""A room takes one turn at a time (P6): a plain call when it is free and the hook is `def`, a task for `async def`.

Turns wait in order of arrival. A turn that another one sets off (`follow`) comes right after it, before all others.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from types import CoroutineType
from typing import Any, Protocol

from holdfast.observability.metrics import TurnMeter
from holdfast.server.rooms.turn_tasks import of_something_else, take_time

Done = Callable[..., None]


class Undo(Protocol):
    """Undoes the turns of a room that fail."""

    def begin(self) -> Any:
        """A turn begins; the code that runs from now on is part of it, until `left`, which is given the result."""

    def left(self, token: Any) -> None:
        """What runs from now on is not part of the turn; a task that it began still is."""

    def end(self, error: BaseException | None) -> None:
        """The turn is over, with this error: undo it, or do what waited for its success."""


Turn = tuple[Callable[..., Any], tuple[Any, ...], Done | None, tuple[Any, ...]]


class TurnObserver(Protocol):
    """Is told of the turns of a room that is recorded."""

    def begin(self, run: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """A turn begins."""

    def end(self, error: Exception | None) -> None:
        """It is over, and its `done` was called."""

    def undo(self) -> None:
        """It has failed, and what it has said was taken back."""


class Speech(Protocol):
    """What the room says to many: a block may be open while a turn goes on at once."""

    is_open: bool

    def close(self) -> None:
        """Say it now."""


class RoomGone(Exception):
    """The turn will never be taken, or was cut off. Only those who wait for it are told."""

    def __init__(self, *, was_begun: bool = False) -> None:
        super().__init__()
        self.was_begun = was_begun


class Turns:
    """The turns of one room. `done(error, result, *done_args)` is called when a turn is over, still inside of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, meter: TurnMeter, *, turn_s: float) -> None:
        self._loop = loop
        self._meter = meter
        self._turn_s = turn_s
        self.undo: Undo | None = None
        """Of a transactional room."""
        self.turn_ended: Callable[[], None] | None = None
        """Called at the end of every turn, before its `done`."""
        self.turn_over: Callable[[], None] | None = None
        """Called after the `done` of every turn."""
        self.once_over: Callable[[], None] | None = None
        """Called when the next turn is over, once: agents wait for it."""
        self.stopped: Callable[[], None] | None = None
        """Called when the turn that runs has been cut off, and none will follow."""
        self.recorder: TurnObserver | None = None
        """Is told of every turn: None in a room that is not recorded."""
        self.speech: Speech | None = None
        """Is closed at the end of every turn, and before one that takes its time."""
        self.is_busy = False
        """Whether a turn is being taken, or none may be."""
        self.in_turn = False
        """Whether a turn is being taken; what it has set off is not part of it."""
        self._next: deque[Turn] = deque()
        self._waiting: deque[Turn] = deque()
        self._task: asyncio.Task[None] | None = None
        self._work: CoroutineType[Any, Any, Any] | None = None
        # Who waits for the task.
        self._done: tuple[Done | None, tuple[Any, ...]] = (None, ())
        self._is_draining = False
        self._is_frozen = False
        self._is_stopped = False

    def __len__(self) -> int:
        return len(self._next) + len(self._waiting)

    @property
    def is_at_once(self) -> bool:
        """Whether a turn is being taken in which nothing else can happen: it is not `async def`."""
        return self.in_turn and self._task is None

    def take(
        self, run: Callable[..., Any], args: tuple[Any, ...], done: Done | None = None, done_args: tuple[Any, ...] = ()
    ) -> None:
        """Run now if the room is free, else in order."""
        if self.is_busy:
            self._wait((run, args, done, done_args))
            return
        self.is_busy = self.in_turn = True
        meter = self._meter
        meter.countdown -= 1
        if not meter.countdown:
            done, done_args = meter.timed(done, done_args)
        if self.recorder is not None:
            self.recorder.begin(run, args)
        error: Exception | None = None
        result: Any = None
        undo = self.undo
        token = undo.begin() if undo is not None else None
        try:
            result = run(*args)
        except Exception as raised:  # noqa: BLE001 - whatever a game raises is contained in its turn
            error = raised
        except asyncio.CancelledError as cancelled:
            error = of_something_else(cancelled)
        if type(result) is CoroutineType:
            if self.speech is not None:
                self.speech.close()
            self._work = result
            self._done = (done, done_args)
            self._task = self._loop.create_task(self._await(result, done, done_args))
            # Cancelled before it began, it would complain that it was never awaited.
            self._task.add_done_callback(lambda _: result.close())
            if undo is not None:
                # The task has the context of the turn.
                undo.left(token)
        else:
            if undo is not None:
                undo.left(token)
            self._end(error, result, done, done_args)

    def call(
        self, run: Callable[..., Any], args: tuple[Any, ...], refusal: Callable[[Exception], Exception]
    ) -> Awaitable[Any]:
        """Take a turn, whose result can be awaited; `refusal` converts its error, also `RoomGone`."""
        ended: asyncio.Future[Any] = self._loop.create_future()

        def done(error: Exception | None, result: Any) -> None:
            if ended.done():
                return
            if error is None:
                ended.set_result(result)
            else:
                ended.set_exception(refusal(error))

        self.take(run, args, done)
        return ended

    def follow(
        self, run: Callable[..., Any], args: tuple[Any, ...], done: Done | None = None, done_args: tuple[Any, ...] = ()
    ) -> None:
        """Run right after the current turn; now if there is none."""
        if self._is_stopped or not self.is_busy:
            self.take(run, args, done, done_args)
            return
        self._next.append((run, args, done, done_args))
        if self._is_frozen and not self.in_turn:
            # Between two turns: without it, what happened to the room would be half done.
            self._drain()

    def forget(self, owner: object) -> None:
        """Drop the waiting turns whose first `done_args` is this seat: its player has left."""
        self._waiting = deque(turn for turn in self._waiting if not (turn[3] and turn[3][0] is owner))

    @property
    def is_at_rest(self) -> bool:
        """Whether no turn is half done, not even an `async def` one."""
        return self._is_stopped or (self._task is None and not self._next)

    def freeze(self) -> None:
        """Take no further turn until `thaw`; one that is half done goes on to its end, with what it sets off."""
        self._is_frozen = self.is_busy = True

    def thaw(self) -> None:
        self._is_frozen = False
        if self._task is None:
            self.is_busy = self._is_stopped
            self._drain()

    def stop(self) -> None:
        """The room has ended: cancel the turn that runs, and refuse those that wait or still come."""
        self.is_busy = self._is_stopped = True
        refused = [*self._next, *self._waiting]
        self._next.clear()
        self._waiting.clear()
        if self._task is not None and self._work is not None:
            self.in_turn = False
            self._task.cancel()
            # Cancelled before it began, it would complain that it was never awaited.
            work = self._work
            self._task.add_done_callback(lambda _: work.close())
            if self.undo is not None:
                self.undo.end(RoomGone(was_begun=True))
            # Not when it has ended: nobody waits for code that takes its time to be cancelled.
            done, done_args = self._done
            if done is not None:
                done(RoomGone(was_begun=True), None, *done_args)
        for turn in refused:
            self._wait(turn)
        if self.stopped is not None:
            self.stopped()

    def _wait(self, turn: Turn) -> None:
        if not self._is_stopped:
            self._waiting.append(turn)
            return
        _, _, done, done_args = turn
        if done is not None:
            done(RoomGone(), None, *done_args)

    def _end(self, error: Exception | None, result: Any, done: Done | None, done_args: tuple[Any, ...]) -> None:
        if self.undo is not None:
            self.undo.end(error)
        if self.turn_ended is not None:
            self.turn_ended()
        try:
            if done is not None:
                done(error, result, *done_args)
        finally:
            # Even if `done` raises, which is our bug: it must not stop the room for ever.
            if self.recorder is not None:
                self.recorder.end(error)
            if self.speech is not None and self.speech.is_open:
                self.speech.close()
            self.in_turn = False
            if self.turn_over is not None:
                self.turn_over()
            if (once_over := self.once_over) is not None:
                self.once_over = None
                once_over()
            self.is_busy = self._is_stopped or self._is_frozen
            if self._next or self._waiting:
                self._drain()

    def _await(
        self, work: Coroutine[Any, Any, Any], done: Done | None, done_args: tuple[Any, ...]
    ) -> Coroutine[Any, Any, None]:
        """What the task of a turn does that takes its time."""
        return take_time(work, self._turn_s, partial(self._awaited, done, done_args), self._is_cut_off)

    def _is_cut_off(self) -> bool:
        return self._task is None or self._task.cancelling() > 0

    def _awaited(self, done: Done | None, done_args: tuple[Any, ...], error: Exception | None, result: Any) -> None:
        self._task = None
        if not self._is_stopped:
            self._end(error, result, done, done_args)

    def _drain(self) -> None:
        if self._is_draining:
            # One of the turns below has ended.
            return
        self._is_draining = True
        try:
            while self._task is None and (self._next or (self._waiting and not self._is_frozen)):
                self.is_busy = False
                self.take(*(self._next or self._waiting).popleft())
        finally:
            self._is_draining = False


def nothing() -> None:
    """A turn in which nothing happens: those before it are over."""
