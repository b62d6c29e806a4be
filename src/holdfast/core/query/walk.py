"""Walks: the rooms in an order, a stretch at a time, as they stand in the columns.

Only rooms that are alike in a term need sorting, by the terms that follow. If they are few they are sorted. If they are
many, the column of the next term is walked, and all those on it that do not belong to them are passed over.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import NamedTuple, TypeVar

from holdfast.core.query.ast import Term
from holdfast.core.query.columns import Bucket, Column, Columns, Span, overlap
from holdfast.core.query.order import Order, Position, Rung
from holdfast.core.query.row import Row
from holdfast.core.query.values import MISSING, Key

T = TypeVar("T")

# Sorting so many takes about a millisecond.
SORTED_MAX = 1000

_by_id = itemgetter(1)


class Stretch(NamedTuple):
    """Rows in order. The walk stands at `keys` for the first terms; rows with other keys are to be passed over."""

    rows: Iterable[Row]
    keys: tuple[Key, ...] = ()

    def holds(self, row: Row, order: Order) -> bool:
        """Whether a row stands in this stretch."""
        return all(rung.key(row) == key for rung, key in zip(order.rungs, self.keys, strict=False))

    def position(self, row: Row, order: Order) -> Position:
        """Where the walk stands when it looks at a row."""
        own = order.position(row)
        return Position((*self.keys, *own.keys[len(self.keys) :]), own.birth)


class Walker:
    """Walks through an index. No stretch has more than `rows_max` rows: who walks looks at no more."""

    __slots__ = ("_columns", "_rows", "_rows_max", "_spans")

    def __init__(self, rows: Mapping[str, Row], columns: Columns, spans: Mapping[Term, Span], rows_max: int) -> None:
        self._rows = rows
        self._columns = columns
        self._spans = spans
        self._rows_max = rows_max

    def by_age(self, bucket: Bucket, window: Span, order: Order, after: Position | None) -> Iterable[Row]:
        """The rows of a part of a bucket, oldest or newest first, from behind a position on."""
        if after is not None and order.is_newest_first:
            window = overlap(window, (0, bisect_left(bucket, after.birth)))
        elif after is not None:
            window = overlap(window, (bisect_right(bucket, after.birth), len(bucket)))
        return self._rows_of(_ahead(bucket, window, self._rows_max, backwards=order.is_newest_first))

    def walk(self, order: Order, after: Position | None, keys: tuple[Key, ...] = ()) -> Iterator[Stretch]:
        """All rows in order, from behind a position on; `keys` are those of the terms that were walked before."""
        if not order.rungs:
            births = self._columns.births
            yield Stretch(self.by_age(births, (0, len(births)), order, after), keys)
            return
        rung = order.rungs[0]
        column = self._columns.get(rung.term)
        assert column is not None
        for key in self._keys(rung, column, after):
            yield from self._alike(column[key], order, _within(key, after), (*keys, key))
        if rung.term not in self._spans and column.scalars < len(self._columns.births):
            yield from self.walk(order.rest, _within(MISSING, after), (*keys, MISSING))

    def _keys(self, rung: Rung, column: Column, after: Position | None) -> list[Key]:
        """The keys of a column in order, from that of a position on."""
        span = overlap(column.in_order, self._spans.get(rung.term, column.in_order))
        if after is not None:
            mark = after.keys[0]
            if mark is MISSING:
                return []
            if rung.is_descending:
                span = overlap(span, (0, bisect_right(column.keys, mark)))
            else:
                span = overlap(span, (bisect_left(column.keys, mark), len(column.keys)))
        return _ahead(column.keys, span, self._rows_max, backwards=rung.is_descending)

    def _alike(self, bucket: Bucket, order: Order, after: Position | None, keys: tuple[Key, ...]) -> Iterator[Stretch]:
        """The rooms that have the last of these keys, by the rest of an order."""
        rest = order.rest
        if not rest.rungs:
            yield Stretch(self.by_age(bucket, (0, len(bucket)), rest, after), keys[:-1])
        elif len(bucket) <= SORTED_MAX:
            yield Stretch(rest.sorted(self._rows_of(bucket), after), keys[:-1])
        else:
            yield from self.walk(rest, after, keys)

    def _rows_of(self, births: Bucket) -> Iterable[Row]:
        return map(self._rows.__getitem__, map(_by_id, births))


def _within(key: Key, after: Position | None) -> Position | None:
    """What a position says about the rooms that have its first key; nothing about those with another."""
    return Position(after.keys[1:], after.birth) if after is not None and after.keys[0] == key else None


def _ahead(items: list[T], span: Span, count: int, *, backwards: bool) -> list[T]:
    """The first items of a span in one direction."""
    start, end = span
    return items[max(start, end - count) : end][::-1] if backwards else items[start : min(end, start + count)]
