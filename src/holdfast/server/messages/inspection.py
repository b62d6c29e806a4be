"""Which messages a kind of room receives and sends, and the types that they are made of.

A room receives the messages that its `@on` handlers take. It sends the messages in its `sends`; without that, every
message of the project that no handler of any room takes.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from msgspec import UnsetType
from msgspec import inspect as mi

from holdfast.core.messages import RESERVED, Message
from holdfast.core.room import Room, room_handlers

_OURS = "holdfast"
# Folders of other people's code, which may be inside a game's folder.
_LIBRARIES = frozenset({"site-packages", "dist-packages"})

Direction = Literal["toServer", "toClient"]
Record = mi.StructType | mi.DataclassType | mi.TypedDictType | mi.NamedTupleType
Named = Record | mi.EnumType
RECORDS = (mi.StructType, mi.DataclassType, mi.TypedDictType, mi.NamedTupleType)


# Messages


@dataclass(frozen=True, slots=True)
class RoomMessages:
    """The messages of one kind of room, each direction ordered by wire name."""

    to_server: tuple[type[Message], ...]
    to_client: tuple[type[Message], ...]


def messages_of(room_type: type[Room[Any]]) -> RoomMessages:
    """The messages that the room receives and those that it may send."""
    taken = {handler.message_type for handler in room_handlers(room_type).values()}
    sent = set(_not_handled(room_type, taken) if room_type.sends is None else room_type.sends)
    return RoomMessages(_in_order(taken), _in_order(sent))


def project_modules(room_type: type[Room[Any]]) -> list[ModuleType]:
    """The room's module and all modules of its project that it imports, directly or not."""
    first = sys.modules.get(room_type.__module__)
    if first is None:
        return []
    folder = _folder(first)
    found = [first]
    for module in found:
        for value in list(vars(module).values()):
            other = sys.modules.get(value.__module__) if isinstance(value, type | FunctionType) else value
            if isinstance(other, ModuleType) and other not in found and _is_within(other, folder):
                found.append(other)
    return found


def _not_handled(room_type: type[Room[Any]], taken: set[type[Message]]) -> Iterator[type[Message]]:
    named = [
        (name, value)
        for module in project_modules(room_type)
        for name, value in vars(module).items()
        if isinstance(value, type)
    ]
    handled = {
        handler.message_type
        for _, value in named
        if issubclass(value, Room)
        for handler in room_handlers(value).values()
    }
    for name, value in named:
        # Of Holdfast's own messages only those of a game in the same module, such as the demo's.
        is_of_the_game = value.__module__ == room_type.__module__ or _outermost(value.__module__) != _OURS
        if issubclass(value, Message) and is_of_the_game and not name.startswith("_") and value not in handled | taken:
            yield value


def _in_order(messages: set[type[Message]]) -> tuple[type[Message], ...]:
    shown = (each for each in messages if not each.wire_name.startswith(RESERVED))
    return tuple(sorted(shown, key=lambda each: (each.wire_name, each.__module__, each.__qualname__)))


def _folder(module: ModuleType) -> Path | None:
    """The project's folder: that of the outermost package or of the file; None if the module is all there is."""
    outermost = _outermost(module.__name__)
    paths = list(getattr(sys.modules.get(outermost), "__path__", ()))
    if outermost == _OURS:
        return None
    if paths:
        return Path(paths[0])
    file = getattr(module, "__file__", None)
    return None if file is None else Path(file).resolve().parent


def _is_within(module: ModuleType, folder: Path | None) -> bool:
    file = getattr(module, "__file__", None)
    if folder is None or file is None or _outermost(module.__name__) == _OURS:
        return False
    path = Path(file).resolve()
    return path.is_relative_to(folder) and _LIBRARIES.isdisjoint(path.relative_to(folder).parts)


def _outermost(module_name: str) -> str:
    return module_name.partition(".")[0]


# Types


def inner_types(kind: mi.Type) -> Iterator[mi.Type]:
    """The types that a type directly consists of: of its fields, its items, its keys."""
    if isinstance(kind, RECORDS):
        for field in kind.fields:
            yield field.type
        return
    for name in kind.__struct_fields__:
        value = getattr(kind, name)
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, mi.Type):
                yield each


def named_types(kinds: Iterable[mi.Type]) -> dict[Any, Named]:
    """The named types among these types and all their parts, by class."""
    found: dict[Any, Named] = {}
    waiting = list(kinds)
    while waiting:
        each = waiting.pop()
        if isinstance(each, (*RECORDS, mi.EnumType)):
            if each.cls in found:
                continue
            found[each.cls] = each
        waiting.extend(inner_types(each))
    return found


def may_be_missing(record: Record, field: mi.Field, direction: Direction) -> bool:
    """Whether a field is optional: to the server if it has a default, to the client if the struct can omit it."""
    if direction == "toServer" or isinstance(record, mi.TypedDictType):
        return not field.required
    # For a generic class with arguments, look at the class without them.
    cls = get_origin(record.cls) or record.cls
    # msgspec tells whether a field is UNSET by default, but not whether it can be.
    if UnsetType in get_args(get_type_hints(cls).get(field.name)):
        return True
    omits = getattr(getattr(cls, "__struct_config__", None), "omit_defaults", False)
    return omits and not field.required and not is_array(record)


def is_array(record: Record) -> bool:
    """Whether it is encoded as an array, without field names."""
    return isinstance(record, mi.NamedTupleType) or getattr(record, "array_like", False)


def without_metadata(kind: mi.Type) -> mi.Type:
    """The type without a title, a description or examples."""
    while isinstance(kind, mi.Metadata):
        kind = kind.type
    return kind


def file_name(cls: Any) -> str:
    """The name of the file that defines a class."""
    # Not the module's name: a module that is run, or loaded beside another of its name, has a different one.
    module: str = (get_origin(cls) or cls).__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file).stem if file else module
