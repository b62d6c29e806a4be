"""What every part of a server may use: clocks, limits, random numbers, and where to report."""

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import islice
from random import Random, SystemRandom

from msgspec import structs

from holdfast.core.limits import Limits
from holdfast.identity.hashing import Hashing
from holdfast.logs import get_logger
from holdfast.observability.log_lines import LineLimit
from holdfast.observability.metrics import Counters
from holdfast.schemas.events import Event, LimitExceeded

log = get_logger("holdfast.server")

_ALARM_WINDOW_S = 1.0
_DEADLINES_MIN = 1024
# Names read at a time while a page is collected.
_NAMES_AT_ONCE = 500


def end_process(error: Exception) -> None:
    """Saved data may be lost: end at once, before anything else is acknowledged. The next start reads what the store
    has."""
    log.critical("ending this process: saved data may be lost", error=error)
    logging.shutdown()
    os._exit(74)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What a server takes from outside; the defaults are those of a real process.

    It is a private argument of `Server`; `holdfast.testing` replaces it, so that a run depends on its seed alone.
    """

    random: Random = field(default_factory=SystemRandom)
    """For ids, tokens and jitter."""
    now: Callable[[], float] = time.monotonic
    """On the same clock as the event loop's timers. (uvloop's own clock ticks in milliseconds: too coarse for round
    trips.)"""
    wall_clock: Callable[[], float] = time.time
    """Seconds since 1970."""
    hashing: Hashing | None = None
    """For the passwords of rooms; None for argon2id."""
    fatal: Callable[[Exception], None] = end_process
    """Called when saved data may be lost, as after a failed fsync: continuing would break a promise."""


@dataclass(slots=True)
class Clock:
    """The event loop for timers, a monotonic clock for durations, and a wall clock for stored times."""

    loop: asyncio.AbstractEventLoop
    now: Callable[[], float]
    """On the same clock as the timers of `loop`."""
    wall_clock: Callable[[], float]
    """Seconds since 1970."""


class Deadlines:
    """Many deadlines, each a time and an id, with one timer.

    Nothing has to be cancelled: outdated deadlines are skipped when their time comes, and removed all at once when
    there may be more of them than valid ones.
    """

    def __init__(self, clock: Clock, is_valid: Callable[[float, str], bool], reached: Callable[[str], None]) -> None:
        """`is_valid` says whether a deadline still counts; `reached` is called with its id when it does."""
        self._clock = clock
        self._is_valid = is_valid
        self._reached = reached
        # Ids and not what they stand for: an outdated deadline keeps nothing alive.
        self._next: list[tuple[float, str]] = []
        self._most = _DEADLINES_MIN
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def __len__(self) -> int:
        return len(self._next)

    def add(self, at: float, key: str) -> None:
        if len(self._next) >= self._most:
            self._next = [each for each in self._next if self._is_valid(*each)]
            heapify(self._next)
            self._most = max(_DEADLINES_MIN, 2 * len(self._next))
        heappush(self._next, (at, key))
        if self._timer is None or at < self._timer_at:
            self._set_timer()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        self.stop()
        if self._next:
            self._timer_at = self._next[0][0]
            self._timer = self._clock.loop.call_at(self._timer_at, self._check)

    def _check(self) -> None:
        self._timer = None
        now = self._clock.now()
        try:
            while self._next and self._next[0][0] <= now:
                at, key = heappop(self._next)
                if self._is_valid(at, key):
                    self._reached(key)
        finally:
            # Also after an exception, which is our bug: the others must not wait forever.
            self._set_timer()


class Faults:
    """Unexpected errors: each is logged with its traceback, counted, and contained where it was raised."""

    def __init__(self, counters: Counters, lines: LineLimit) -> None:
        self._counters = counters
        self._lines = lines
        self.on_error: Callable[[Exception, str], None] = lambda _error, _where: None
        """Called with every contained error, including those raised by a game: a test fails with it."""

    def report(self, where: str, error: Exception, *, hide: Sequence[str] = (), **ids: str) -> None:
        """Log an error of Holdfast itself, without the secrets to `hide`."""
        self._counters.internal_errors += 1
        self.on_error(error, where)
        if self._lines.allow(where):
            log.error("internal error", where=where, **ids, exc_info=error, hide=hide)

    def report_game(
        self, error: Exception, where: str, *, kind: str, room: str, player: str = "", player_name: str = ""
    ) -> None:
        """Log an error of a game's own code."""
        self._counters.turns_failed += 1
        self.on_error(error, f"{where} of {kind} {room}" + (f", player {player}" if player else ""))
        if self._lines.allow(f"{where} of {kind}"):
            ids = {"room": room, "kind": kind, "player": player, "player_name": player_name}
            known = {field: value for field, value in ids.items() if value}
            log.error("the game's code failed", where=where, **known, exc_info=error)


class Alarms:
    """Publishes `LimitExceeded`, at most once a second for each limit and subject.

    The first is published at once; repetitions within the second are published together, counted in `times`. A flood
    of traffic must not become a flood of events.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, publish: Callable[[LimitExceeded], None]) -> None:
        self._loop = loop
        self._publish = publish
        # Published in the current second, and how often each was repeated since.
        self._told: dict[tuple[str, str, str], LimitExceeded] = {}
        self._repeated: Counter[tuple[str, str, str]] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    def report(
        self, limit: str, action: str, *, address: str = "", session: str = "", player: str = "", player_name: str = ""
    ) -> None:
        """Somebody reached a limit; `action` is "warned", "dropped", "disconnected" or "refused"."""
        key = (limit, action, session or player or address)
        if key in self._told:
            self._repeated[key] += 1
            return
        event = self._told[key] = LimitExceeded(
            limit=limit, action=action, address=address, session=session, player=player, player_name=player_name
        )
        if self._timer is None:
            self._timer = self._loop.call_later(_ALARM_WINDOW_S, self._report_rest)
        self._publish(event)

    def _report_rest(self) -> None:
        """Publish what was repeated during the second that has just ended."""
        repeated, self._repeated = self._repeated, Counter()
        self._told = {key: self._told[key] for key in repeated}
        self._timer = self._loop.call_later(_ALARM_WINDOW_S, self._report_rest) if repeated else None
        for key, times in repeated.items():
            self._publish(structs.replace(self._told[key], times=times))

    def close(self) -> None:
        """Publish what is pending, and stop."""
        if self._timer is not None:
            self._timer.cancel()
            self._report_rest()
        if self._timer is not None:
            self._timer.cancel()


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """For parts that use several of these; a part that needs one or two is given those instead."""

    clock: Clock
    limits: Limits
    random: Random
    publish: Callable[[Event], None]
    """Publishes an event to all subscribers."""
    counters: Counters
    faults: Faults
    """For internal errors."""
    alarms: Alarms
    """For limits that were reached."""


def page_of(names: Iterable[str], limit: int, cursor: str) -> tuple[list[str], str]:
    """The next `limit` names after `cursor`, each once, and the cursor of the next page; empty if this is the last."""
    # Many are read and few are taken: sorting or collecting them all would block the event loop.
    page: list[str] = []
    names = iter(names)
    while some := list(islice(names, _NAMES_AT_ONCE)):
        if len(page) <= limit:
            near = [name for name in some if name > cursor]
        else:
            last = page[-1]
            near = [name for name in some if cursor < name < last]
        if near:
            page = sorted({*page, *near})[: limit + 1]
    return page[:limit], page[limit - 1] if len(page) > limit else ""
