"""The search index of a node's rooms, fast while they change.

A search collects and sorts few candidates, and walks through many of them in order.

The index keeps the rows it is given: for a change pass a new one, with a new dict of properties.
"""

from collections.abc import Callable, Iterable
from itertools import chain, islice

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.errors import Invalid
from holdfast.schemas.room import RoomInfo
from holdfast.search.columns import Bucket, Columns, RowPlace, by_birth, size_of
from holdfast.search.language import PROPERTIES, Term
from holdfast.search.order import Key, SortPosition, birth_of
from holdfast.search.plan import PILE_MAX, PILE_MIN, Piece, Pile, Plan, Stretch, Walker, rows_of
from holdfast.search.query import Query
from holdfast.search.types import kind_of, mismatch, other_types, types_compared

# Properties with a column of their own.
COLUMNS_MAX = 64
# Rooms that a search checks before it returns what it has found: a few milliseconds.
BUDGET = 4000
# Matches may all be at the end: prefer collecting up to so many times more than a walk is expected to check.
_CAUTION = 4
# Rooms that are checked to explain why a search found nothing, for each property and type.
EXPLAINED_MAX = 500

Visible = Callable[[RoomInfo], bool]
"""Whether the searcher may see a room."""


class Found(Struct, frozen=True):
    """A page of results. The cursor continues after it, and is empty if there are no more."""

    rows: list[RoomInfo]
    cursor: str
    looked: int
    """How many rooms were checked; each counts as several if the search is long."""


class _Page:
    """A page that is being filled."""

    __slots__ = ("_columns", "_limit", "_now", "_piece", "_query", "_row", "_rows_max", "_visible", "found", "looked")

    def __init__(
        self, columns: Columns, query: Query, *, now: float, limit: int, rows_max: int, visible: Visible | None
    ) -> None:
        self._columns = columns
        self._query = query
        self._now = now
        self._limit = limit
        self._rows_max = rows_max
        self._visible = visible
        self.found: list[RoomInfo] = []
        self.looked = 0
        # The present position: at a row of a piece, or after all of them.
        self._piece: Piece | None = None
        self._row: RoomInfo | None = None

    def fill(self, after: SortPosition | None) -> SortPosition | None:
        """Take what comes after a position; returns where the next page goes on, None if nothing is left."""
        for piece in self._pieces(after):
            if not (self._take_pile(piece) if isinstance(piece, Pile) else self._take_stretch(piece)):
                return self._position()
        return None

    def _pieces(self, after: SortPosition | None) -> Iterable[Piece]:
        order, columns = self._query.order, self._columns
        plan = Plan(self._query.where, columns, self._now, self._rows_max)
        few = self._few(plan)
        if few is not None:
            places = dict.fromkeys(sorted(chain.from_iterable(few), key=by_birth))
            return [Pile(rows_of(places), len(places), order, after)]
        walker = Walker(columns, plan.spans, self._rows_max)
        if order.rungs:
            return walker.walk(order, after)
        bucket = plan.buckets[0] if plan.buckets is not None and len(plan.buckets) == 1 else columns.everyone
        return [Stretch(rows_of(walker.by_age(bucket, plan.window(bucket), order, after)))]

    def _few(self, plan: Plan) -> list[Bucket] | None:
        """The candidates to collect; None if walking is better."""
        columns, buckets, rungs = self._columns, plan.buckets, self._query.order.rungs
        if any(columns.get(rung.term) is None for rung in rungs):
            everyone = [columns.everyone]
            buckets = everyone if buckets is None else min(buckets, everyone, key=size_of)
            if size_of(buckets) > self._rows_max:
                raise Invalid("order_by: too many rooms to sort by a property without an index; narrow the search")
            return buckets
        if buckets is None or (len(buckets) == 1 and not rungs):
            return None
        size, between = size_of(buckets), plan.between(rungs[0].term) if rungs else None
        walked = len(columns.everyone) if between is None else size_of(between)
        # If matches are evenly distributed, a walk checks about so many rooms until it has found enough.
        passed = self._limit * walked // max(1, size)
        return buckets if size <= min(self._rows_max, PILE_MAX, max(PILE_MIN, _CAUTION * passed)) else None

    def _wants(self, keys: tuple[Key, ...]) -> Callable[[RoomInfo], bool]:
        """Whether a row matches, given the keys that it must have for the first terms of the order."""
        matches, now, visible = self._query.matches, self._now, self._visible
        if visible is None and not keys:
            return lambda row: matches(row, now)
        marks = tuple(zip(self._query.order.rungs, keys, strict=False))

        def wants(row: RoomInfo) -> bool:
            return (
                matches(row, now)
                and (visible is None or visible(row))
                and all(rung.key(row) == key for rung, key in marks)
            )

        return wants

    def _take_stretch(self, stretch: Stretch) -> bool:
        """Check the rows of a piece; False if they are more than the page can take."""
        found, limit, row = self.found, self._limit, None
        wants = self._wants(stretch.keys)
        rows = iter(stretch.rows)
        looked = self.looked
        if len(found) < limit:
            for row in islice(rows, self._rows_max - looked):
                looked += 1
                if wants(row):
                    found.append(row)
                    if len(found) == limit:
                        break
        if row is not None:
            self._piece, self._row, self.looked = stretch, row, looked
        return next(rows, None) is None

    def _take_pile(self, pile: Pile) -> bool:
        """The same for a pile, which is checked whole."""
        found = self.found
        if self._piece is not None and (len(found) == self._limit or self.looked + pile.size > self._rows_max):
            return False
        self.looked += pile.size
        self._piece = pile
        for row in pile.order.arranged(list(filter(self._wants(pile.keys), pile.rows)), pile.after):
            if len(found) == self._limit:
                return False
            self._row = row
            found.append(row)
        self._row = None
        return True

    def _position(self) -> SortPosition:
        assert self._piece is not None
        if self._row is None:
            assert isinstance(self._piece, Pile)
            return self._piece.end
        keys, birth = self._query.order.position(self._row)
        return SortPosition((*self._piece.keys, *keys[len(self._piece.keys) :]), birth)


class Index:
    """The rows of all rooms, by id and in sorted columns."""

    __slots__ = ("_columns", "_places")

    def __init__(self, columns_max: int = COLUMNS_MAX) -> None:
        self._places: dict[str, RowPlace] = {}
        self._columns = Columns(columns_max)

    def __len__(self) -> int:
        return len(self._places)

    def row(self, room_id: str) -> RoomInfo | None:
        place = self._places.get(room_id)
        return None if place is None else place.row

    def put(self, row: RoomInfo) -> None:
        """A room is new or has changed; only the changed columns are updated."""
        row = _with_fixed_lists(row)
        place = self._places.get(row.id)
        if place is not None and place.birth == birth_of(row):
            self._columns.change(place, row)
        else:
            self.remove(row.id)
            place = self._places[row.id] = RowPlace(birth_of(row), row)
            self._columns.add(place)

    def remove(self, room_id: str) -> None:
        """Remove a room, if it is indexed."""
        place = self._places.pop(room_id, None)
        if place is not None:
            self._columns.remove(place)

    def search(
        self,
        query: Query,
        *,
        now: float,
        limit: int,
        cursor: str = "",
        budget: int = BUDGET,
        visible: Visible | None = None,
    ) -> Found:
        """The next `limit` matches; fewer if the budget of rooms to check is used up before.

        A cursor is a position in the order, so that an unchanged room is found exactly once, whatever the others do.
        """
        rows_max = max(1, budget // query.cost)
        page = _Page(self._columns, query, now=now, limit=limit, rows_max=rows_max, visible=visible)
        end = page.fill(query.position(cursor))
        next_cursor = "" if end is None else query.cursor_at(end)
        return Found(page.found, next_cursor, min(budget, page.looked * query.cost))

    def why_empty(self, query: Query, visible: Visible | None = None) -> str:
        """Why a search found nothing, if it compares a property with a type that no visible room has; else empty."""
        kind = kind_of(query.where)

        def of_types(key: str, ranks: Iterable[int]) -> Iterable[RoomInfo]:
            column = self._columns.get(Term(PROPERTIES, key))
            rows = () if column is None else rows_of(islice(column.of_types(ranks), EXPLAINED_MAX))
            return (row for row in rows if kind in ("", row.kind) and (visible is None or visible(row)))

        for key, wanted in types_compared(query.where).items():
            if not any(True for _ in of_types(key, wanted)):
                found = next(iter(of_types(key, other_types(wanted))), None)
                if found is not None:
                    return (
                        f"no room can match: {mismatch(key, found.properties[key], wanted)} in the rooms that have it"
                    )
        return ""


def _with_fixed_lists(row: RoomInfo) -> RoomInfo:
    """The row with tuples for its lists: a game may change a list in place, and the columns would not notice."""
    for value in row.properties.values():  # no generator: this runs with every change of a room
        if isinstance(value, list):
            fixed = {key: tuple(each) if isinstance(each, list) else each for key, each in row.properties.items()}
            return replace(row, properties=fixed)
    return row
