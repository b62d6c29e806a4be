"""Which field of a room cannot be saved: for the log, when a commit has failed because of the game's own data."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from holdfast.core.parts import Parts
from holdfast.core.room import Room
from holdfast.server.durability.images import saved_type, state_reader

# Deeper than anybody looks; a value may hold itself.
_DEEPEST = 16
_AT = re.compile(r"at `\$([^`]+)`")


def unsavable_field(room: Room[Any]) -> str:
    """The first field that cannot be written or read again, as the game would write it; empty if none is found."""
    for name, value in room.properties.items():
        if _failure(value, _unread) is not None:
            return f"properties[{name!r}]"
    read_data = state_reader(room.data_type)
    for player in room.players:
        if field := _field(f"player({player.id!r}).data", player.data, read_data):
            return field
    try:
        state = room.snapshot()
    except Exception:  # noqa: BLE001 - the game's own code, whose error is told already
        return "snapshot()"
    path = "state" if type(room).snapshot is Room.snapshot else "snapshot()"
    return _field(path, state, state_reader(saved_type(type(room))))


def _field(path: str, value: Any, read: Callable[[bytes], Any]) -> str:
    failure = _failure(value, read)
    if failure is None:
        return ""
    if at := _AT.search(str(failure)):
        # It is of another type than its field: msgspec tells where it met it.
        return path + at[1]
    return _innermost(path, value)


def _innermost(path: str, value: Any, depth: int = 0) -> str:
    """The innermost value that cannot be written; the whole one if each of its fields alone can be."""
    for step, child in _children(value) if depth < _DEEPEST else ():
        if _failure(child, _unread) is not None:
            return _innermost(path + step, child, depth + 1)
    return path


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, msgspec.Struct):
        yield from ((f".{name}", getattr(value, name)) for name in value.__struct_fields__)
    elif isinstance(value, Mapping):
        yield from ((f"[{key!r}]", child) for key, child in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{index}]", child) for index, child in enumerate(value))


def _failure(value: Any, read: Callable[[bytes], Any]) -> Exception | None:
    try:
        read(_encode(value))
    except Exception as failure:  # noqa: BLE001 - whatever a value's own code raises: it cannot be saved
        return failure
    return None


def _unread(encoded: bytes) -> bytes:
    return encoded


def _nothing_for_parts(value: Any) -> None:
    """Parts are saved beside the state; any other class is not known to msgspec."""
    if not isinstance(value, Parts):
        raise NotImplementedError


_encode = msgspec.msgpack.Encoder(enc_hook=_nothing_for_parts).encode
