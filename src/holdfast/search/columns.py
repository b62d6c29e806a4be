"""Sorted columns: the values of each term in order, and for each value the rooms that have it."""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import Any

from msgspec import Struct

from holdfast.schemas.room import RoomInfo
from holdfast.search.language import AGES, PROPERTIES, TERMS, Operator, Term, Value
from holdfast.search.order import ELEMENT, Birth, Key, is_whole, key_of, keys_of


class RowPlace(Struct, eq=False, gc=False):
    """A room in the columns of an index: its birth, and its row of the moment."""

    birth: Birth
    row: RoomInfo


Bucket = list[RowPlace]
"""Rooms, oldest first. A plain list: to move the tail of a hundred thousand still takes microseconds."""
Span = tuple[int, int]
"""A half-open range of indices in a sorted list."""

_INDEXED = tuple(name for name in TERMS if name not in AGES)
_read = attrgetter(*_INDEXED)
_NONE = (None,) * len(_INDEXED)
_by_rank = itemgetter(0)
by_birth = attrgetter("birth")
# A truncated value may be on either side of its key.
_CAUTIOUS = {Operator.LT: Operator.LE, Operator.GT: Operator.GE}


def span(items: Sequence[Any], how: Operator, value: Any, key: Callable[[Any], Any] | None = None) -> Span:
    """The range of items for which a comparison with a value is true; `<>` excludes nothing."""
    start, end = 0, len(items)
    if how in (Operator.EQ, Operator.GE):
        start = bisect_left(items, value, key=key)
    elif how is Operator.GT:
        start = bisect_right(items, value, key=key)
    if how in (Operator.EQ, Operator.LE):
        end = bisect_right(items, value, key=key)
    elif how is Operator.LT:
        end = bisect_left(items, value, key=key)
    return start, end


def overlap(one: Span, other: Span) -> Span:
    """The intersection of two ranges."""
    start = max(one[0], other[0])
    return start, max(start, min(one[1], other[1]))


def size_of(buckets: list[Bucket]) -> int:
    """The number of these rooms, including duplicates."""
    return sum(map(len, buckets))


class Column:
    """One term. Elements of lists have separate keys, after those that have an order."""

    __slots__ = ("_buckets", "elements", "keys", "scalars")

    def __init__(self) -> None:
        self._buckets: dict[Key, Bucket] = {}
        self.keys: list[Key] = []
        self.scalars = 0
        """Rooms that have a place in the order of this term."""
        self.elements = 0
        """The number of keys for elements of lists."""

    def __getitem__(self, key: Key) -> Bucket:
        return self._buckets[key]

    def having(self, value: Value) -> list[Bucket]:
        """The rooms that have a value, directly or in a list."""
        rank, cut = key_of(value)
        return [self._buckets[key] for key in ((rank, cut), (ELEMENT + rank, cut)) if key in self._buckets]

    def span(self, how: Operator, value: Value) -> Span:
        """The keys that can have this relation to a value, except in lists."""
        key = key_of(value)
        if not is_whole(value):
            how = _CAUTIOUS.get(how, how)
        return overlap(span(self.keys, Operator.EQ, key[0], _by_rank), span(self.keys, how, key))

    def of_types(self, ranks: Iterable[int]) -> Iterator[RowPlace]:
        """The rooms whose value, or an element of it, has one of these types; some may come twice."""
        for rank in ranks:
            for kind in (rank, ELEMENT + rank):
                for place in range(*span(self.keys, Operator.EQ, kind, _by_rank)):
                    yield from self._buckets[self.keys[place]]

    @property
    def in_order(self) -> Span:
        """All keys except those of elements."""
        return 0, bisect_left(self.keys, ELEMENT, key=_by_rank)

    def between(self, keys: Span, size_max: int) -> list[Bucket] | None:
        """The rooms of these keys; None if there are more than `size_max`, in more than one bucket."""
        start, end = keys
        if end - start > size_max:  # each has at least one
            return None
        buckets = [self._buckets[key] for key in self.keys[start:end]]
        return buckets if len(buckets) == 1 or size_of(buckets) <= size_max else None

    def move(self, place: RowPlace, before: Collection[Key], after: Collection[Key]) -> None:
        """A room has other keys than before."""
        for key in before:
            if key not in after:
                self._discard(key, place)
        for key in after:
            if key not in before:
                self._add(key, place)

    def _add(self, key: Key, place: RowPlace) -> None:
        self._count(key, 1)
        bucket = self._buckets.get(key)
        if bucket is None:
            self._buckets[key] = [place]
            insort(self.keys, key)
        elif bucket[-1].birth < place.birth:  # a new room
            bucket.append(place)
        else:
            insort(bucket, place, key=by_birth)

    def _discard(self, key: Key, place: RowPlace) -> None:
        self._count(key, -1)
        bucket = self._buckets[key]
        del bucket[bisect_left(bucket, place.birth, key=by_birth)]
        if not bucket:
            del self._buckets[key]
            del self.keys[bisect_left(self.keys, key)]

    def _count(self, key: Key, change: int) -> None:
        if key[0] < ELEMENT:
            self.scalars += change
        else:
            self.elements += change


class Columns:
    """All rooms by age, a column for every other term, and one for a limited number of properties."""

    __slots__ = ("_of_properties", "_of_rooms", "_properties_max", "_without", "everyone")

    def __init__(self, properties_max: int) -> None:
        self.everyone: Bucket = []
        self._of_rooms = {name: Column() for name in _INDEXED}
        self._of_properties: dict[str, Column] = {}
        self._properties_max = properties_max
        # How many rooms have a property without a column. While one has it, it gets none, which would be incomplete.
        self._without: Counter[str] = Counter()

    def get(self, term: Term) -> Column | None:
        """The column of a term; None if it has none, so that rooms must be checked one by one."""
        if term.name != PROPERTIES:
            return self._of_rooms.get(term.name)
        column = self._of_properties.get(term.key)
        return Column() if column is None and term.key not in self._without else column

    def add(self, place: RowPlace) -> None:
        """A room has come."""
        insort(self.everyone, place, key=by_birth)
        self._move(place, None, place.row)

    def change(self, place: RowPlace, row: RoomInfo) -> None:
        """A room has another row."""
        self._move(place, place.row, row)
        place.row = row

    def remove(self, place: RowPlace) -> None:
        """A room has gone."""
        del self.everyone[bisect_left(self.everyone, place.birth, key=by_birth)]
        self._move(place, place.row, None)

    def _move(self, place: RowPlace, old: RoomInfo | None, new: RoomInfo | None) -> None:
        befores = _NONE if old is None else _read(old)
        afters = _NONE if new is None else _read(new)
        for column, was, now in zip(self._of_rooms.values(), befores, afters, strict=True):
            if was != now:
                column.move(place, keys_of(was), keys_of(now))
        before = {} if old is None else old.properties
        after = {} if new is None else new.properties
        for name in {**before, **after}:  # in their order of insertion: the first have columns
            was, now = before.get(name), after.get(name)
            if was is not now:
                self._move_property(name, place, keys_of(was), keys_of(now))

    def _move_property(self, name: str, place: RowPlace, before: Collection[Key], after: Collection[Key]) -> None:
        column = self._of_properties.get(name)
        if column is None:
            if name in self._without or len(self._of_properties) >= self._properties_max:
                self._without[name] += bool(after) - bool(before)
                if not self._without[name]:
                    del self._without[name]
                return
            column = self._of_properties[name] = Column()
        column.move(place, before, after)
        if not column.keys:
            del self._of_properties[name]
