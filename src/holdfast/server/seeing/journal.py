"""The journal: one line of the log for every event, with its ids as fields. Its logger is `holdfast.events`."""

import logging
from collections.abc import Mapping

from msgspec import to_builtins

from holdfast.core.events import (
    BanLifted,
    Banned,
    ConnectionRefused,
    Event,
    LimitExceeded,
    NodeHealth,
    Resynced,
    RoomFailed,
    RoomUpdated,
    SeatExpired,
    SeatFreed,
    SeatHeld,
    SeatReserved,
    SeatTaken,
    SignInFailed,
    TokenReused,
)
from holdfast.logs import get_logger
from holdfast.server.seeing.line_limit import LineLimit

log = get_logger("holdfast.events")

LEVELS: Mapping[type[Event], int] = {
    RoomFailed: logging.ERROR,
    TokenReused: logging.WARNING,
    Resynced: logging.WARNING,
    SignInFailed: logging.WARNING,
    LimitExceeded: logging.WARNING,
    # Who follows the players' own events knows these already, or can ask for them.
    RoomUpdated: logging.DEBUG,
    SeatReserved: logging.DEBUG,
    SeatTaken: logging.DEBUG,
    SeatHeld: logging.DEBUG,
    SeatFreed: logging.DEBUG,
    SeatExpired: logging.DEBUG,
}
"""How loud an event is; one that is not here is for information."""

# Any stranger can cause these, as often as they like: they are limited by what this field says.
_LIMITED_BY: Mapping[type[Event], str] = {
    ConnectionRefused: "reason",
    LimitExceeded: "limit",
    SignInFailed: "scheme",
}


class Journal:
    """Writes down what happens on a node."""

    def __init__(self, lines: LineLimit) -> None:
        self._lines = lines

    def record(self, event: Event) -> None:
        """Something has happened."""
        level = LEVELS.get(type(event), logging.INFO)
        if isinstance(event, NodeHealth) and not event.is_healthy:
            # What makes it so has a line of its own.
            level = logging.WARNING
        if not log.isEnabledFor(level):
            return
        limited_by = _LIMITED_BY.get(type(event))
        if limited_by is not None and not self._lines.allow(f"{event.name} {getattr(event, limited_by)}"):
            return
        fields = to_builtins(event)
        # A line has its own name and time.
        del fields["type"]
        fields.pop("at", None)
        if isinstance(event, Banned | BanLifted):
            # Of a "player:…" or an "address:…": they are found, and left out, as fields that are called so.
            whose, _, name = event.subject.partition(":")
            fields = {whose: name, **fields}
            del fields["subject"]
        log.log(level, event.name, **fields)


def tell_left_out(kind: str, lines: int) -> None:
    """Others of a kind were not written down."""
    log.warning("more lines like this were left out", kind=kind, lines=lines)
