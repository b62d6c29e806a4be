"""Where the rooms that a search finds can only be, told from what must hold for every one of them.

A plan may give rooms that do not match, and lacks none that do.
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
    """What an expression tells about the places of its rooms."""

    __slots__ = ("_columns", "_now", "_parts", "_size_max", "buckets", "spans")

    def __init__(self, where: Expression, columns: Columns, now: float, size_max: int) -> None:
        self._columns = columns
        self._now = now
        self._size_max = size_max
        self._parts = where.parts if isinstance(where, And) else (where,)
        self.spans = self._spans()
        """The keys between which the rooms stand in the columns of some terms, if they stand there at all."""
        self.buckets = self._fewest()
        """The fewest rooms to look at; None if nothing tells, or they are more than would be counted."""

    def window(self, bucket: Bucket) -> Span:
        """The part of a bucket in which the rooms are of an age that can match."""
        found = 0, len(bucket)
        for part in self._parts:
            match part:
                case Comparison(term, _, value) if term.name in AGES and rank_of(value) == NUMBER:
                    found = overlap(found, span(bucket, *_born(part, self._now), _by_creation))
        return found

    def between(self, term: Term) -> list[Bucket] | None:
        """The rooms that the column of a term has between these keys; None if there are none, or too many to count."""
        column = self._columns.get(term)
        return None if column is None or term not in self.spans else column.between(self.spans[term], self._size_max)

    def _spans(self) -> dict[Term, Span]:
        spans: dict[Term, Span] = {}
        for part in self._parts:
            match part:
                case Comparison(term, how, value) if how is not Operator.NE:
                    column = self._columns.get(term)
                    # What is equal may also stand in a list, and those are not in order.
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
    """What a comparison of an age with a number says of `created_at`."""
    number: float = key_of(comparison.value)[1]
    if comparison.term.name == CREATED_AT:
        return comparison.operator, number
    return MIRRORED[comparison.operator], now - number
