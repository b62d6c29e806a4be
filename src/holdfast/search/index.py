"""The search index of a node's rooms, fast while they change."""

from msgspec.structs import replace

from holdfast.schemas.room import RoomInfo
from holdfast.search.columns import Columns
from holdfast.search.query import Query
from holdfast.search.row import RowPlace, birth_of
from holdfast.search.search import Found, PageSearch, Visible
from holdfast.search.values import LISTS

# Properties with a column of their own.
COLUMNS_MAX = 64
# Rooms that a search checks before it returns what it has found: a few milliseconds.
BUDGET = 4000


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
        search = PageSearch(query=query, now=now, limit=limit, budget=budget, visible=visible)
        return search.page(self._columns, cursor)


def _with_fixed_lists(row: RoomInfo) -> RoomInfo:
    """The row with tuples for its lists: a game may change a list in place, and the columns would not notice."""
    properties = row.properties
    for value in properties.values():
        if isinstance(value, list):
            fixed = {key: tuple(each) if isinstance(each, LISTS) else each for key, each in properties.items()}
            return replace(row, properties=fixed)
    return row
