"""One page of a search: few candidates are collected and sorted, many are walked in order."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain, islice

from msgspec import Struct

from holdfast.core.errors import Invalid
from holdfast.schemas.room import RoomInfo
from holdfast.search.columns import Bucket, Columns, by_birth, size_of
from holdfast.search.order import SortPosition
from holdfast.search.plan import Plan
from holdfast.search.query import Query
from holdfast.search.values import Key
from holdfast.search.walk import PILE_MAX, PILE_MIN, Piece, Pile, Stretch, Walker, rows_of

# Matches may all be at the end: prefer collecting up to so many times more than a walk is expected to check.
_CAUTION = 4

Visible = Callable[[RoomInfo], bool]
"""Whether the searcher may see a room."""


class Found(Struct, frozen=True):
    """A page of results. The cursor continues after it, and is empty if there are no more."""

    rows: list[RoomInfo]
    cursor: str
    looked: int
    """How many rooms were checked; each counts as several if the search is long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSearch:
    """What a page depends on."""

    query: Query
    now: float
    limit: int
    budget: int
    visible: Visible | None

    @property
    def rows_max(self) -> int:
        """How many rooms the budget allows to check."""
        return max(1, self.budget // self.query.cost)

    def page(self, columns: Columns, cursor: str) -> Found:
        """The page after a cursor."""
        page, next_cursor = _Page(self), ""
        for piece in self._pieces(columns, self.query.position(cursor)):
            if not page.take(piece):
                next_cursor = self.query.cursor_at(page.position)
                break
        return Found(page.found, next_cursor, min(self.budget, page.looked * self.query.cost))

    def _pieces(self, columns: Columns, after: SortPosition | None) -> Iterable[Piece]:
        order = self.query.order
        plan = Plan(self.query.where, columns, self.now, self.rows_max)
        walker = Walker(columns, plan.spans, self.rows_max)
        few = self._few(plan, columns)
        if few is not None:
            places = dict.fromkeys(sorted(chain.from_iterable(few), key=by_birth))
            return [Pile(rows_of(places), len(places), order, after)]
        if order.rungs:
            return walker.walk(order, after)
        bucket = plan.buckets[0] if plan.buckets is not None and len(plan.buckets) == 1 else columns.everyone
        return [Stretch(rows_of(walker.by_age(bucket, plan.window(bucket), order, after)))]

    def wants(self, keys: tuple[Key, ...]) -> Callable[[RoomInfo], bool]:
        """Whether a row matches, given the keys that it must have for the first terms of the order."""
        matches, now, visible = self.query.matches, self.now, self.visible
        if visible is None and not keys:
            return lambda row: matches(row, now)
        marks = tuple(zip(self.query.order.rungs, keys, strict=False))

        def wants(row: RoomInfo) -> bool:
            return (
                matches(row, now)
                and (visible is None or visible(row))
                and all(rung.key(row) == key for rung, key in marks)
            )

        return wants

    def _few(self, plan: Plan, columns: Columns) -> list[Bucket] | None:
        """The candidates to collect; None if walking is better."""
        buckets, rungs = plan.buckets, self.query.order.rungs
        if any(columns.get(rung.term) is None for rung in rungs):
            everyone = [columns.everyone]
            buckets = everyone if buckets is None else min(buckets, everyone, key=size_of)
            if size_of(buckets) > self.rows_max:
                raise Invalid("order_by: too many rooms to sort by a property without an index; narrow the search")
            return buckets
        if buckets is None or (len(buckets) == 1 and not rungs):
            return None
        size, between = size_of(buckets), plan.between(rungs[0].term) if rungs else None
        walked = len(columns.everyone) if between is None else size_of(between)
        # If matches are evenly distributed, a walk checks about so many rooms until it has found enough.
        passed = self.limit * walked // max(1, size)
        return buckets if size <= min(self.rows_max, PILE_MAX, max(PILE_MIN, _CAUTION * passed)) else None


class _Page:
    """A page that is being filled."""

    __slots__ = ("_piece", "_row", "_search", "found", "looked")

    def __init__(self, search: PageSearch) -> None:
        self._search = search
        self.found: list[RoomInfo] = []
        self.looked = 0
        # The present position: at a row of a piece, or after all of them.
        self._piece: Piece | None = None
        self._row: RoomInfo | None = None

    @property
    def position(self) -> SortPosition:
        """Where the next page goes on."""
        assert self._piece is not None
        if self._row is None:
            assert isinstance(self._piece, Pile)
            return self._piece.end
        keys, birth = self._search.query.order.position(self._row)
        return SortPosition((*self._piece.keys, *keys[len(self._piece.keys) :]), birth)

    def take(self, piece: Piece) -> bool:
        """Check the rows of a piece; False if they are more than the page can take."""
        return self._take_pile(piece) if isinstance(piece, Pile) else self._take_stretch(piece)

    def _take_stretch(self, stretch: Stretch) -> bool:
        found, limit, row = self.found, self._search.limit, None
        wants = self._search.wants(stretch.keys)
        rows = iter(stretch.rows)
        looked = self.looked
        if len(found) < limit:
            for row in islice(rows, self._search.rows_max - looked):
                looked += 1
                if wants(row):
                    found.append(row)
                    if len(found) == limit:
                        break
        if row is not None:
            self._piece, self._row, self.looked = stretch, row, looked
        return next(rows, None) is None

    def _take_pile(self, pile: Pile) -> bool:
        found, limit = self.found, self._search.limit
        if self._piece is not None and (len(found) == limit or self.looked + pile.size > self._search.rows_max):
            return False
        self.looked += pile.size
        self._piece = pile
        for row in pile.order.arranged(list(filter(self._search.wants(pile.keys), pile.rows)), pile.after):
            if len(found) == limit:
                return False
            self._row = row
            found.append(row)
        self._row = None
        return True
