"""One page of a search: gathered and sorted where few rooms can match, walked to in order where many can."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from msgspec import Struct

from holdfast.core.errors import Invalid
from holdfast.core.query.columns import Bucket, Columns
from holdfast.core.query.order import Position
from holdfast.core.query.plan import Plan, size_of
from holdfast.core.query.query import Query
from holdfast.core.query.row import Row
from holdfast.core.query.walk import Stretch, Walker

Visible = Callable[[Row], bool]
"""Whether a room is for the eyes of who searches."""


class Found(Struct, frozen=True):
    """A page of a search. The cursor goes on from here, and is empty if there is no more."""

    rows: list[Row]
    cursor: str
    looked: int
    """How many rooms were looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What a page is made of."""

    query: Query
    now: float
    limit: int
    budget: int
    visible: Visible | None

    def page(self, rows: Mapping[str, Row], columns: Columns, cursor: str) -> Found:
        """The page that a cursor goes on with."""
        order, after = self.query.order, self.query.position(cursor)
        plan = Plan(self.query.where, columns, self.now, self.budget)
        walker = Walker(rows, columns, plan.spans, self.budget + 1)
        few = self._few(plan, columns)
        if few is not None:
            return self._gathered([rows[room_id] for _, room_id in set().union(*few)], after)
        if order.rungs:
            return self._walked(walker.walk(order, after))
        bucket = plan.buckets[0] if plan.buckets is not None and len(plan.buckets) == 1 else columns.births
        return self._walked([Stretch(walker.by_age(bucket, plan.window(bucket), order, after))])

    def _few(self, plan: Plan, columns: Columns) -> list[Bucket] | None:
        """The rooms to gather; None if they are better walked to."""
        buckets = plan.buckets
        if any(columns.get(rung.term) is None for rung in self.query.order.rungs):
            buckets = [columns.births] if buckets is None else buckets
            if size_of(buckets) > self.budget:
                raise Invalid("order_by: too many rooms to sort by a property that has no column; narrow the search")
            return buckets
        if buckets is None or size_of(buckets) > self.budget:
            return None
        return buckets if self.query.order.rungs or len(buckets) != 1 else None

    def _wanted(self) -> Callable[[Row], bool]:
        matches, now, visible = self.query.matches, self.now, self.visible
        if visible is None:
            return lambda row: matches(row, now)
        return lambda row: matches(row, now) and visible(row)

    def _gathered(self, rows: list[Row], after: Position | None) -> Found:
        found = self.query.order.sorted(filter(self._wanted(), rows), after)
        page = found[: self.limit]
        return Found(page, self.query.cursor_after(page[-1]) if len(found) > self.limit else "", len(rows))

    def _walked(self, stretches: Iterable[Stretch]) -> Found:
        order, wanted = self.query.order, self._wanted()
        found: list[Row] = []
        looked = 0
        last: tuple[Stretch, Row] | None = None
        for stretch in stretches:
            for row in stretch.rows:
                if last is not None and (len(found) == self.limit or looked == self.budget):
                    return Found(found, self.query.cursor_at(last[0].position(last[1], order)), looked)
                last = stretch, row
                looked += 1
                if wanted(row) and stretch.holds(row, order):
                    found.append(row)
        return Found(found, "", looked)
