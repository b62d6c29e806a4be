"""What a player joins a room with: a Struct of the room's own (`join_options`), checked at the door."""

from typing import Any

import msgspec
from msgspec import Struct

from holdfast.core.errors import Invalid
from holdfast.core.room import Room

_ENCODING_ERRORS = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError)


def checked_options(room_type: type[Room[Any]], given: Any, bytes_max: int) -> Any:
    """The options as the room declares them, from plain data or a Struct; its defaults if none are given (None).

    `Invalid` if they are not what the room declares, or if it needs some. Always an object of the room's own.
    """
    wanted = room_type.join_options
    if wanted is None:
        if given is not None:
            raise Invalid(f"options: rooms of the kind {room_type.kind!r} take none")
        return None
    if given is None:
        return _default(room_type, wanted)
    try:
        encoded = msgspec.msgpack.encode(given)
        plain = msgspec.msgpack.decode(encoded)
    except _ENCODING_ERRORS as error:
        raise Invalid(f"options: use plain data, or a {wanted.__name__} ({error})") from None
    if len(encoded) > bytes_max:
        raise Invalid(f"options: {len(encoded)} bytes are more than the {bytes_max} that a player may join with")
    try:
        # Keys of maps are text in JSON, whatever they are for the room.
        return msgspec.convert(plain, wanted, str_keys=True)
    except _ENCODING_ERRORS as error:
        raise Invalid(f"options: {error}") from None


def packed_options(room_type: type[Room[Any]], given: Any, bytes_max: int) -> bytes | None:
    """The options that a reservation keeps for its player; None if none are given."""
    if given is None:
        return None
    return msgspec.msgpack.encode(checked_options(room_type, given, bytes_max))


def unpacked_options(packed: bytes | None) -> Any:
    """The options that a reservation has kept, as plain data."""
    return msgspec.msgpack.decode(packed) if packed is not None else None


def needs_options(room_type: type[Room[Any]]) -> bool:
    """Whether nobody can join without options."""
    try:
        checked_options(room_type, None, 0)
    except Invalid:
        return True
    return False


def _default(room_type: type[Room[Any]], wanted: type[Struct]) -> Any:
    try:
        return wanted()
    except TypeError:
        pass
    try:
        return msgspec.convert({}, wanted)
    except msgspec.ValidationError as error:
        # It names the first field that has no default.
        raise Invalid(f"options: rooms of the kind {room_type.kind!r} need some to join with: {error}") from None
