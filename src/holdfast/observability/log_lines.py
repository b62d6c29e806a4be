"""The lines of the log: one for every event, limited for each kind.

Unauthenticated peers can cause most events and many other lines, and must not be able to fill the disk.
"""

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from weakref import ref

from msgspec import to_builtins

from holdfast.logs import get_logger
from holdfast.schemas.events import (
    BanLifted,
    Banned,
    ConnectionRefused,
    Event,
    LimitExceeded,
    ListingUpdated,
    NodeHealth,
    RolledBack,
    RoomFailed,
    SeatExpired,
    SeatFreed,
    SeatHeld,
    SeatReserved,
    SeatTaken,
    SessionResynced,
    SignInFailed,
    TokenReused,
)

log = get_logger("holdfast.events")
# Asked with every event: not by way of structlog.
_is_enabled_for = logging.getLogger("holdfast.events").isEnabledFor

_WINDOW_S = 1.0

LEVELS: Mapping[type[Event], int] = {
    RoomFailed: logging.ERROR,
    TokenReused: logging.WARNING,
    SessionResynced: logging.WARNING,
    RolledBack: logging.WARNING,
    SignInFailed: logging.WARNING,
    LimitExceeded: logging.WARNING,
    # The players' own events say the same.
    ListingUpdated: logging.DEBUG,
    SeatReserved: logging.DEBUG,
    SeatTaken: logging.DEBUG,
    SeatHeld: logging.DEBUG,
    SeatFreed: logging.DEBUG,
    SeatExpired: logging.DEBUG,
}
"""The level of each event; one that is not here is logged as INFO."""

LIMITED_BY: Mapping[type[Event], str] = {
    ConnectionRefused: "reason",
    LimitExceeded: "limit",
    RolledBack: "outcome",
    RoomFailed: "why",
    SignInFailed: "scheme",
}
"""Events that are also limited by the value of a field: one of a few names of ours."""

# Not `holdfast.events` and `holdfast.packets`, which have limits of their own.
LIMITED_LOGGERS = (
    *("holdfast.server", "holdfast.transports", "holdfast.http", "holdfast.identity"),
    *("holdfast.stores", "holdfast.cluster"),
    # The default exception handler of event loops writes here: a protocol that raises, a task that was never awaited.
    "asyncio",
    # Requests that are not HTTP, and other messages about a connection.
    "uvicorn.error",
)
"""The loggers that are limited while a server runs: all that unauthenticated peers can cause lines in."""


class LineLimit:
    """At most `per_s` lines of a kind in a second; then `left_out` is called with the number of further ones."""

    def __init__(self, loop: asyncio.AbstractEventLoop, per_s: int, left_out: Callable[[str, int], None]) -> None:
        self.loop = loop
        self._thread = threading.get_ident()
        self._per_s = per_s
        self._tell_left_out = left_out
        self._counts: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self._end: asyncio.TimerHandle | None = None

    def allow(self, kind: str, per_s: int | None = None) -> bool:
        """Whether one more line of this kind may be written. Kinds are named by us, never by a client."""
        if self._end is not None and self.loop.time() > self._end.when() + _WINDOW_S:
            self.close()  # its timer was lost in a simulated crash
        if self._end is None and threading.get_ident() == self._thread:
            self._end = self.loop.call_later(_WINDOW_S, self.close)
        elif self._end is None:
            with suppress(RuntimeError):  # the loop is closed, and no more lines will follow
                self.loop.call_soon_threadsafe(self.allow, "")
        self._counts[kind] += 1
        if self._counts[kind] <= (self._per_s if per_s is None else per_s):
            return True
        self._left_out[kind] += 1
        return False

    def is_full(self, kind: str) -> bool:
        """Whether no more lines of this kind may be written in this second."""
        return self._counts[kind] >= self._per_s

    def close(self) -> None:
        """End the second: report how many lines were left out."""
        if self._end is not None:
            self._end.cancel()
            self._end = None
        left_out, self._left_out = self._left_out, Counter()
        self._counts.clear()
        for kind, lines in left_out.items():
            self._tell_left_out(kind, lines)


def log_left_out(kind: str, lines: int) -> None:
    """Log that lines of a kind were not written."""
    log.warning("more lines like this were left out", kind=kind, lines=lines)


class EventLogger:
    """Logs every event: warnings as often as `lines` allows, the rest `events_per_s` of a kind."""

    def __init__(self, lines: LineLimit, events_per_s: int) -> None:
        self._lines = lines
        self._events_per_s = events_per_s

    def record(self, event: Event) -> None:
        level = LEVELS.get(type(event), logging.INFO)
        if isinstance(event, NodeHealth) and not event.is_healthy:
            level = logging.WARNING
        if not _is_enabled_for(level):
            return
        limited_by = LIMITED_BY.get(type(event))
        kind = event.name if limited_by is None else f"{event.name} {getattr(event, limited_by)}"
        if not self._lines.allow(kind, None if level >= logging.WARNING else self._events_per_s):
            return
        fields = to_builtins(event)
        # A line has its own name and time; the room's listing is in the stream of events.
        del fields["type"]
        fields.pop("at", None)
        fields.pop("info", None)
        if isinstance(event, Banned | BanLifted):
            # "player:…" or "address:…" becomes a field of that name, so that it can be searched or left out like
            # others.
            whose, _, name = event.subject.partition(":")
            fields = {whose: name, **fields}
            del fields["subject"]
        log.log(level, event.name, **fields)


class LineLimitFilter(logging.Filter):
    """Between `start` and `stop`, no kind of line is written more often than `lines` allows, whichever logger writes
    it."""

    def __init__(self, lines: LineLimit) -> None:
        super().__init__()
        # Weak: an abandoned server, in a test or in a program that failed, must not limit anything forever.
        self._lines = ref(lines)

    def start(self) -> None:
        """Limit every logger. A second server in this process has its own filter; a line must pass both."""
        for name in LIMITED_LOGGERS:
            logging.getLogger(name).addFilter(self)

    def stop(self) -> None:
        for name in LIMITED_LOGGERS:
            logger = logging.getLogger(name)
            # A new list: this may be called from `filter`, while the logger iterates over the old one.
            logger.filters = [each for each in logger.filters if each is not self]

    def filter(self, record: logging.LogRecord) -> bool:
        lines = self._lines()
        if lines is None or lines.loop.is_closed():
            self.stop()
            return True
        return lines.allow(f"{record.name}: {_kind_of_line(record)}")


def _kind_of_line(record: logging.LogRecord) -> str:
    """The subject of the line, in words of ours or of the game, never of a client."""
    event = getattr(record, "event", None)
    if event is not None:
        fields = getattr(record, "fields", {})
        return " ".join([str(event), *(str(fields[name]) for name in ("where", "kind") if name in fields)])
    error = record.exc_info[0] if record.exc_info else None
    return record.levelname if error is None else error.__name__
