"""Which named types a game's messages are made of, and which way each of them travels."""

from collections.abc import Iterator
from typing import Any

from msgspec import inspect as mi

from holdfast.server.messages.parts import RECORDS, Direction, Named, inner_types, may_be_missing, named_types


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
        return len(self._directions[cls]) > 1 and any(
            map(_depends_on_direction, named_types([self.types[cls]]).values())
        )


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
