"""The settings of a kind of rooms, checked before anybody can ask for one."""

from collections.abc import Iterable
from math import inf
from typing import Any

from holdfast.core.messages import Message
from holdfast.core.room import CHOICES, Room, player_data_type
from holdfast.core.saved_types import check_savable
from holdfast.schemas.frames import NAME_CHARS_MAX

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
_WHOLE = {"max_players", "waiting_max"}
_FLAGS = ("keep_before_start", "unique_names")
_ROLES = ("create_role", "join_role")


def room_types(rooms: object) -> list[type[Room[Any]]]:
    """The room classes that a server was given; `TypeError` if it was given anything else."""
    types = list(rooms) if isinstance(rooms, Iterable) else None
    if types is None or not all(isinstance(each, type) and issubclass(each, Room) for each in types):
        raise TypeError(f"Server takes a list of Room classes, as in Server([Arena]); got {rooms!r}")
    return types


def check_room_type(room_type: type[Room[Any]], *, has_store: bool) -> None:
    """Refuse settings that cannot be meant, with what to write instead."""
    _check_words(room_type)
    if room_type.durability != "memory":
        if not has_store:
            raise ValueError(
                f"{room_type.__name__}.durability is {room_type.durability!r}, but the server has no store: give it "
                'one, as in Server(store="sqlite:game.db") or holdfast serve --store sqlite:game.db'
            )
        check_savable(room_type)
    for setting, least in _LEAST.items():
        value = getattr(room_type, setting)
        kinds, what = (int, "a whole number") if setting in _WHOLE else ((int, float), "a number")
        if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value < inf:
            raise ValueError(f"{room_type.__name__}.{setting} must be {what} of at least {least}; got {value!r}")
    try:
        player_data_type(room_type)()
    except TypeError as error:
        raise ValueError(f"{player_data_type(room_type).__name__} needs a default for every field ({error})") from None


def _check_words(room_type: type[Room[Any]]) -> None:
    name = room_type.__name__
    kind: Any = room_type.kind
    if not isinstance(kind, str) or not 0 < len(kind) <= NAME_CHARS_MAX:
        raise ValueError(f"{name}.kind must be text of 1 to {NAME_CHARS_MAX} characters; got {kind!r}")
    for setting, choices in CHOICES.items():
        value = getattr(room_type, setting)
        if value not in choices:
            raise ValueError(f"{name}.{setting} must be one of {', '.join(choices)}; got {value!r}")
    for setting in _ROLES:
        value = getattr(room_type, setting)
        if not isinstance(value, str):
            raise ValueError(f'{name}.{setting} must be the name of a role, or ""; got {value!r}')  # noqa: TRY004
    sends: Any = room_type.sends
    if sends is not None and not all(isinstance(each, type) and issubclass(each, Message) for each in sends):
        raise ValueError(f"{name}.sends must be a list of Message classes, as in [Moved, Said]; got {sends!r}")
    for setting in _FLAGS:
        value = getattr(room_type, setting)
        if not isinstance(value, bool):
            raise ValueError(f"{name}.{setting} must be True or False; got {value!r}")  # noqa: TRY004 - as all of them
