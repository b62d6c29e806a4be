"""The state of a room as it is saved: its type, checked at the start, and the field that cannot be saved."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

import msgspec
import msgspec.inspect

from holdfast.core.nesting import child_types
from holdfast.core.room import Room, context_of, player_data_type
from holdfast.state import Parts, secret_fields

# Values may contain themselves.
_DEPTH_MAX = 16
_AT = re.compile(r"at `\$([^`]+)`")

# Reading annotations is slow, and a start may restore many rooms of one type.
_saved_types: WeakKeyDictionary[type[Room[Any]], Any] = WeakKeyDictionary()


def parts_of(state: Any) -> dict[str, "Parts[Any]"]:
    """The fields of a state that are `Parts`."""
    fields = getattr(type(state), "__struct_fields__", ())
    return {name: value for name in fields if isinstance(value := getattr(state, name), Parts)}


# Types


def saved_type(room_type: type[Room[Any]]) -> Any:
    """The type of a room's snapshots: the return annotation of its own `snapshot`, else the annotation of `state`."""
    if room_type not in _saved_types:
        if room_type.snapshot is not Room.snapshot:
            _saved_types[room_type] = get_type_hints(room_type.snapshot).get("return", Any)
        else:
            _saved_types[room_type] = get_type_hints(room_type).get("state", Any)
    return _saved_types[room_type]


def state_reader(kind: Any) -> Callable[[bytes], Any]:
    """Decodes saved values of this type; raises for any other."""
    return msgspec.msgpack.Decoder(kind, dec_hook=empty_parts).decode


def empty_parts(kind: Any, _: Any) -> Any:
    """The `dec_hook` of a state: `Parts` are filled after decoding."""
    if (get_origin(kind) or kind) is not Parts:
        raise NotImplementedError(f"a {kind} cannot be saved")
    return Parts()


def parts_fields(state: type) -> dict[str, Any]:
    """The fields of a state that are `Parts`, and the type of their entries."""
    hints = get_type_hints(state).items()
    fields = {name: (get_args(hint) or (Any,))[0] for name, hint in hints if (get_origin(hint) or hint) is Parts}
    for name in fields:
        if not name.isascii():
            raise TypeError(f"the field name {name!r} becomes part of the store's keys: use ASCII letters")
    return fields


# At the start


def check_savable(room_type: type[Room[Any]]) -> None:
    """Raise `ValueError` for a durable room whose data could not be read after a crash."""
    for what, kind in (("state", saved_type(room_type)), ("players' data", player_data_type(room_type))):
        try:
            msgspec.msgpack.Decoder(kind, dec_hook=empty_parts)
            _check_plain(msgspec.inspect.type_info(kind), set(), may_have_parts=what == "state")
        except (TypeError, ValueError) as error:
            raise ValueError(f"{room_type.__name__} is durable, but its {what} cannot be restored: {error}") from None


def check_readable(kind: Any) -> None:
    """Raise `TypeError` for a type whose values msgspec cannot decode."""
    msgspec.msgpack.Decoder(kind)
    _check_plain(msgspec.inspect.type_info(kind), set(), may_have_parts=False)


def _check_plain(node: Any, seen: set[int], *, may_have_parts: bool) -> None:
    """Refuse custom classes, which msgspec cannot decode. `Parts` may be fields of a state."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, msgspec.inspect.CustomType):
        raise TypeError(f"a {node.cls.__name__} can only be saved with snapshot() and restore()")
    parts = parts_fields(node.cls) if may_have_parts and isinstance(node, msgspec.inspect.StructType) else {}
    for name, child in child_types(node):
        entry = msgspec.inspect.type_info(parts[name]) if name in parts else child
        _check_plain(entry, seen, may_have_parts=False)


# After a failed save


def unsavable_field(room: Room[Any]) -> str:
    """The first field that cannot be encoded or decoded, as the game would write it; empty if none is found."""
    for name, value in context_of(room).properties.items():
        if _failure(value) is not None:
            return f"properties[{name!r}]"
    read_data = state_reader(player_data_type(type(room)))
    read_options = state_reader(type(room).join_options)
    for player in context_of(room).seats.players:
        if field := _field(f"player({player.id!r}).data", player.data, read_data):
            return field
        if field := _field(f"player({player.id!r}).options", player.options, read_options):
            return field
    try:
        state = room.snapshot()
    except Exception:  # noqa: BLE001 - the game's own code; its error was already logged
        return "snapshot()"
    path = "state" if type(room).snapshot is Room.snapshot else "snapshot()"
    return _field(path, state, state_reader(saved_type(type(room))))


def _field(path: str, value: Any, read: Callable[[bytes], Any]) -> str:
    failure = _failure(value, read)
    if failure is None:
        return ""
    if at := _AT.search(str(failure)):
        # The value does not have its field's type: msgspec names the path.
        return path + at[1]
    return _innermost(path, value)


def _innermost(path: str, value: Any, depth: int = 0) -> str:
    """The innermost value that cannot be encoded; the whole one if each of its fields can be.

    It is for the log: what is in a private or hidden field is not named, not even the key of a dict.
    """
    secret = secret_fields(type(value)) if isinstance(value, msgspec.Struct) else frozenset()
    for step, child in _children(value) if depth < _DEPTH_MAX else ():
        if _failure(child) is not None:
            is_secret = step.removeprefix(".") in secret
            return path + step if is_secret else _innermost(path + step, child, depth + 1)
    return path


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, msgspec.Struct):
        yield from ((f".{name}", getattr(value, name)) for name in value.__struct_fields__)
    elif isinstance(value, Mapping):
        yield from ((f"[{key!r}]", child) for key, child in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{index}]", child) for index, child in enumerate(value))


def _failure(value: Any, read: Callable[[bytes], Any] = bytes) -> Exception | None:
    """What encoding a value raises, or reading it again."""
    try:
        read(_encode(value))
    except Exception as failure:  # noqa: BLE001 - whatever a value's own code raises
        return failure
    return None


def _nothing_for_parts(value: Any) -> None:
    """`Parts` are saved separately; msgspec supports no other class."""
    if not isinstance(value, Parts):
        raise NotImplementedError


_encode = msgspec.msgpack.Encoder(enc_hook=_nothing_for_parts).encode
