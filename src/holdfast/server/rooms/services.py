"""What all rooms of a server share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.core.addresses import AddressShares
from holdfast.observability.metrics import TurnMeter
from holdfast.server.context import Context
from holdfast.server.rooms.effects import Outbox
from holdfast.server.rooms.reserved import ReservedSeats
from holdfast.server.rooms.saves import Saving
from holdfast.server.sessions import SessionLifecycle, StoredSessions

Trace = Callable[..., tuple[Callable[..., Any], Callable[..., None]]]
"""Wraps the turn of a message: takes what to run and what to call at its end, and returns what to use instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomServices:
    """Given to every `RoomRunner` of a server."""

    context: Context
    grace_s: float
    """Of a session without a seat."""
    turn_meter: Callable[[str], TurnMeter]
    """By kind of room."""
    trace: Callable[[], Trace | None]
    """How messages are traced, if they are."""
    lifecycle: SessionLifecycle
    stored: StoredSessions
    saving: Saving
    outbox: Outbox
    reserved: ReservedSeats
    shares: AddressShares
