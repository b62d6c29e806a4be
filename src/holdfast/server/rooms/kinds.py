"""The settings of a kind of rooms, checked before anybody can ask for one."""

from collections.abc import Iterable, Iterator
from math import inf
from typing import Any

from msgspec import Struct

from holdfast.core.messages import Message
from holdfast.core.room import CHOICES, Room, player_data_type
from holdfast.core.saved_types import check_readable, check_savable
from holdfast.schemas.frames import NAME_CHARS_MAX
from holdfast.server.rooms.shared_plan import plan_of
from holdfast.server.rooms.transactions import check_undoable
from holdfast.state import Unshareable

# The least value of each setting that is a number.
_LEAST = {
    "max_players": 1,
    "max_spectators": 0,
    "grace_s": 0,
    "empty_ttl_s": 0,
    "tick_hz": 0,
    "sync_hz": 0,
    "record_s": 0,
    "checkpoint_s": 0.05,
    "save_s": 0,
    "reservation_s": 1,
    "waiting_max": 0,
}
_WHOLE = {"max_players", "max_spectators", "waiting_max"}
_SHARED = {"state", "players"}
_TYPES: dict[str, tuple[type, str]] = {
    "create_role": (str, 'the name of a role, or ""'),
    "join_role": (str, 'the name of a role, or ""'),
    "keep_after_end": (bool, "True or False"),
    "keep_before_start": (bool, "True or False"),
    "transactional": (bool, "True or False"),
    "unique_names": (bool, "True or False"),
}


def room_types(rooms: object) -> list[type[Room[Any]]]:
    """The room classes that a server was given; `TypeError` if it was given anything else."""
    types = list(rooms) if isinstance(rooms, Iterable) else None
    if types is None or not all(isinstance(each, type) and issubclass(each, Room) for each in types):
        raise TypeError(f"Server takes a list of Room classes, as in Server([Arena]); got {rooms!r}")
    return types


def check_room_type(room_type: type[Room[Any]], *, has_store: bool) -> None:
    """Refuse invalid settings, and say what to write instead."""
    name = room_type.__name__
    for setting, what in _invalid(room_type):
        raise ValueError(f"{name}.{setting} must be {what}; got {getattr(room_type, setting)!r}")
    if room_type.durability != "memory":
        if not has_store:
            raise ValueError(
                f"{name}.durability is {room_type.durability!r}, but the server has no store: give it one, as in "
                'Server(store="sqlite:game.db") or holdfast serve --store sqlite:game.db'
            )
        check_savable(room_type)
    if room_type.transactional:
        check_undoable(room_type)
    try:
        plan_of(room_type)
    except Unshareable as error:
        raise ValueError(f"{name} cannot share what it names in `shares`: {error}") from None
    try:
        player_data_type(room_type)()
    except TypeError as error:
        raise ValueError(f"{player_data_type(room_type).__name__} needs a default for every field ({error})") from None


def _invalid(room_type: type[Room[Any]]) -> Iterator[tuple[str, str]]:
    """The settings with an invalid value, and what each must be."""
    values: dict[str, Any] = {name: getattr(room_type, name) for name in ("kind", "sends", *CHOICES, *_TYPES, *_LEAST)}
    kind, sends, options = values["kind"], values["sends"], room_type.join_options
    if not isinstance(kind, str) or not 0 < len(kind) <= NAME_CHARS_MAX:
        yield "kind", f"text of 1 to {NAME_CHARS_MAX} characters"
    if sends is not None and not _lists_messages(sends):
        yield "sends", "a list of Message classes, as in [Moved, Said]"
    shares = room_type.shares
    if isinstance(shares, str) or not set(shares) <= _SHARED or len(set(shares)) < len(shares):
        yield "shares", 'a list of "state", "players" or both'
    if options is not None and not _is_options_type(options):
        yield "join_options", "a msgspec.Struct class with field names, as in join_options = Loadout"
    for setting, choices in CHOICES.items():
        if values[setting] not in choices:
            yield setting, f"one of {', '.join(choices)}"
    for setting, (type_, what) in _TYPES.items():
        if not isinstance(values[setting], type_):
            yield setting, what
    for setting, least in _LEAST.items():
        value = values[setting]
        number, what = (int, "a whole number") if setting in _WHOLE else ((int, float), "a number")
        if isinstance(value, bool) or not isinstance(value, number) or not least <= value < inf:
            yield setting, f"{what} of at least {least}"


def _lists_messages(sends: object) -> bool:
    types = tuple(sends) if isinstance(sends, Iterable) else (None,)
    return all(isinstance(each, type) and issubclass(each, Message) for each in types)


def _is_options_type(options: object) -> bool:
    """Whether players can join with it: an object, of types that can be decoded and saved."""
    if not isinstance(options, type) or not issubclass(options, Struct) or options.__struct_config__.array_like:
        return False
    try:
        check_readable(options)
    except TypeError:
        return False
    return True
