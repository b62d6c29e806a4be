"""What the types of messages are made of, and which of their parts may be missing."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from msgspec import UnsetType
from msgspec import inspect as mi

Direction = Literal["toServer", "toClient"]
Record = mi.StructType | mi.DataclassType | mi.TypedDictType | mi.NamedTupleType
Named = Record | mi.EnumType
RECORDS = (mi.StructType, mi.DataclassType, mi.TypedDictType, mi.NamedTupleType)


def inner_types(kind: mi.Type) -> Iterator[mi.Type]:
    """What a type is directly made of: the types of its fields, its items, its keys."""
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
    """The types among these, and among all that they are made of, that have a name; by their classes."""
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
    """Whether a field can be left out: on the way to the server with a default, on the way back as its struct says."""
    if direction == "toServer" or isinstance(record, mi.TypedDictType):
        return not field.required
    # Of a generic class with its arguments, the class without them knows.
    cls = get_origin(record.cls) or record.cls
    # msgspec does not tell whether a field can be UNSET, only whether it is by default.
    if UnsetType in get_args(get_type_hints(cls).get(field.name)):
        return True
    omits = getattr(getattr(cls, "__struct_config__", None), "omit_defaults", False)
    return omits and not field.required and not is_array(record)


def is_array(record: Record) -> bool:
    """Whether its fields go by their places, and not by their names."""
    return isinstance(record, mi.NamedTupleType) or getattr(record, "array_like", False)


def without_words(kind: mi.Type) -> mi.Type:
    """The type itself, without a title, a description or examples."""
    while isinstance(kind, mi.Metadata):
        kind = kind.type
    return kind


def file_name(cls: Any) -> str:
    """The name of the file that a class is from."""
    # Not that of its module: one that is run, or loaded beside another of its name, is called something else.
    module: str = (get_origin(cls) or cls).__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file).stem if file else module
