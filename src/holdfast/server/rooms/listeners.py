"""Who is told when a room changes: `compose.py` fills this in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from holdfast.core.room import Room
from holdfast.core.session import PlayerId, SeatState
from holdfast.schemas.player import WaitInfo
from holdfast.schemas.requests import Update

R = TypeVar("R")
"""What runs a room."""


@dataclass(frozen=True, slots=True)
class RoomListeners(Generic[R]):
    """Called when rooms change, by all that index and observe them."""

    listed: Callable[[R], None]
    """What the directory shows of a room has changed."""
    seat_changed: Callable[[R, str, SeatState], None]
    """The seat of a player, by id, is in another state."""
    seat_given_back: Callable[[str], None]
    """A newcomer was not admitted to a room (its id)."""
    gone: Callable[[R], None]
    """A room has ended, or is not this server's any more."""
    check_name: Callable[[Room[Any], str | None], None]
    """Refuses a new name that another room has."""
    update: Callable[[R, Update], None]
    """The game changes the entry of a room, after the turn in which it said so."""
    updated: Callable[[Room[Any], Update], None]
    """A room's entry was changed as this request says."""
    seat_offered: Callable[[PlayerId, WaitInfo], None]
    """A seat is kept for a player who waits for one."""
