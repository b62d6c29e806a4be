"""The rows of an index: rooms as they are shown; searches use the terms in `TERMS`.

The index keeps a row: for a change pass a new one, with a new dict of properties.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from msgspec import Struct

from holdfast.schemas.room import RoomInfo
from holdfast.search.ast import PROPERTIES, Term

Birth = tuple[float, str]
"""A room's creation time and id: its unique and constant position by age."""


def birth_of(row: RoomInfo) -> Birth:
    """The birth of a row's room."""
    return (row.created_at, row.id)


class RowPlace(Struct, eq=False, gc=False):
    """A room in the columns of an index: its birth, and its row of the moment."""

    birth: Birth
    row: RoomInfo


def reader(term: Term) -> Callable[[RoomInfo], Any]:
    """Reads a term of a row; None if it is missing."""
    if term.name == PROPERTIES:
        key = term.key
        return lambda row: row.properties.get(key)
    return attrgetter(term.name)
