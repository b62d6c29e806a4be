"""The order of values and of rooms: by some terms, then by age. No two rooms have the same position.

A value's key begins with its type, so that values without an order are never compared.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from math import inf
from operator import attrgetter
from typing import Any, NamedTuple

from holdfast.schemas.room import RoomInfo
from holdfast.search.language import AGES, CREATED_AT, PROPERTIES, TERMS, Ordering, Term, Value

# Values

BOOLEAN, NUMBER, TEXT = range(3)
# Added to the rank of elements of lists: found by equality, and not part of any order.
ELEMENT = 3

Key = tuple[int, Any]
"""The rank of a value's type, and the value, truncated for cursors. Truncation never reverses an order: at most it
makes two keys equal."""
MISSING: Key = (2 * ELEMENT, None)
"""The key of values without an order: missing ones, lists, and anything that cannot be compared."""
# Below every key: in descending order, missing values come last.
_LOWEST: Key = (-1, None)

# Four such texts in any script still fit in a cursor.
KEY_CHARS_MAX = 32
# MessagePack's integers. Beyond them numbers are ordered by their nearest floats.
_INT_MAX = 2**63

RANKS: dict[type, int] = {bool: BOOLEAN, int: NUMBER, float: NUMBER, str: TEXT}
LISTS = (list, tuple)


def rank_of(value: object) -> int | None:
    """The rank of a value's type; None if it cannot be compared."""
    kind = type(value)
    if kind is float:
        return NUMBER if value == value else None  # noqa: PLR0124 - only NaN differs from itself
    rank = RANKS.get(kind)
    if rank is None and value is not None:  # it may be a StrEnum
        return next((rank for known, rank in RANKS.items() if isinstance(value, known)), None)
    return rank


def key_of(value: Any) -> Key:
    """The key of a value."""
    rank = rank_of(value)
    if rank == TEXT:
        return (TEXT, value[:KEY_CHARS_MAX])
    if rank is None:
        return MISSING
    if -_INT_MAX < value < _INT_MAX:
        return (rank, value)
    try:
        return (rank, float(value))
    except OverflowError:
        return (rank, inf if value > 0 else -inf)


def keys_of(value: Any) -> Collection[Key]:
    """The keys by which a value is found: its own, or those of its elements."""
    if value is None:
        return ()
    if isinstance(value, LISTS):
        keys = {key_of(element) for element in value}
        keys.discard(MISSING)
        return {(ELEMENT + rank, element) for rank, element in keys}
    key = key_of(value)
    return () if key is MISSING else (key,)


def is_whole(value: Value) -> bool:
    """Whether no other value has the same key."""
    return len(value) < KEY_CHARS_MAX if isinstance(value, str) else -_INT_MAX < value < _INT_MAX


# Rooms

Birth = tuple[float, str]
"""A room's creation time and id: its unique and constant position by age."""


def birth_of(row: RoomInfo) -> Birth:
    """The birth of a row's room."""
    return (row.created_at, row.id)


def reader(term: Term) -> Callable[[RoomInfo], Any]:
    """Reads a term of a row; None if it is missing."""
    if term.name == PROPERTIES:
        key = term.key
        return lambda row: row.properties.get(key)
    return attrgetter(term.name)


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
            mark = after.birth if after is not None else None
            for row in reversed(rows) if self.is_newest_first else rows:
                if mark is None or (birth_of(row) < mark if self.is_newest_first else birth_of(row) > mark):
                    yield row
            return
        rung, rest = self.rungs[0], self.rest
        ordered = sorted(rows, key=rung.sort_key, reverse=rung.is_descending)
        for key, alike in groupby(ordered, rung.key):
            if after is None or rung.is_behind(key, after.keys[0]):
                yield from rest.arranged(list(alike))
            elif (within := after.within(key)) not in (None, BEHIND_ALL):
                yield from rest.arranged(list(alike), within)
