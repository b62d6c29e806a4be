"""Filters and orders that were written for Amazon GameLift or O3DE mean here what they meant there."""

from typing import Any

import pytest

from holdfast.search import Index, parse_query
from holdfast.search.language import GAMELIFT_TERMS, Ordering, Term, parse_order, parse_where
from tests.cases import every_case
from tests.search.oracle import NOW, a_room


def holds(where: str, **room: Any) -> bool:
    return parse_query(where, []).matches(a_room(**room), NOW)


@every_case(
    ("theirs", "ours"),
    [
        ("gameSessionId = 'r0'", "id = 'r0'"),
        ("gameSessionName <> 'Dust'", "name <> 'Dust'"),
        ("gameSessionName IN ('Dust', 'Snow')", "name IN ('Dust', 'Snow')"),
        ("gameSessionProperties.map = 'dust'", "properties.map = 'dust'"),
        ('gameSessionProperties."a key" = "dust"', 'properties."a key" = "dust"'),
        ("maximumSessions>=8 AND playerSessionCount<4", "max_players >= 8 AND players < 4"),
        ("hasAvailablePlayerSessions=true", "open_seats > 0"),
        ("hasAvailablePlayerSessions <> false", "open_seats > 0"),
        ("hasAvailablePlayerSessions = false", "NOT open_seats > 0"),
        ("creationTimeMillis < 1500", "created_at < 1.5"),
        ("creationTimeMillis >= 1500", "created_at >= 1.5"),
        ("NOT (creationTimeMillis > 1500)", "NOT (created_at >= 1.501)"),
    ],
)
def test_a_filter_of_theirs_is_one_of_ours(theirs: str, ours: str) -> None:
    assert parse_where(theirs) == parse_where(ours)


@every_case(
    ("how", "is_true"),
    [("=", True), ("<>", False), ("<", False), ("<=", True), (">", False), (">=", True)],
)
@every_case("created_at", [1469498468.057, 1469498468.0571, 1469498468.0579])
def test_a_time_is_compared_by_whole_milliseconds(created_at: float, how: str, is_true: bool) -> None:
    assert holds(f"creationTimeMillis {how} 1469498468057", created_at=created_at) is is_true


def test_times_of_no_room_are_no_mistake() -> None:
    for value in ("1e999", "1469498468057.5", "9" * 39):
        assert not holds(f"creationTimeMillis = {value} OR creationTimeMillis IN ({value})", created_at=1469498468.057)
        assert holds(f"creationTimeMillis < {value} AND creationTimeMillis > -{value}", created_at=1469498468.057)


@every_case(
    ("where", "if_open", "if_full"),
    [
        ("hasAvailablePlayerSessions IN (true, false)", True, True),
        ("hasAvailablePlayerSessions IN (false)", False, True),
        ("hasAvailablePlayerSessions >= false", True, True),
        ("hasAvailablePlayerSessions > true", False, False),
        ("hasAvailablePlayerSessions > true OR players = 1", True, True),
        ("NOT hasAvailablePlayerSessions >= false", False, False),
    ],
)
def test_a_seat_is_available_or_not(where: str, if_open: bool, if_full: bool) -> None:
    index = Index()
    for number, seats in enumerate((3, 0)):
        index.put(a_room(f"r{number}", open_seats=seats))

    found = {row.id for row in index.search(parse_query(where, []), now=NOW, limit=9).rows}

    assert found == {room_id for room_id, is_found in (("r0", if_open), ("r1", if_full)) if is_found}


@pytest.mark.parametrize(("theirs", "ours"), [each for each in GAMELIFT_TERMS.items() if each[1] != "properties"])
def test_rooms_are_put_in_order_by_their_terms(theirs: str, ours: str) -> None:
    assert parse_order([f"{theirs} DESC"]) == (Ordering(Term(ours), is_descending=True),)


def test_properties_are_put_in_order_by_their_term() -> None:
    assert parse_order(["gameSessionProperties.level ASC"]) == parse_order(["properties.level"])
