"""Keeps strangers from filling the log through any logger that they can reach: ours, asyncio's and uvicorn's."""

import logging
from weakref import ref

from holdfast.observability.line_limit import LineLimit

# Not `holdfast.events` and `holdfast.packets`, which have limits of their own: see journal.py and packet_log.py.
GUARDED = (
    *("holdfast.server", "holdfast.transports", "holdfast.transports.keys", "holdfast.http", "holdfast.identity"),
    "holdfast.stores",
    # The default exception handler of event loops writes here: a protocol that raises, a task that nobody awaited.
    "asyncio",
    # Requests that are not HTTP, and whatever else it has to say about a connection.
    "uvicorn.error",
)
"""The loggers that are limited while a server runs."""


class LogGuard(logging.Filter):
    """Between `start` and `stop` no kind of line is written more often than `lines` allows."""

    def __init__(self, lines: LineLimit) -> None:
        super().__init__()
        # Weak: a server that was abandoned, in a test or in a program that failed, must not guard anything for ever.
        self._lines = ref(lines)

    def start(self) -> None:
        """Guard every logger. A second server in this process has a guard of its own; a line must pass both."""
        for name in GUARDED:
            logging.getLogger(name).addFilter(self)

    def stop(self) -> None:
        """Leave them as they were."""
        for name in GUARDED:
            logger = logging.getLogger(name)
            # Another list: this may be called from `filter`, while the logger goes through the old one.
            logger.filters = [each for each in logger.filters if each is not self]

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
        lines = self._lines()
        if lines is None or lines.is_over:
            self.stop()
            return True
        return lines.allow(f"{record.name}: {_kind(record)}")


def _kind(record: logging.LogRecord) -> str:
    """What the line is about, in words of ours or of the game, never of a client."""
    event = getattr(record, "event", None)
    if event is not None:
        fields = getattr(record, "fields", {})
        return " ".join([str(event), *(str(fields[name]) for name in ("where", "kind") if name in fields)])
    error = record.exc_info[0] if record.exc_info else None
    return record.levelname if error is None else error.__name__
