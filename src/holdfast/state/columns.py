"""Many values that have changed in the same floats, as bodies do that move: compared and packed column by column.

Such a change is a part of a node like any other. In C, and for all values at once, it takes a fraction of the time.
"""

import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from math import isfinite
from operator import itemgetter, ne, not_
from typing import Any, NamedTuple

import msgspec

# MessagePack has the larger array, and the larger number, in two bytes.
_FIXARRAY_MAX = 15
_ARRAY16_MAX = 0xFFFF
_FIXINT_MAX = 0x7F
_NUMBER_MAX = 0xFFFF
_encode = msgspec.msgpack.Encoder().encode


class FloatField(NamedTuple):
    """A field of a Struct that is a float."""

    name: str
    code: str
    """Of `array`: f or d, for single or double precision."""


class FloatChanges:
    """A part of a node: keys that are numbers, and after each the node of its value, in which some floats are set."""

    __slots__ = ("_columns", "_fields", "_numbers", "_others")

    def __init__(
        self, fields: Sequence[FloatField], numbers: Sequence[int], columns: Sequence["array[float]"], others: list[Any]
    ) -> None:
        """A column of values for each field; `others` are numbers, and nodes in which something else has changed."""
        self._fields = fields
        self._numbers = numbers
        self._columns = columns
        self._others = others

    def plain(self) -> list[Any]:
        """As any other part of a node."""
        parts: list[Any] = []
        for number, values in zip(self._numbers, zip(*self._columns, strict=True), strict=True):
            sets: list[Any] = []
            for field, value in zip(self._fields, values, strict=True):
                sets += (field.name, value)
            parts += (number, [sets])
        return parts + self._others

    def __len__(self) -> int:
        return 2 * len(self._numbers) + len(self._others)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.plain())

    def __getitem__(self, index: Any) -> Any:
        return self.plain()[index]

    def packed(self, encode: Callable[[Any], bytes]) -> bytes:
        """As MessagePack; `encode` is for those in which something else has changed."""
        is_short = max(self._numbers) <= _FIXINT_MAX
        row = bytearray(b"\x00" if is_short else b"\xcd\x00\x00") + b"\x91" + array_head(2 * len(self._fields))
        places: list[int] = []
        for field in self._fields:
            row += _encode(field.name) + (b"\xca" if field.code == "f" else b"\xcb")
            places.append(len(row))
            row += bytes(4 if field.code == "f" else 8)
        stride, packed = len(row), row * len(self._numbers)
        if is_short:
            packed[::stride] = bytes(self._numbers)
        else:
            _interleave(packed, array("H", self._numbers), 1, stride)
        for place, column in zip(places, self._columns, strict=True):
            _interleave(packed, column, place, stride)
        return b"".join([array_head(len(self)), packed, *map(encode, self._others)])


def _interleave(packed: bytearray, column: "array[Any]", place: int, stride: int) -> None:
    """Write each value to its row, with the highest byte first."""
    if sys.byteorder == "little":
        column = column[:]
        column.byteswap()
    values, width = column.tobytes(), column.itemsize
    for byte in range(width):
        packed[place + byte :: stride] = values[byte::width]


def array_head(count: int) -> bytes:
    """How MessagePack begins an array of so many values."""
    if count <= _FIXARRAY_MAX:
        return bytes([0x90 | count])
    return b"\xdc" + count.to_bytes(2) if count <= _ARRAY16_MAX else b"\xdd" + count.to_bytes(4)


def float_changes(
    fields: Sequence[FloatField | None],
    change: Callable[[Any, Any], Any],
    numbers: Sequence[int],
    old: Sequence[Any],
    new: Sequence[Any],
) -> FloatChanges | None:
    """What leads from these rows to those, all of which differ; None if mostly something else than floats has changed.

    `fields` are those of a row, None for one that is no float; `change` compares two rows.
    """
    if max(numbers) > _NUMBER_MAX:
        return None
    moved: list[tuple[FloatField, tuple[Any, ...], list[bool]]] = []
    others: set[int] = set()
    count = len(new)
    for field, before, now in zip(fields, zip(*old, strict=True), zip(*new, strict=True), strict=True):
        if before == now:
            continue
        differs = list(map(ne, before, now))
        if field is not None and 2 * differs.count(True) > count:
            moved.append((field, now, differs))
        else:
            others.update(compress(range(count), differs))
    for _, _, differs in moved:
        if not all(differs):
            others.update(compress(range(count), map(not_, differs)))
    if not moved or 2 * len(others) > count:
        return None
    rest: list[Any] = []
    if others:
        for place in sorted(others):
            rest += (numbers[place], change(old[place], new[place]))
        pick = itemgetter(*[place for place in range(count) if place not in others])
        numbers = pick(numbers)
        moved = [(field, pick(values), differs) for field, values, differs in moved]
    columns: list[array[float]] = []
    for field, values, _ in moved:
        # Whole numbers are sent as such, and what is not finite is refused by its path: one by one.
        if set(map(type, values)) != {float} or not isfinite(sum(column := array(field.code, values))):
            return None
        columns.append(column)
    return FloatChanges([field for field, _, _ in moved], numbers, columns, rest)
