"""The order of values. A key begins with the type, so that values without an order are never compared."""

from collections.abc import Collection
from math import inf
from typing import Any

from holdfast.search.ast import Value

BOOLEAN, NUMBER, TEXT = range(3)
# Added to the rank of elements of lists: found by equality, and not part of any order.
ELEMENT = 3

Key = tuple[int, Any]
"""The rank of a value's type, and the value, truncated for cursors. Truncation never reverses an order: at most it
makes two keys equal."""

MISSING: Key = (2 * ELEMENT, None)
"""The key of values without an order: missing ones, lists, and anything that cannot be compared."""

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
    return (rank, value) if -_INT_MAX < value < _INT_MAX else (rank, _as_float(value))


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return inf if number > 0 else -inf


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
