"""The settings of a kind of rooms, checked before anybody can ask for one."""

from math import inf
from typing import Any

from holdfast.core.room import CHOICES, Room
from holdfast.server.durable.images import check_savable

# Settings that are numbers, and what is the least.
_LEAST = {
    "max_players": 1,
    "grace_s": 0,
    "empty_ttl_s": 0,
    "tick_hz": 0,
    "checkpoint_s": 0.05,
    "save_s": 0,
    "reservation_s": 1,
    "waiting_max": 0,
}


def check_room_type(room_type: type[Room[Any]], *, has_store: bool) -> None:
    """Refuse settings that cannot be meant, with what to write instead."""
    for setting, choices in CHOICES.items():
        value = getattr(room_type, setting)
        if value not in choices:
            raise ValueError(f"{room_type.__name__}.{setting} must be one of {', '.join(choices)}; got {value!r}")
    if room_type.durability != "memory":
        if not has_store:
            raise ValueError(
                f"{room_type.__name__}.durability is {room_type.durability!r}, but the server has no store: give it "
                'one, as in Server(store="sqlite:game.db") or holdfast serve --store sqlite:game.db'
            )
        check_savable(room_type)
    for setting, least in _LEAST.items():
        value = getattr(room_type, setting)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < inf:
            raise ValueError(f"{room_type.__name__}.{setting} must be a number of at least {least}; got {value!r}")
    try:
        room_type.data_type()
    except TypeError as error:
        raise ValueError(f"{room_type.data_type.__name__} needs a default for every field ({error})") from None
