"""The journal: one line of the log for every event, with its ids as fields. Its logger is `holdfast.events`."""

import logging
from collections.abc import Mapping

from msgspec import to_builtins

from holdfast.logs import get_logger
from holdfast.observability.line_limit import LineLimit
from holdfast.schemas.events import (
    BanLifted,
    Banned,
    ConnectionRefused,
    Event,
    LimitExceeded,
    NodeHealth,
    Resynced,
    RolledBack,
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

log = get_logger("holdfast.events")

LEVELS: Mapping[type[Event], int] = {
    RoomFailed: logging.ERROR,
    TokenReused: logging.WARNING,
    Resynced: logging.WARNING,
    RolledBack: logging.WARNING,
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

# Strangers can cause most events as often as they like, so every event is limited.
LIMITED_BY: Mapping[type[Event], str] = {
    ConnectionRefused: "reason",
    LimitExceeded: "limit",
    RolledBack: "outcome",
    RoomFailed: "why",
    SignInFailed: "scheme",
}
"""Those that are limited by what a field says too: one of a few names that are ours."""


class Journal:
    """Writes down what happens on a node: warnings as often as `lines` allows, the rest `events_per_s` of a kind."""

    def __init__(self, lines: LineLimit, events_per_s: int) -> None:
        self._lines = lines
        self._events_per_s = events_per_s

    def record(self, event: Event) -> None:
        """Something has happened."""
        level = LEVELS.get(type(event), logging.INFO)
        if isinstance(event, NodeHealth) and not event.is_healthy:
            # What makes it so has a line of its own.
            level = logging.WARNING
        if not log.isEnabledFor(level):
            return
        if not self._lines.allow(_kind(event), None if level >= logging.WARNING else self._events_per_s):
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


def _kind(event: Event) -> str:
    limited_by = LIMITED_BY.get(type(event))
    return event.name if limited_by is None else f"{event.name} {getattr(event, limited_by)}"


def tell_left_out(kind: str, lines: int) -> None:
    """Others of a kind were not written down."""
    log.warning("more lines like this were left out", kind=kind, lines=lines)
