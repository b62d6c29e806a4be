"""A parsed search."""

from collections.abc import Sequence
from hashlib import blake2b

from holdfast.schemas.room import RoomInfo
from holdfast.search.ast import Comparison, Expression, Operator, Term, conjunction
from holdfast.search.cursor import read_cursor, write_cursor
from holdfast.search.order import Order, SortPosition
from holdfast.search.parser import parse_order, parse_where
from holdfast.search.predicate import predicate, weight_of

_FINGERPRINT_BYTES = 6
# Checking a room includes so many comparisons; with more, it counts as several.
COMPARISONS = 4


class Query:
    """A search and the order of its results; `matches(row, now)` tests a row."""

    __slots__ = ("_fingerprint", "cost", "matches", "order", "where")

    def __init__(self, where: Expression, order: Order, fingerprint: bytes) -> None:
        self.where = where
        self.order = order
        self.matches = predicate(where)
        self.cost = max(1, -(-weight_of(where) // COMPARISONS))
        """The cost of checking a room."""
        self._fingerprint = fingerprint

    def cursor_after(self, row: RoomInfo) -> str:
        """The cursor after this row."""
        return self.cursor_at(self.order.position(row))

    def cursor_at(self, position: SortPosition) -> str:
        """The cursor that goes on after this position."""
        return write_cursor(position, self._fingerprint)

    def position(self, cursor: str) -> SortPosition | None:
        """Where a cursor goes on, None for an empty one, or `Invalid`."""
        return read_cursor(cursor, self._fingerprint, len(self.order.rungs)) if cursor else None


def parse_query(where: str, order_by: Sequence[str], kind: str | None = None) -> Query:
    """Parse a search; `kind` restricts it to one kind of rooms. `Invalid` says what was expected, and in which
    column."""
    expression = parse_where(where)
    if kind is not None:
        expression = conjunction(Comparison(Term("kind"), Operator.EQ, kind), expression)
    said = repr((where, list(order_by), kind)).encode("utf-8", "backslashreplace")
    return Query(expression, Order.of(parse_order(order_by)), blake2b(said, digest_size=_FINGERPRINT_BYTES).digest())
