"""A room's tick, timers and spawned tasks; each calls the room in a turn. And the timer that ends an empty room."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from zlib import crc32

from holdfast.core.errors import Refused, Throttled
from holdfast.core.room import Room
from holdfast.core.room_context import RoomContext, Timer, next_due
from holdfast.logs import get_logger
from holdfast.server.rooms.services import RoomServices
from holdfast.server.rooms.turns import Turns

log = get_logger("holdfast.server")

Failure = Callable[[Exception, str], None]

# Skipped ticks of a room are logged this often.
_COMPLAINT_S = 10.0
# When held timers are due.
_NEVER_S = 10 * 365 * 86400.0
# The least time between two questions whether an empty room may end: `empty_ttl_s` may be 0.
_STAY_S_MIN = 1.0


class RoomTimers:
    """The tick, timers and tasks of one room."""

    def __init__(
        self,
        room: Room[Any],
        context: RoomContext,
        services: RoomServices,
        turns: Turns,
        *,
        saved: Callable[[str, tuple[Any, ...]], list[tuple[str, Any]]],
        failed: Failure,
    ) -> None:
        """`saved` returns the arguments of a method's call as they are kept; `TypeError` if they cannot be."""
        self._room = room
        self._context = context
        self._saved = saved
        self._loop = services.context.clock.loop
        self._now = services.context.clock.now
        self._limits = services.context.limits
        self._counters = services.context.counters
        self._turns = turns
        self._failed = failed
        # In the order they were set.
        self._timers: dict[Timer, asyncio.TimerHandle] = {}
        self._named: dict[str, Timer] = {}
        # Cancelled by a turn that may be undone: they stay where they are until it has succeeded.
        self._cancelling: set[Timer] = set()
        self._timers_set = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._tick_handle: asyncio.TimerHandle | None = None
        self._ticked_at = 0.0
        self.dt_s = 0.0
        """The time between the last two ticks."""
        self._tick_waits = False
        self._skipped = 0
        self._may_complain_at = 0.0
        self._held: dict[Timer, tuple[Callable[..., Any], tuple[Any, ...]]] | None = None

    def hold(self) -> None:
        """From now on nothing is called by itself: `ring` and `tick` do, for a room whose turns are taken again."""
        self._held = {}

    def stop(self) -> None:
        if self._tick_handle is not None:
            self._tick_handle.cancel()
        for timer in list(self._timers):
            timer.is_cancelled = True
            self._drop(timer)
        for task in self._tasks:
            task.cancel()

    # Tick

    def start_ticking(self) -> None:
        """Call `on_tick` at the room's rate from now on.

        Each room ticks at a moment of its own within the period, or all rooms of a server that has just recovered would
        tick together, and everybody would wait for the last one.
        """
        if self._room.tick_hz > 0:
            self._ticked_at = self._now()
            first = self._ticked_at + (1.0 - _share(self._room.id)) / self._room.tick_hz
            self._tick_handle = self._loop.call_at(first, self._tick, first)

    def _tick(self, due: float) -> None:
        period = 1.0 / self._room.tick_hz
        # Missed ticks are not made up for: dt_s tells the game how long it was.
        missed = int((self._now() - due) / period)
        following = due + (missed + 1) * period
        self._tick_handle = self._loop.call_at(following, self._tick, following)
        if missed or self._tick_waits:
            self._skip(missed + self._tick_waits)
        if self._tick_waits:
            return
        self._tick_waits = True
        self._turns.take(self._run_tick, (), self._tick_ended)

    def _skip(self, ticks: int) -> None:
        self._counters.ticks_skipped += ticks
        self._skipped += ticks
        now = self._now()
        if now >= self._may_complain_at:
            room = self._room
            log.warning(
                "ticks were skipped: the room cannot keep its rate",
                room=room.id,
                kind=room.kind,
                skipped=self._skipped,
                tick_hz=room.tick_hz,
            )
            self._skipped = 0
            self._may_complain_at = now + _COMPLAINT_S

    def tick(self, dt_s: float) -> None:
        """Take a turn of `on_tick` now, with this time since the last one."""
        self._turns.take(self._run_tick, (dt_s,), self._tick_ended)

    def _run_tick(self, dt_s: float | None = None) -> Any:
        now = self._now()
        self.dt_s, self._ticked_at = now - self._ticked_at if dt_s is None else dt_s, now
        return self._room.on_tick(self.dt_s)

    def _tick_ended(self, error: Exception | None, _: Any) -> None:
        self._tick_waits = False
        if error is not None:
            self._failed(error, "on_tick")

    # Timers

    def check(self, name: str) -> None:
        """Refuse one timer more than a room may have, or a name that is none; a timer of the same name is replaced."""
        if not isinstance(name, str):
            raise TypeError(f"timers are named by text; got {name!r}")
        if (size := len(name.encode())) > (most := self._limits.timer_name_bytes_max):
            raise ValueError(f"a timer's name of {size} bytes is too long: Limits.timer_name_bytes_max is {most}")
        pending = len(self._timers) - len(self._cancelling)
        if name not in self._named and pending >= self._limits.timers_max:
            raise Throttled(f"this room has {pending} timers pending; cancel some or raise Limits.timers_max")

    def set(
        self, seconds: float, method: Callable[..., Any], args: tuple[Any, ...], name: str, every_s: float
    ) -> Timer:
        """Call a method later, as a turn, and then every `every_s` unless that is 0. A timer of the same name is
        cancelled."""
        self.check(name)
        return self.restore(seconds, method, args, name, every_s)

    def restore(
        self, seconds: float, method: Callable[..., Any], args: tuple[Any, ...], name: str, every_s: float
    ) -> Timer:
        """The same without limits: a timer from the store was within them once."""
        saved = self._saved(method.__name__, args)
        if (former := self._named.get(name)) is not None:
            former.cancel()
        self._timers_set += 1
        due_at = self._now() + seconds
        timer = Timer(self._timers_set, due_at, method.__name__, self._cancelled, name=name, every_s=every_s)
        timer.arguments = saved
        if name:
            self._named[name] = timer
        self._wait(timer, method, args)
        if (turn := self._context.transaction) is not None:
            turn.undo(self._unset, timer)
        return timer

    def _unset(self, timer: Timer) -> None:
        """The turn that set it is undone."""
        timer.is_cancelled = True
        self._drop(timer)
        self._timers_set = timer.number - 1

    def _wait(self, timer: Timer, method: Callable[..., Any], args: tuple[Any, ...]) -> None:
        at = timer.due_at
        if self._held is not None:
            at, self._held[timer] = self._now() + _NEVER_S, (method, args)
        self._timers[timer] = self._loop.call_at(
            at, self._turns.take, self._run, (timer, method, args), self._turn_ended, (timer.method,)
        )

    def ring(self, timer: Timer) -> None:
        """Call the method of a pending timer that is held, as a turn."""
        assert self._held is not None
        self._timers[timer].cancel()
        self._turns.take(self._run, (timer, *self._held.pop(timer)), self._turn_ended, (timer.method,))

    def _run(self, timer: Timer, method: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if timer.is_cancelled:
            return None
        if timer.every_s:
            # Only now: while a call waits for its turn, the next one is not due.
            timer.due_at = next_due(timer.due_at, timer.every_s, self._now())
            self._wait(timer, method, args)
        else:
            self._forget(timer)
        return method(*args)

    def _cancelled(self, timer: Timer) -> None:
        turn = self._context.transaction
        if turn is None:
            self._drop(timer)
        elif timer in self._timers and timer not in self._cancelling:
            self._cancelling.add(timer)
            is_named = self._named.get(timer.name) is timer
            if is_named:
                del self._named[timer.name]
            turn.undo(self._revive, timer, is_named)
            turn.hold(self._drop, timer)

    def _revive(self, timer: Timer, is_named: bool) -> None:
        """The turn that cancelled it is undone."""
        timer.is_cancelled = False
        self._cancelling.discard(timer)
        if is_named:
            self._named[timer.name] = timer

    def _drop(self, timer: Timer) -> None:
        self._cancelling.discard(timer)
        if (handle := self._forget(timer)) is not None:
            handle.cancel()

    def _forget(self, timer: Timer) -> asyncio.TimerHandle | None:
        if timer.name and self._named.get(timer.name) is timer:
            del self._named[timer.name]
        return self._timers.pop(timer, None)

    def named(self, name: str) -> Timer | None:
        """The timer with this name, if it is pending."""
        return self._named.get(name)

    @property
    def pending(self) -> list[Timer]:
        """The timers that are pending, or have rung and wait for their turn."""
        return list(self._timers)

    # Outside work

    def spawn(self, work: Coroutine[Any, Any, Any], then: Callable[[Any], Any] | None) -> None:
        """Run a coroutine beside the room; its result comes back as a turn of `then`."""
        turn = self._context.transaction
        running = len(self._tasks) + (turn.marks.get(self.spawn, 0) if turn is not None else 0)
        if running >= self._limits.spawned_max:
            work.close()
            raise Throttled(f"this room has {running} tasks running; raise Limits.spawned_max or spawn fewer")
        if turn is None:
            self._begin(work, then)
        else:
            turn.mark(self.spawn)
            # It never begins: without this, Python would warn that it was never awaited.
            turn.undo(work.close)
            turn.hold(self._begin, work, then)

    def _begin(self, work: Coroutine[Any, Any, Any], then: Callable[[Any], Any] | None) -> None:
        task = self._loop.create_task(self._work(work, then))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # If the task is cancelled before it begins, Python would warn that `work` was never awaited.
        task.add_done_callback(lambda _: work.close())

    async def _work(self, work: Coroutine[Any, Any, Any], then: Callable[[Any], Any] | None) -> None:
        try:
            result = await work
        except Exception as error:  # noqa: BLE001 - the game's code; contained and logged
            self._failed(error, "spawned work")
            return
        if then is not None:
            self._turns.take(then, (result,), self._turn_ended, (getattr(then, "__name__", "spawned work"),))

    def _turn_ended(self, error: Exception | None, _: Any, name: str) -> None:
        if error is not None:
            self._failed(error, name)


class EmptyTimer:
    """Ends an empty room, unless its game refuses: `on_destroy` is asked first, while the room is still open.

    A room that nobody has joined yet has one deadline. Attempts to join it and seats that players reserve in it do not
    extend it; seats that an operator or a placement reserved do, for as long as they are reserved.
    """

    def __init__(
        self,
        room: Room[Any],
        context: RoomContext,
        services: RoomServices,
        turns: Turns,
        *,
        end: Callable[..., None],
        failed: Failure,
    ) -> None:
        self._room = room
        self._context = context
        self._clock = services.context.clock
        self._unjoined_s = services.context.limits.unjoined_s
        self._turns = turns
        self._end = end
        self._failed = failed
        self._timer: asyncio.TimerHandle | None = None
        self._was_joined = False
        self._unjoined_until: float | None = None
        self._stays_until = 0.0

    def check(self, *, was_joined: bool) -> None:
        """Begin to wait for the end of an empty room, or stop waiting."""
        if self._timer is not None:
            self.stop()
        self._was_joined = was_joined
        if self._unjoined_until is None:
            self._unjoined_until = self._clock.now() + self._unjoined_s
        reason = self._reason()
        if reason:
            now = self._clock.now()
            left_s = self._room.empty_ttl_s if was_joined else self._unjoined_until - now
            self._timer = self._clock.loop.call_later(max(left_s, self._stays_until - now, 0.0), self._due, reason)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _reason(self) -> str:
        """Why the room is to end; empty if somebody is in it, or has a seat to come to, or it ends already.

        Its own agents are nobody here.
        """
        seats = self._context.seats
        if len(seats) > seats.agents or self._context.is_closing:
            return ""
        if not self._was_joined:
            return "" if seats.is_room_needed else "never_joined"
        return "empty" if seats.keeping == 0 else ""

    def _due(self, reason: str) -> None:
        if type(self._room).on_destroy is Room.on_destroy:
            self._end(reason)
        else:
            self._turns.take(self._ask, (), self._asked, (reason,))

    def _ask(self) -> Any:
        # Somebody may have come while this turn waited.
        return self._room.on_destroy() if self._reason() else None

    def _asked(self, error: Exception | None, _: Any, reason: str) -> None:
        is_refused = isinstance(error, Refused)
        if is_refused:
            log.debug("an empty room stays", room=self._room.id, kind=self._room.kind, why=error)
            self._stays_until = self._clock.now() + max(self._room.empty_ttl_s, _STAY_S_MIN)
        elif error is not None:
            self._failed(error, "on_destroy")
        # Somebody may have come while it was decided: then the room stays as well.
        if self._reason() and not is_refused:
            self._end(reason, is_asked=True)
        else:
            self.check(was_joined=self._was_joined)


def _share(room_id: str) -> float:
    """A number from 0 to 1, not included, that is always the same for a room."""
    return crc32(room_id.encode()) / 2**32
