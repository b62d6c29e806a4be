"""A parsed search, and its cursors: where a page ended, as URL-safe text that is valid only for the same search."""

from base64 import b64decode
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from math import isnan

import msgspec

from holdfast.core.codec import DECODE_ERRORS
from holdfast.core.errors import Invalid
from holdfast.core.tokens import printable
from holdfast.schemas.room import RoomInfo
from holdfast.search.language import (
    Comparison,
    Expression,
    Operator,
    Term,
    Value,
    conjunction,
    parse_order,
    parse_where,
)
from holdfast.search.order import MISSING, Birth, Order, SortPosition, key_of
from holdfast.search.predicate import predicate, weight_of

_FINGERPRINT_BYTES = 6
# Checking a room includes so many comparisons; with more, it counts as several.
COMPARISONS = 4
# Searches that are kept parsed.
_PARSED_MAX = 256


class _Cursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A position as it is encoded."""

    fingerprint: bytes
    keys: list[Value | None]
    birth: Birth | None


_decode_cursor = msgspec.msgpack.Decoder(_Cursor).decode


class Query:
    """A search and the order of its results; `matches(row, now)` tests a row."""

    __slots__ = ("_fingerprint", "cost", "matches", "only_kind", "order", "where")

    def __init__(self, where: Expression, order: Order, fingerprint: bytes) -> None:
        self.where = where
        self.order = order
        self.matches = predicate(where)
        self.cost = max(1, -(-weight_of(where) // COMPARISONS))
        """The cost of checking a room."""
        self._fingerprint = fingerprint
        self.only_kind = _only_kind(where, order)
        """The kind of rooms, if it asks for nothing else, oldest first; else empty."""

    def cursor_after(self, row: RoomInfo) -> str:
        """The cursor after this row."""
        return self.cursor_at(self.order.position(row))

    def cursor_at(self, position: SortPosition) -> str:
        """The cursor that goes on after this position."""
        keys = [None if key is MISSING else key[1] for key in position.keys]
        return printable(msgspec.msgpack.encode(_Cursor(self._fingerprint, keys, position.birth)))

    def position(self, cursor: str) -> SortPosition | None:
        """Where a cursor goes on, None for an empty one, or `Invalid`: a cursor is input like any other."""
        if not cursor:
            return None
        try:
            mark = _decode_cursor(b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        except DECODE_ERRORS:
            raise Invalid("cursor: invalid; start again without a cursor") from None
        terms = len(self.order.rungs)
        is_whole = len(mark.keys) == terms if mark.birth is not None else 0 < len(mark.keys) < terms
        if mark.fingerprint != self._fingerprint or not is_whole or (mark.birth is not None and isnan(mark.birth[0])):
            raise Invalid("cursor: it belongs to a different search; repeat the same search with it")
        return SortPosition(tuple(map(key_of, mark.keys)), mark.birth)


def parse_query(where: str, order_by: Sequence[str], kind: str | None = None) -> Query:
    """Parse a search; `kind` restricts it to one kind of rooms. `Invalid` says what was expected, and in which
    column."""
    return _parsed(where, tuple(order_by), kind)


# Players who look for a room send the same few searches again and again.
@lru_cache(maxsize=_PARSED_MAX)
def _parsed(where: str, order_by: tuple[str, ...], kind: str | None) -> Query:
    expression = parse_where(where)
    if kind is not None:
        expression = conjunction(Comparison(Term("kind"), Operator.EQ, kind), expression)
    said = repr((where, list(order_by), kind)).encode("utf-8", "backslashreplace")
    return Query(expression, Order.of(parse_order(order_by)), blake2b(said, digest_size=_FINGERPRINT_BYTES).digest())


def _only_kind(where: Expression, order: Order) -> str:
    match where:
        case Comparison(Term("kind"), Operator.EQ, str(kind)) if not order.rungs and not order.is_newest_first:
            return kind
        case _:
            return ""
