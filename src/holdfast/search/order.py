"""The order of results: by some terms, then by age. No two rooms have the same position."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from holdfast.schemas.room import RoomInfo
from holdfast.search.ast import AGES, CREATED_AT, PROPERTIES, TERMS, Ordering, Term
from holdfast.search.row import Birth, birth_of, reader
from holdfast.search.values import MISSING, Key, key_of

# Below every key: in descending order, missing values come last.
_LOWEST: Key = (-1, None)


class SortPosition(NamedTuple):
    """A place in an order, whether or not a room stands there: a key for each term, and a birth.

    Without a birth it is after all rooms with these first keys.
    """

    keys: tuple[Key, ...]
    birth: Birth | None

    def within(self, key: Key) -> "SortPosition | None":
        """What it says of rooms that have its first key; nothing of those that have another."""
        return SortPosition(self.keys[1:], self.birth) if self.keys[0] == key else None


BEHIND_ALL = SortPosition((), None)


class Rung(NamedTuple):
    """One term of an order."""

    term: Term
    is_descending: bool
    key: Callable[[RoomInfo], Key]
    """The key of a row for this term."""
    sort_key: Callable[[RoomInfo], Any]
    """The same for sorting: missing values come last, and a number that is never missing is its own key."""

    @classmethod
    def of(cls, ordering: Ordering) -> "Rung":
        read = reader(ordering.term)

        def key(row: RoomInfo) -> Key:
            return key_of(read(row))

        def missing_last(row: RoomInfo) -> Key:
            found = key_of(read(row))
            return _LOWEST if found is MISSING else found

        sort_key: Callable[[RoomInfo], Any] = missing_last if ordering.is_descending else key
        if ordering.term.name != PROPERTIES and TERMS[ordering.term.name] is not str:
            sort_key = read
        return cls(ordering.term, ordering.is_descending, key, sort_key)

    def is_behind(self, key: Key, mark: Key) -> bool:
        """Whether a key comes after another."""
        if MISSING in (key, mark):
            return key is MISSING and mark is not MISSING
        return key < mark if self.is_descending else key > mark


class Order:
    """Terms that decide in turn; rooms that are equal in all of them are sorted by age."""

    __slots__ = ("is_newest_first", "rungs")

    def __init__(self, rungs: tuple[Rung, ...], *, is_newest_first: bool = False) -> None:
        self.rungs = rungs
        self.is_newest_first = is_newest_first

    @classmethod
    def of(cls, orderings: Iterable[Ordering]) -> "Order":
        """The order of an `order_by`, without terms that have no effect."""
        rungs: dict[Term, Rung] = {}
        is_newest_first = False
        for ordering in orderings:
            if ordering.term.name in AGES:
                is_newest_first = ordering.is_descending == (ordering.term.name == CREATED_AT)
                break
            rungs.setdefault(ordering.term, Rung.of(ordering))
        return cls(tuple(rungs.values()), is_newest_first=is_newest_first)

    @property
    def rest(self) -> "Order":
        """The order among rooms that are equal in the first term."""
        return Order(self.rungs[1:], is_newest_first=self.is_newest_first)

    def position(self, row: RoomInfo) -> SortPosition:
        """Where a row stands."""
        return SortPosition(tuple([rung.key(row) for rung in self.rungs]), birth_of(row))

    def arranged(self, rows: Sequence[RoomInfo], after: SortPosition | None = None) -> Iterator[RoomInfo]:
        """Rows that come oldest first, in this order and from behind a position on; sorted as far as they are taken."""
        if not self.rungs:
            yield from self._by_age(rows, after)
            return
        rung, rest = self.rungs[0], self.rest
        ordered = sorted(rows, key=rung.sort_key, reverse=rung.is_descending)
        for key, alike in groupby(ordered, rung.key):
            if after is None or rung.is_behind(key, after.keys[0]):
                yield from rest.arranged(list(alike))
            elif (within := after.within(key)) not in (None, BEHIND_ALL):
                yield from rest.arranged(list(alike), within)

    def _by_age(self, rows: Sequence[RoomInfo], after: SortPosition | None) -> Iterable[RoomInfo]:
        if self.is_newest_first:
            rows = rows[::-1]
        if after is None or after.birth is None:
            return rows
        mark = after.birth
        if self.is_newest_first:
            return (row for row in rows if birth_of(row) < mark)
        return (row for row in rows if birth_of(row) > mark)
