"""When a condition holds: types, what is missing, lists, and age."""

from typing import Any

import pytest

from holdfast.search import parse_query
from tests.cases import every_case
from tests.search.oracle import NOW, a_room


def holds(where: str, **room: Any) -> bool:
    return parse_query(where, []).matches(a_room(**room), NOW)


@every_case(
    "where",
    [
        "id = 'r0'",
        "kind = 'arena' AND name = 'Dust'",
        "players = 1 AND max_players = 4 AND open_seats >= 3",
        "created_at = 1.0",
        "phase <> 'playing'",
        "creator = 'ann' AND host = ''",
        "is_locked = true AND has_password = false",
        "players IN (3, 2, 1)",
        "name > 'D' AND name < 'E' AND name > 'Dus'",
        "is_locked > false",
    ],
)
def test_a_room_is_known_by_its_terms(where: str) -> None:
    room = {"name": "Dust", "creator": "ann", "is_locked": True}

    assert holds(where, **room)
    assert not holds(f"NOT ({where})", **room)


def test_text_is_compared_by_code_point() -> None:
    assert not holds("name = 'dust'", name="Dust")
    assert holds("name < 'a'", name="Z")
    assert holds("name > 'z'", name="ä")


@every_case("value", ["'1'", "true", "'true'"])
def test_values_of_two_types_are_unequal_and_have_no_order(value: str) -> None:
    room = {"properties": {"level": 1}}

    assert holds(f"properties.level <> {value}", **room)
    assert not holds(f"properties.level IN ({value})", **room)
    for sign in ("=", "<", "<=", ">", ">="):
        assert not holds(f"properties.level {sign} {value}", **room)


def test_a_number_is_a_number_however_it_is_written() -> None:
    assert holds("properties.level = 1.0 AND properties.level IN (1.0)", properties={"level": 1})
    assert holds("properties.level = 1 AND properties.level < 1.5", properties={"level": 1.0})
    assert not holds("properties.level = 1 OR properties.level IN (1)", properties={"level": True})


@pytest.mark.parametrize("properties", [{}, {"map": None}, {"map": {}}, {"map": float("nan")}])
def test_what_is_missing_fails_every_comparison(properties: dict[str, Any]) -> None:
    for comparison in ("= 'dust'", "<> 'dust'", "< 'dust'", "> ''", "IN ('dust')", "<> 1", "= true"):
        assert not holds(f"properties.map {comparison}", properties=properties)
        assert holds(f"NOT properties.map {comparison}", properties=properties)


def test_a_list_is_equal_to_what_it_has() -> None:
    room = {"properties": {"tags": ["pvp", 2, True]}}

    for where in ("= 'pvp'", "= 2", "= true", "IN ('pve', 'pvp')", "<> 'pve'", "<> 1", "<> false"):
        assert holds(f"properties.tags {where}", **room), where
    for where in ("= 'pve'", "= 1", "IN ('pve', 3)", "<> 'pvp'", "<> 2", "> 1", "<= 'pvp'", ">= false"):
        assert not holds(f"properties.tags {where}", **room), where


def test_an_empty_list_has_nothing() -> None:
    assert holds("properties.tags <> 'pvp'", properties={"tags": []})
    assert not holds("properties.tags = 'pvp'", properties={"tags": []})


@every_case(
    ("where", "is_true"),
    [
        ("age_s = 9", True),
        ("age_s < 10", True),
        ("age_s < 9", False),
        ("age_s <= 9", True),
        ("age_s > 8.5", True),
        ("age_s >= 9.5", False),
        ("age_s IN (8, 9)", True),
        ("age_s <> 9", False),
        ("age_s < 1e999", True),
        ("age_s > -9999999999999999999999999999999999999", True),
    ],
)
def test_age_counts_from_the_creation_to_now(where: str, is_true: bool) -> None:
    assert holds(where, created_at=NOW - 9) is is_true


def test_every_room_meets_no_condition() -> None:
    assert holds("")
