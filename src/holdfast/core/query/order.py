"""The order of what is found: by some terms, then by age. No two rooms stand at the same place."""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import NamedTuple

from holdfast.core.query.ast import AGE_S, CREATED_AT, Ordering, Term
from holdfast.core.query.row import Row, reader
from holdfast.core.query.values import MISSING, Key, key_of

Birth = tuple[float, str]
"""When a room was created, and its id: its place by age, which never changes."""
by_creation = itemgetter(0)


class Position(NamedTuple):
    """A place in an order, whether or not a room stands there: a key for each term, and a birth."""

    keys: tuple[Key, ...]
    birth: Birth


class Rung(NamedTuple):
    """One term of an order: where a row stands by it."""

    term: Term
    is_descending: bool
    key: Callable[[Row], Key]


class Order:
    """Terms that decide in turn; rooms that are alike in all of them stand by age."""

    __slots__ = ("is_newest_first", "rungs")

    def __init__(self, rungs: tuple[Rung, ...], *, is_newest_first: bool = False) -> None:
        self.rungs = rungs
        self.is_newest_first = is_newest_first

    @classmethod
    def of(cls, orderings: Iterable[Ordering]) -> "Order":
        """The order that an `order_by` asks for; what can decide nothing any more is left out."""
        rungs: dict[Term, Rung] = {}
        for term, is_descending in ((each.term, each.is_descending) for each in orderings):
            if term.name in (CREATED_AT, AGE_S):
                return cls(tuple(rungs.values()), is_newest_first=is_descending == (term.name == CREATED_AT))
            rungs.setdefault(term, Rung(term, is_descending, _key_reader(term)))
        return cls(tuple(rungs.values()))

    @property
    def rest(self) -> "Order":
        """What decides between rooms that are alike in the first term."""
        return Order(self.rungs[1:], is_newest_first=self.is_newest_first)

    def keys(self, row: Row) -> tuple[Key, ...]:
        """A row's key for each term."""
        return tuple([rung.key(row) for rung in self.rungs])

    def position(self, row: Row) -> Position:
        """Where a row stands."""
        return Position(self.keys(row), birth_of(row))

    def sorted(self, rows: Iterable[Row], after: Position | None) -> list[Row]:
        """Rows in this order, from behind a position on."""
        ordered = sorted(rows, key=birth_of, reverse=self.is_newest_first)
        for rung in reversed(self.rungs):  # sorting is stable, so the last to sort decides first
            ordered.sort(key=_missing_last(rung), reverse=rung.is_descending)
        if after is None:
            return ordered
        return ordered[bisect_left(ordered, True, key=lambda row: self._is_behind(row, after)) :]

    def _is_behind(self, row: Row, position: Position) -> bool:
        for rung, mark in zip(self.rungs, position.keys, strict=True):
            key = rung.key(row)
            if key != mark:
                if MISSING in (key, mark):
                    return key is MISSING
                return (key < mark) == rung.is_descending
        birth = birth_of(row)
        return birth != position.birth and (birth < position.birth) == self.is_newest_first


def birth_of(row: Row) -> Birth:
    """A row's place by age."""
    return (row.created_at, row.id)


def _key_reader(term: Term) -> Callable[[Row], Key]:
    read = reader(term)
    return lambda row: key_of(read(row))


# Below every key: where it is last if the order descends.
_LOWEST: Key = (-1, None)


def _missing_last(rung: Rung) -> Callable[[Row], Key]:
    if not rung.is_descending:
        return rung.key

    def key(row: Row) -> Key:
        found = rung.key(row)
        return _LOWEST if found is MISSING else found

    return key
