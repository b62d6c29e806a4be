"""A room's tick, timers and spawned tasks; each calls the room in a turn. And the timer that ends an empty room."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.core.errors import Refused, Throttled
from holdfast.core.room import Room
from holdfast.core.room_context import RoomContext, Timer
from holdfast.logs import get_logger
from holdfast.server.rooms.services import RoomServices
from holdfast.server.rooms.turns import Turns

log = get_logger("holdfast.server")

Failure = Callable[[Exception, str], None]

# Skipped ticks of a room are logged this often.
_COMPLAINT_S = 10.0
# The least time between two questions whether an empty room may end: `empty_ttl_s` may be 0.
_STAY_S_MIN = 1.0


class RoomTimers:
    """The tick, timers and tasks of one room."""

    def __init__(self, room: Room[Any], services: RoomServices, turns: Turns, failed: Failure) -> None:
        self._room = room
        self._loop = services.context.clock.loop
        self._now = services.context.clock.now
        self._limits = services.context.limits
        self._counters = services.context.counters
        self._turns = turns
        self._failed = failed
        # In the order they were set.
        self._timers: dict[Timer, asyncio.TimerHandle] = {}
        self._timers_set = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._tick_handle: asyncio.TimerHandle | None = None
        self._ticked_at = 0.0
        self._tick_waits = False
        self._skipped = 0
        self._may_complain_at = 0.0

    def stop(self) -> None:
        if self._tick_handle is not None:
            self._tick_handle.cancel()
        for timer in list(self._timers):
            timer.cancel()
        for task in self._tasks:
            task.cancel()

    # Tick

    def start_ticking(self) -> None:
        """Call `on_tick` at the room's rate from now on."""
        if self._room.tick_hz > 0:
            self._ticked_at = self._now()
            first = self._ticked_at + 1.0 / self._room.tick_hz
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

    def _run_tick(self) -> Any:
        now = self._now()
        dt_s, self._ticked_at = now - self._ticked_at, now
        return self._room.on_tick(dt_s)

    def _tick_ended(self, error: Exception | None, _: Any) -> None:
        self._tick_waits = False
        if error is not None:
            self._failed(error, "on_tick")

    # Timers

    def after(
        self, seconds: float, method: Callable[..., Any], args: tuple[Any, ...], saved: list[tuple[str, Any]]
    ) -> Timer:
        """Call a method later, as a turn; `saved` is what is kept of its arguments."""
        if len(self._timers) >= self._limits.timers_max:
            raise Throttled(f"this room has {len(self._timers)} timers pending; cancel some or raise Limits.timers_max")
        self._timers_set += 1
        timer = Timer(self._timers_set, self._now() + seconds, method.__name__, self._cancelled)
        timer.arguments = saved

        def run() -> Any:
            self._timers.pop(timer, None)
            return None if timer.is_cancelled else method(*args)

        take = self._turns.take
        self._timers[timer] = self._loop.call_later(seconds, take, run, (), self._turn_ended, (method.__name__,))
        return timer

    def _cancelled(self, timer: Timer) -> None:
        if (handle := self._timers.pop(timer, None)) is not None:
            handle.cancel()

    @property
    def pending(self) -> list[Timer]:
        """The timers that are pending, or have rung and wait for their turn."""
        return list(self._timers)

    # Outside work

    def spawn(self, work: Coroutine[Any, Any, Any], then: Callable[[Any], Any] | None) -> None:
        """Run a coroutine beside the room; its result comes back as a turn of `then`."""
        if len(self._tasks) >= self._limits.spawned_max:
            work.close()
            raise Throttled(f"this room has {len(self._tasks)} tasks running; raise Limits.spawned_max or spawn fewer")
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
        self.stop()
        now = self._clock.now()
        self._was_joined = was_joined
        if self._unjoined_until is None:
            self._unjoined_until = now + self._unjoined_s
        reason = self._reason()
        if reason:
            left_s = self._room.empty_ttl_s if was_joined else self._unjoined_until - now
            self._timer = self._clock.loop.call_later(max(left_s, self._stays_until - now, 0.0), self._due, reason)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _reason(self) -> str:
        """Why the room is to end; empty if somebody is in it, or has a seat to come to, or it ends already."""
        seats = self._context.seats
        if len(seats) or self._context.is_closing:
            return ""
        if not self._was_joined:
            return "" if seats.is_room_needed else "never_joined"
        return "empty" if seats.used == 0 else ""

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
