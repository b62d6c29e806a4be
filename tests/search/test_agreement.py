"""Whatever the rooms and the search: the index finds what a scan and a sort would, page by page, while rooms change."""

from contextlib import suppress
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Invalid
from holdfast.schemas.room import RoomInfo
from holdfast.search import Found, Index, Query, parse_query
from holdfast.search.language import Expression, Ordering
from tests.search.oracle import NOW, expressions, holds, order_written, orderings, rows, scanned, written

many_rows = st.lists(rows, max_size=20)
# Enough steps to look at every room once for each group of rooms that are alike, with a budget of one.
PAGES_MAX = 1000


class Case(NamedTuple):
    """Rooms, and a search among them."""

    rows: list[RoomInfo]
    where: Expression
    order_by: list[Ordering]
    limit: int
    budgets: list[int]

    def page(self, index: Index, number: int, cursor: str) -> Found:
        """The next page. Other budgets lead to the rooms in other ways."""
        query, budget = query_for(self.where, self.order_by), self.budgets[number % len(self.budgets)]
        found = index.search(query, now=NOW, limit=self.limit, cursor=cursor, budget=budget)
        assert len(found.rows) <= self.limit
        assert found.looked <= budget
        return found


cases = st.builds(
    Case,
    rows=many_rows,
    where=expressions,
    order_by=orderings,
    limit=st.integers(1, 6),
    budgets=st.lists(st.one_of(st.integers(1, 8), st.just(4000)), min_size=1, max_size=3),
)


def filled(rows: list[RoomInfo], columns_max: int = 64) -> Index:
    index = Index(columns_max)
    for row in rows:
        index.put(row)
    return index


def query_for(where: Expression, order_by: list[Ordering]) -> Query:
    return parse_query(written(where), order_written(order_by))


def known(rows: list[RoomInfo]) -> dict[str, RoomInfo]:
    """The last row of each room."""
    return {row.id: row for row in rows}


def ids(rows: list[RoomInfo]) -> list[str]:
    return [row.id for row in rows]


@given(many_rows, expressions)
def test_a_query_matches_what_the_language_promises(rows: list[RoomInfo], where: Expression) -> None:
    query = query_for(where, [])

    assert [query.matches(row, NOW) for row in rows] == [holds(where, row, NOW) for row in rows]


@given(cases)
def test_the_pages_of_a_search_are_what_a_scan_finds(case: Case) -> None:
    index = filled(case.rows)
    found: list[str] = []
    cursor = ""

    for number in range(PAGES_MAX):
        page = case.page(index, number, cursor)
        found += ids(page.rows)
        cursor = page.cursor
        if not cursor:
            break

    assert not cursor
    assert found == ids(scanned(known(case.rows).values(), case.where, case.order_by))


@given(cases, st.lists(st.one_of(rows, rows.map(lambda row: row.id))))
def test_rooms_that_do_not_change_are_found_once_and_in_order_whatever_the_others_do(
    case: Case, changes: list[RoomInfo | str]
) -> None:
    """A change is a new row, or the id of a room that goes; one happens after each page."""
    index, now_known = filled(case.rows), known(case.rows)
    touched = {change if isinstance(change, str) else change.id for change in changes}
    coming = iter(changes)
    found: list[str] = []
    cursor = ""

    for number in range(PAGES_MAX):
        page = case.page(index, number, cursor)
        found += ids(page.rows)
        assert all(holds(case.where, now_known[row.id], NOW) for row in page.rows)
        cursor = page.cursor
        if not cursor:
            break
        match next(coming, None):
            case str(room_id):
                index.remove(room_id)
                now_known.pop(room_id, None)
            case RoomInfo() as row:
                index.put(row)
                now_known[row.id] = row
            case None:
                pass

    assert not cursor
    unchanged = [row for row in known(case.rows).values() if row.id not in touched]
    expected = ids(scanned(unchanged, case.where, case.order_by))
    assert [room_id for room_id in found if room_id not in touched] == expected


@given(many_rows, many_rows, expressions, orderings, st.integers(0, 2))
def test_an_index_is_what_its_last_rows_make_it(
    rows: list[RoomInfo], later: list[RoomInfo], where: Expression, order_by: list[Ordering], columns_max: int
) -> None:
    """However it came about, and however few properties have columns."""
    index = filled(rows, columns_max)
    for row in rows[::2]:
        index.remove(row.id)
    for row in later:
        index.put(row)
    left = {room_id: row for room_id, row in known(rows).items() if room_id not in {row.id for row in rows[::2]}}

    found = index.search(query_for(where, order_by), now=NOW, limit=100)

    expected = left | known(later)
    assert len(index) == len(expected)
    assert ids(found.rows) == ids(scanned(expected.values(), where, order_by))


@given(cases)
def test_nothing_is_refused_but_an_order_without_a_column(case: Case) -> None:
    index = filled(case.rows, columns_max=0)

    with suppress(Invalid):
        case.page(index, 0, "")
        return

    # Each room counts as several if the search is long.
    assert len(index) * query_for(case.where, case.order_by).cost > case.budgets[0]
    assert any(each.term.name == "properties" for each in case.order_by)
