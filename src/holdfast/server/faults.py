"""Unexpected errors: each is logged with its traceback, counted, and contained where it was raised."""

from collections.abc import Callable, Sequence

from holdfast.logs import get_logger
from holdfast.observability.log_lines import LineLimit
from holdfast.observability.metrics import Counters

log = get_logger("holdfast.server")


class Faults:
    """Reports contained errors."""

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

    def report_game(self, error: Exception, where: str, *, kind: str, room: str, player: str = "") -> None:
        """Log an error of a game's own code."""
        self._counters.turns_failed += 1
        self.on_error(error, f"{where} of {kind} {room}" + (f", player {player}" if player else ""))
        if self._lines.allow(f"{where} of {kind}"):
            ids = {"player": player} if player else {}
            log.error("the game's code failed", where=where, room=room, kind=kind, **ids, exc_info=error)
