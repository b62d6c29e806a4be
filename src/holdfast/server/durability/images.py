"""A room as the store has it, read and checked: whatever is wrong with it is found here, before anything happens."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

import msgspec
import msgspec.inspect
from msgspec import Raw, Struct

from holdfast.core.messages import PlayerData
from holdfast.core.parts import Parts, parts_of
from holdfast.core.records import Unreadable, decode_room, owners_of, parts_sum, seats_of, timers_of
from holdfast.core.room import Room
from holdfast.schemas.player import SeatRecord
from holdfast.schemas.room import RoomRecord, TimerRecord
from holdfast.stores.port import Entry

T = TypeVar("T")


class RoomImage(Struct):
    """Everything that is needed to go on."""

    room_type: type[Room[Any]]
    record: RoomRecord
    seats: list[SeatRecord]
    data: list[PlayerData]
    """Of each seat."""
    owners: dict[str, int]
    """By the numbers of their seats."""
    timers: list[TimerRecord]
    state: Any
    properties: dict[str, Any]


def read_image(entries: list[Entry], type_of: Callable[[str], type[Room[Any]] | None]) -> RoomImage:
    """A room from its record and what lies beside it, or `Unreadable`."""
    record = decode_room(entries[0].value)
    room_type = type_of(record.kind)
    if room_type is None:
        raise Unreadable(f"it is of kind {record.kind!r}, which this server does not have")
    if room_type.durability == "memory":
        raise Unreadable(f'{room_type.__name__}.durability is "memory" now')
    beside = {entry.key: entry.value for entry in entries[1:]}
    if parts_sum(beside) != record.parts:
        raise Unreadable("what lies beside its record does not belong to it: parts are missing or damaged")
    key = entries[0].key
    seats = seats_of(record, key, beside)
    return RoomImage(
        room_type=room_type,
        record=record,
        seats=seats,
        data=[_read(seat.data, room_type.data_type, "a player's data") for seat in seats],
        owners=owners_of(record, key, beside),
        timers=timers_of(record, key, beside),
        state=_read_state(room_type, key, record, beside),
        properties=_read(record.properties, dict[str, Any], "its properties"),
    )


def _read_state(room_type: type[Room[Any]], key: str, record: RoomRecord, beside: dict[str, bytes]) -> Any:
    stored = Raw(beside[f"{key}/state"]) if record.has_state_beside else record.state
    state = _read(stored, saved_type(room_type), "its state")
    for field, parts in parts_of(state).items():
        value_type = parts_fields(type(state))[field]
        entries: dict[str, Any] = {}
        for each, value in beside.items():
            if each.startswith(f"{key}/{field}/"):
                name, encoded = _read(Raw(value), tuple[str, Raw], f"part {each}")
                entries[name] = _read(encoded, value_type, f"part {name!r} of {field}")
        parts.fill(entries)
    return state


def state_reader(kind: Any) -> Callable[[bytes], Any]:
    """Reads what was saved of this type; raises if it is of another."""
    return msgspec.msgpack.Decoder(kind, dec_hook=_empty_parts).decode


def _read(stored: Raw, kind: Any, what: str) -> Any:
    try:
        return msgspec.msgpack.decode(stored, type=kind, dec_hook=_empty_parts)
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise Unreadable(f"{what}: {error}") from None


def _empty_parts(kind: Any, _: Any) -> Any:
    if (get_origin(kind) or kind) is not Parts:
        raise NotImplementedError(f"a {kind} cannot be saved")
    return Parts()


def saved_type(room_type: type[Room[Any]]) -> Any:
    """Of which type snapshots are: what `snapshot` is annotated with, if it is the game's own, else `state`."""
    if room_type not in _saved_types:
        if room_type.snapshot is not Room.snapshot:
            _saved_types[room_type] = get_type_hints(room_type.snapshot).get("return", Any)
        else:
            _saved_types[room_type] = get_type_hints(room_type).get("state", Any)
    return _saved_types[room_type]


# Reading annotations is slow, and a start may bring back many rooms of one type.
_saved_types: WeakKeyDictionary[type[Room[Any]], Any] = WeakKeyDictionary()


def check_savable(room_type: type[Room[Any]]) -> None:
    """A durable room whose data could not be read again is an error at the start, not after the crash."""
    for what, kind in (("state", saved_type(room_type)), ("players' data", room_type.data_type)):
        try:
            msgspec.msgpack.Decoder(kind, dec_hook=_empty_parts)
            _check_plain(msgspec.inspect.type_info(kind), set(), may_have_parts=what == "state")
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{room_type.__name__} is durable, but its {what} could not be read again: {error}"
            ) from None


def _check_plain(node: Any, seen: set[int], *, may_have_parts: bool) -> None:
    """Refuse a class that msgspec takes on trust: it has no way to read it again. `Parts` may be fields of a state."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, msgspec.inspect.CustomType):
        raise TypeError(f"a {node.cls.__name__} can only be saved with snapshot() and restore()")
    parts = parts_fields(node.cls) if may_have_parts and isinstance(node, msgspec.inspect.StructType) else {}
    for name, child in _children(node):
        entry = msgspec.inspect.type_info(parts[name]) if name in parts else child
        _check_plain(entry, seen, may_have_parts=False)


def parts_fields(state: type) -> dict[str, Any]:
    """The fields of a state that are `Parts`, and of which type their entries are."""
    hints = get_type_hints(state).items()
    fields = {name: (get_args(hint) or (Any,))[0] for name, hint in hints if (get_origin(hint) or hint) is Parts}
    for name in fields:
        if not name.isascii():
            raise TypeError(f"the name of {name!r} becomes part of the store's keys: use ASCII letters")
    return fields


def _children(node: Any) -> Iterator[tuple[str, Any]]:
    for name in node.__struct_fields__:
        value = getattr(node, name)
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, msgspec.inspect.Field):
                yield each.name, each.type
            elif isinstance(each, msgspec.inspect.Type):
                yield "", each
