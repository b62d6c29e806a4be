"""Where the matches of a search can be, and how the rooms of an index are walked in an order.

A plan may yield rooms that do not match, but never misses one that does. A walk goes piece by piece, using the columns.
A column has its rooms by one term and then by age. Only with further terms is there something to sort: rooms that are
equal so far. Small piles of them are sorted. For a large one the column of the next term is walked instead, and its
rooms that are not of the pile are skipped.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, TypeVar

from holdfast.schemas.room import RoomInfo
from holdfast.search.columns import Bucket, Column, Columns, RowPlace, Span, by_birth, overlap, size_of, span
from holdfast.search.language import (
    AGES,
    CREATED_AT,
    MIRRORED,
    And,
    Comparison,
    Expression,
    Membership,
    Operator,
    Or,
    Term,
    Value,
)
from holdfast.search.order import BEHIND_ALL, MISSING, Key, Order, Rung, SortPosition, key_of

T = TypeVar("T")

# Rooms sorted at a time. With fewer, time is lost between the piles; with more, the first results wait for the rest.
PILE_MIN, PILE_MAX = 100, 2000

_row = attrgetter("row")
_by_creation = attrgetter("row.created_at")


class Plan:
    """Where the matches of an expression can be."""

    __slots__ = ("_columns", "_now", "_parts", "_size_max", "buckets", "spans")

    def __init__(self, where: Expression, columns: Columns, now: float, size_max: int) -> None:
        self._columns = columns
        self._now = now
        self._size_max = size_max
        self._parts = where.parts if isinstance(where, And) else (where,)
        self.spans = self._spans()
        """For some terms, the range of keys in their column in which all matches are, if they are in the column."""
        self.buckets = self._fewest()
        """The smallest set of candidates; None if there is none, or it is too large to count."""

    def window(self, bucket: Bucket) -> Span:
        """The part of a bucket with rooms of a matching age."""
        found = 0, len(bucket)
        for part in self._parts:
            match part:
                case Comparison(term) if term.name in AGES:
                    found = overlap(found, span(bucket, *_born(part, self._now), _by_creation))
        return found

    def between(self, term: Term) -> list[Bucket] | None:
        """The rooms in a term's column within its range; None if there is no range, or too many to count."""
        column = self._columns.get(term)
        return None if column is None or term not in self.spans else column.between(self.spans[term], self._size_max)

    def _spans(self) -> dict[Term, Span]:
        spans: dict[Term, Span] = {}
        for part in self._parts:
            match part:
                case Comparison(term, how, value) if how is not Operator.NE:
                    column = self._columns.get(term)
                    # Equal values may also be in a list, and those have no order.
                    if column is not None and not (how is Operator.EQ and column.elements):
                        keys = column.span(how, value)
                        spans[term] = overlap(spans.get(term, keys), keys)
        return spans

    def _fewest(self) -> list[Bucket] | None:
        options = [self._having(part) for part in self._parts]
        options += map(self.between, self.spans)
        everyone = self._columns.everyone
        start, end = self.window(everyone)
        if end - start < len(everyone) and end - start <= self._size_max:
            options.append([everyone[start:end]])
        return min((option for option in options if option is not None), key=size_of, default=None)

    def _having(self, part: Expression) -> list[Bucket] | None:
        match part:
            case Comparison(term, Operator.EQ, value):
                return self._equal(term, (value,))
            case Membership(term, values):
                return self._equal(term, values)
            case Or(parts):
                united: list[Bucket] = []
                for each in parts:
                    buckets = Plan(each, self._columns, self._now, self._size_max).buckets
                    if buckets is None:
                        return None
                    united += buckets
                return united
            case _:
                return None

    def _equal(self, term: Term, values: tuple[Value, ...]) -> list[Bucket] | None:
        column = self._columns.get(term)
        if column is None:
            return None
        different = {key_of(value): value for value in values}.values()
        return [bucket for value in different for bucket in column.having(value)]


def _born(comparison: Comparison, now: float) -> tuple[Operator, float]:
    """A comparison of an age as a comparison of `created_at`."""
    number: float = key_of(comparison.value)[1]
    if comparison.term.name == CREATED_AT:
        return comparison.operator, number
    return MIRRORED[comparison.operator], now - number


class Stretch(NamedTuple):
    """Rows in order. Rows without these keys for the first terms of the order are skipped."""

    rows: Iterable[RoomInfo]
    keys: tuple[Key, ...] = ()


class Pile(NamedTuple):
    """A number of rows, oldest first, that are still to be sorted. `end` is the position after them all."""

    rows: Iterable[RoomInfo]
    size: int
    order: Order
    after: SortPosition | None
    keys: tuple[Key, ...] = ()
    """As of a stretch: the order is that of the terms that follow."""
    end: SortPosition = BEHIND_ALL


Piece = Stretch | Pile


class Walker:
    """Walks through an index, checking at most `rows_max` rows."""

    __slots__ = ("_columns", "_pile_max", "_rows_max", "_spans")

    def __init__(self, columns: Columns, spans: Mapping[Term, Span], rows_max: int) -> None:
        self._columns = columns
        self._spans = spans
        self._rows_max = rows_max
        self._pile_max = min(PILE_MAX, rows_max)

    def by_age(self, bucket: Bucket, window: Span, order: Order, after: SortPosition | None) -> Bucket:
        """The rooms of a part of a bucket, oldest or newest first, from behind a position on."""
        if after is not None and after.birth is not None:
            start = bisect_right(bucket, after.birth, key=by_birth)
            end = bisect_left(bucket, after.birth, key=by_birth)
            window = overlap(window, (0, end) if order.is_newest_first else (start, len(bucket)))
        # One more than can be checked shows that there are more.
        return _ahead(bucket, window, self._rows_max + 1, backwards=order.is_newest_first)

    def walk(self, order: Order, after: SortPosition | None, keys: tuple[Key, ...] = ()) -> Iterator[Piece]:
        """All rooms in order, from behind a position on; `keys` are those of the terms that were walked before."""
        if not order.rungs:
            everyone = self._columns.everyone
            yield Stretch(rows_of(self.by_age(everyone, (0, len(everyone)), order, after)), keys)
            return
        rung = order.rungs[0]
        column = self._columns.get(rung.term)
        assert column is not None
        if len(order.rungs) == 1:
            yield self._stretch(column, order, after, keys)
        else:
            yield from self._piles(column, order, after, keys)
        if rung.term not in self._spans and column.scalars < len(self._columns.everyone):
            within = _within(after, MISSING)
            if within != BEHIND_ALL:
                yield from self.walk(order.rest, within, (*keys, MISSING))

    def _stretch(self, column: Column, order: Order, after: SortPosition | None, keys: tuple[Key, ...]) -> Stretch:
        """The rooms of a column in its own order."""
        found = self._keys(order.rungs[0], column, after)
        within = _within(after, found[0]) if found else None
        first: Bucket = []
        if within is not None:
            bucket = column[found.pop(0)]
            first = self.by_age(bucket, (0, len(bucket)), order, within)
        buckets = map(column.__getitem__, found)
        places = chain.from_iterable(map(reversed, buckets) if order.is_newest_first else buckets)
        return Stretch(rows_of(chain(first, places)), keys)

    def _piles(
        self, column: Column, order: Order, after: SortPosition | None, keys: tuple[Key, ...]
    ) -> Iterator[Piece]:
        """The rooms of a column in its order, where more terms follow."""
        for batch in self._batches(column, self._keys(order.rungs[0], column, after)):
            buckets = [column[key] for key in batch]
            size = size_of(buckets)
            if size <= self._pile_max:
                end = SortPosition((*keys, batch[-1]), None)
                yield Pile(rows_of(chain.from_iterable(buckets)), size, order, after, keys, end)
            else:
                yield from self.walk(order.rest, _within(after, batch[0]), (*keys, batch[0]))

    def _batches(self, column: Column, keys: list[Key]) -> Iterator[list[Key]]:
        """Consecutive keys with few rooms together, or one key with many."""
        batch: list[Key] = []
        size = 0
        for key in keys:
            size += len(column[key])
            if batch and size > min(PILE_MIN, self._pile_max):
                yield batch
                batch, size = [], len(column[key])
            batch.append(key)
        if batch:
            yield batch

    def _keys(self, rung: Rung, column: Column, after: SortPosition | None) -> list[Key]:
        """The keys of a column in order, from that of a position on, or from behind it if that is behind its rooms."""
        keys = overlap(column.in_order, self._spans.get(rung.term, column.in_order))
        if after is not None:
            mark = after.keys[0]
            if mark is MISSING:
                return []
            start, end = bisect_left(column.keys, mark), bisect_right(column.keys, mark)
            if after.within(mark) == BEHIND_ALL:
                start, end = end, start
            keys = overlap(keys, (0, end) if rung.is_descending else (start, len(column.keys)))
        # The first may have no room after the position; each of the others has one to check.
        return _ahead(column.keys, keys, self._rows_max + 2, backwards=rung.is_descending)


def _ahead(items: list[T], span: Span, count: int, *, backwards: bool) -> list[T]:
    """The first items of a range, in one direction."""
    start, end = span
    return items[max(start, end - count) : end][::-1] if backwards else items[start : min(end, start + count)]


def rows_of(places: Iterable[RowPlace]) -> Iterable[RoomInfo]:
    """The rows of these rooms."""
    return map(_row, places)


def _within(after: SortPosition | None, key: Key) -> SortPosition | None:
    return None if after is None else after.within(key)
