"""Query planning: narrows down where matches can be, from conditions that all of them must meet.

A plan may yield rooms that do not match, but never misses one that does.
"""

from operator import attrgetter

from holdfast.search.ast import (
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
from holdfast.search.columns import Bucket, Columns, Span, overlap, size_of, span
from holdfast.search.values import NUMBER, key_of, rank_of

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
                case Comparison(term, _, value) if term.name in AGES and rank_of(value) == NUMBER:
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
                return _united([Plan(each, self._columns, self._now, self._size_max).buckets for each in parts])
            case _:
                return None

    def _equal(self, term: Term, values: tuple[Value, ...]) -> list[Bucket] | None:
        column = self._columns.get(term)
        if column is None:
            return None
        different = {key_of(value): value for value in values}.values()
        return [bucket for value in different for bucket in column.having(value)]


def _united(options: list[list[Bucket] | None]) -> list[Bucket] | None:
    united: list[Bucket] = []
    for option in options:
        if option is None:
            return None
        united += option
    return united


def _born(comparison: Comparison, now: float) -> tuple[Operator, float]:
    """A comparison of an age as a comparison of `created_at`."""
    number: float = key_of(comparison.value)[1]
    if comparison.term.name == CREATED_AT:
        return comparison.operator, number
    return MIRRORED[comparison.operator], now - number
