"""What a search can see of a room, and how its terms are read."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from msgspec import Struct

from holdfast.search.ast import PROPERTIES, Term


class Row(Struct, frozen=True, kw_only=True, gc=False):
    """One room. The index keeps it: for a change give it a new row, with a new dict."""

    id: str
    kind: str
    name: str = ""
    players: int = 0
    max_players: int
    open_seats: int = 0
    created_at: float
    phase: str
    properties: dict[str, Any] = {}
    creator: str = ""
    host: str = ""
    is_locked: bool = False
    has_password: bool = False


Birth = tuple[float, str]
"""When a room was created, and its id: its place by age, which no other room has and which never changes."""


def birth_of(row: Row) -> Birth:
    """The birth of a row's room."""
    return (row.created_at, row.id)


class Place(Struct, eq=False, gc=False):
    """A room in the columns of an index: its birth, and its row of the moment."""

    birth: Birth
    row: Row


def reader(term: Term) -> Callable[[Row], Any]:
    """Reads a term of a row; None if the row lacks it."""
    if term.name == PROPERTIES:
        key = term.key
        return lambda row: row.properties.get(key)
    return attrgetter(term.name)
