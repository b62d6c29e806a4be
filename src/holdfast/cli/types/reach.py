"""Which named types a game's messages are made of, and which way each of them travels."""

from collections.abc import Iterator
from typing import Any, Literal, get_origin

from msgspec import NODEFAULT
from msgspec import inspect as mi

Direction = Literal["toServer", "toClient"]
Record = mi.StructType | mi.DataclassType | mi.TypedDictType | mi.NamedTupleType
Named = Record | mi.EnumType
RECORDS = (mi.StructType, mi.DataclassType, mi.TypedDictType, mi.NamedTupleType)


class Reach:
    """The named types that were found so far, each with the directions in which it is used."""

    def __init__(self) -> None:
        self.types: dict[Any, Named] = {}
        self._directions: dict[Any, set[Direction]] = {}

    def add(self, kind: mi.Type, direction: Direction) -> None:
        """A type travels this way, and with it all that it is made of."""
        if isinstance(kind, (*RECORDS, mi.EnumType)):
            directions = self._directions.setdefault(kind.cls, set())
            if direction in directions:
                return
            directions.add(direction)
            self.types[kind.cls] = kind
        for each in inner_types(kind):
            self.add(each, direction)

    def directions(self, cls: Any) -> list[Direction]:
        """Which ways a type travels."""
        return sorted(self._directions[cls])

    def is_split(self, cls: Any) -> bool:
        """Whether it travels both ways and does not look the same both ways."""
        return len(self._directions[cls]) > 1 and any(map(_depends_on_direction, self._made_of(self.types[cls])))

    def _made_of(self, kind: mi.Type) -> list[Named]:
        found: dict[Any, Named] = {}
        waiting: list[mi.Type] = [kind]
        while waiting:
            each = waiting.pop()
            if isinstance(each, (*RECORDS, mi.EnumType)):
                if each.cls in found:
                    continue
                found[each.cls] = each
            waiting.extend(inner_types(each))
        return list(found.values())


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


def may_be_missing(record: Record, field: mi.Field, direction: Direction) -> bool:
    """Whether a field can be left out: on the way to the server with a default, on the way back as its struct says."""
    if field.required:
        return False
    if direction == "toServer":
        return True
    if isinstance(record, mi.TypedDictType):
        return True
    is_unset = field.default is NODEFAULT and field.default_factory is NODEFAULT
    is_array = isinstance(record, mi.NamedTupleType) or getattr(record, "array_like", False)
    # Of a generic class with its arguments, the class without them knows.
    omits = getattr(getattr(get_origin(record.cls) or record.cls, "__struct_config__", None), "omit_defaults", False)
    return is_unset or (omits and not is_array)


def _depends_on_direction(kind: Named) -> bool:
    if isinstance(kind, mi.EnumType):
        return False
    return any(
        may_be_missing(kind, field, "toServer") != may_be_missing(kind, field, "toClient")
        or any(map(_has_two_forms, _own_parts(field.type)))
        for field in kind.fields
    )


def _own_parts(kind: mi.Type) -> Iterator[mi.Type]:
    """A field's type and what it is made of, without what has a name of its own."""
    yield kind
    if not isinstance(kind, RECORDS):
        for each in inner_types(kind):
            yield from _own_parts(each)


def _has_two_forms(kind: mi.Type) -> bool:
    # Text on the way to the server, a Date on the way back, unless it has no time zone.
    return isinstance(kind, mi.DateTimeType) and kind.tz is not False
