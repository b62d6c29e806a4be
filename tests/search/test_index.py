"""The index: what it finds, in which order, how much it looks at for it, and what it makes of rooms that change."""

from enum import StrEnum
from functools import cache
from itertools import cycle
from typing import Any

import pytest

from holdfast.core.errors import Invalid
from holdfast.schemas.room import RoomInfo
from holdfast.search import Found, Index, parse_query
from tests.cases import every_case
from tests.search.oracle import NOW, a_room

ROOMS = 3000


def an_index(*rows: RoomInfo, columns_max: int = 64) -> Index:
    index = Index(columns_max)
    for row in rows:
        index.put(row)
    return index


@cache
def many_rooms() -> Index:
    """3,000 rooms: every third is full, levels go from 0 to 99, ratings are all different; some have a clan.

    No test changes them.
    """
    index = Index()
    for number in range(ROOMS):
        properties = {"level": number % 100, "rating": number / 7, "mode": "ctf" if number % 3 else "duel"}
        index.put(
            a_room(
                f"r{number:04}",
                name=f"Room {number}",
                players=number % 9,
                max_players=9,
                open_seats=number % 3,
                created_at=float(number),
                properties=properties | {"clan": f"Clan {number}" if number % 3 else number}
                if number % 2
                else properties,
            )
        )
    return index


def found(index: Index, where: str, *order_by: str, limit: int = 20, **options: Any) -> Found:
    return index.search(parse_query(where, order_by), now=NOW, limit=limit, **options)


def ids(page: Found) -> list[str]:
    return [row.id for row in page.rows]


# Rooms come, change and go


def test_an_index_knows_its_rooms() -> None:
    index = an_index(a_room("r1"), a_room("r2"))
    index.remove("r1")
    index.remove("nobody")

    assert len(index) == 1
    assert index.row("r2") == a_room("r2")
    assert index.row("r1") is None


def test_a_room_is_found_by_what_it_is_now() -> None:
    index = an_index(a_room(players=1, properties={"map": "dust", "tags": ["a", "b"], "old": 1}))
    index.put(a_room(players=2, properties={"map": "inferno", "tags": ["b", "c"], "new": 1}))

    for where in ("players = 2", "properties.map = 'inferno'", "properties.tags = 'c'", "properties.new = 1"):
        assert ids(found(index, where)) == ["r0"], where
    for where in ("players = 1", "properties.map = 'dust'", "properties.tags = 'a'", "properties.old = 1"):
        assert ids(found(index, where)) == [], where


def test_a_room_can_become_older() -> None:
    index = an_index(a_room("r1", created_at=1.0), a_room("r2", created_at=2.0))

    index.put(a_room("r2", created_at=0.5))

    assert ids(found(index, "")) == ["r2", "r1"]
    assert len(index) == 2


def test_a_list_that_a_game_changes_in_place_does_not_confuse_the_index() -> None:
    tags = ["a", "b"]
    index = an_index(a_room(properties={"tags": tags}))

    tags[:] = ["c"]

    assert ids(found(index, "properties.tags = 'a'")) == ["r0"]
    index.put(a_room(properties={"tags": tags}))
    assert ids(found(index, "properties.tags = 'a'")) == []
    assert ids(found(index, "properties.tags = 'c'")) == ["r0"]
    index.remove("r0")
    assert ids(found(index, "properties.tags = 'c'")) == []


def test_true_is_not_one_when_a_property_changes() -> None:
    index = an_index(a_room(properties={"ranked": 1}))

    index.put(a_room(properties={"ranked": True}))

    assert ids(found(index, "properties.ranked = true")) == ["r0"]
    assert ids(found(index, "properties.ranked = 1")) == []


def test_the_words_of_an_enum_are_text() -> None:
    class Mode(StrEnum):
        CTF = "ctf"

    index = an_index(a_room(properties={"mode": Mode.CTF}))

    assert ids(found(index, "properties.mode = 'ctf'")) == ["r0"]
    assert ids(found(index, "properties.mode IN ('ctf') AND properties.mode < 'd'", "properties.mode")) == ["r0"]


# Order


def test_the_oldest_come_first_unless_something_else_is_asked_for() -> None:
    index = an_index(*(a_room(f"r{at}", created_at=float(at)) for at in (3, 1, 2)))

    assert ids(found(index, "")) == ["r1", "r2", "r3"]
    assert ids(found(index, "", "created_at desc")) == ["r3", "r2", "r1"]
    assert ids(found(index, "", "age_s")) == ["r3", "r2", "r1"]
    assert ids(found(index, "", "age_s desc")) == ["r1", "r2", "r3"]


def test_rooms_that_are_alike_come_oldest_first_in_both_directions() -> None:
    index = an_index(*(a_room(f"r{at}", created_at=float(at), players=at % 2) for at in range(4)))

    assert ids(found(index, "", "players")) == ["r0", "r2", "r1", "r3"]
    assert ids(found(index, "", "players desc")) == ["r1", "r3", "r0", "r2"]
    assert ids(found(index, "", "players desc", "created_at desc")) == ["r3", "r1", "r2", "r0"]


def test_rooms_without_the_value_come_last_in_both_directions() -> None:
    values: list[Any] = [None, "a", 5, [1], True]
    index = an_index(*(a_room(f"r{at}", created_at=float(at), properties={"x": x}) for at, x in enumerate(values)))

    assert ids(found(index, "", "properties.x")) == ["r4", "r2", "r1", "r0", "r3"]
    assert ids(found(index, "", "properties.x desc")) == ["r1", "r2", "r4", "r0", "r3"]


def test_further_terms_decide_between_rooms_that_are_alike() -> None:
    places = [(1, 7), (2, 7), (2, 9), (1, 9), (2, 8)]
    index = an_index(
        *(a_room(f"r{at}", players=players, properties={"level": level}) for at, (players, level) in enumerate(places))
    )

    assert ids(found(index, "", "players desc", "properties.level")) == ["r1", "r4", "r2", "r0", "r3"]


def test_long_texts_and_large_numbers_are_compared_whole_and_ordered_roughly() -> None:
    same = "x" * 32
    texts = {"r1": same + "b", "r2": same + "a", "r3": same}
    numbers = {"r1": 10**400, "r2": 2**70 + 1, "r3": 2**70}
    index = an_index(*(a_room(each, name=texts[each], properties={"n": numbers[each]}) for each in texts))

    assert ids(found(index, f"name > '{same}'", "name")) == ["r1", "r2"]
    assert ids(found(index, f"name < '{same}b'", "name desc")) == ["r2", "r3"]
    assert ids(found(index, f"properties.n > {2**70}", "properties.n")) == ["r2", "r1"]
    assert ids(found(index, f"properties.n < {2**70 + 1}")) == ["r3"]
    assert [ids(found(index, "", "properties.n desc", limit=1))] == [["r1"]]
    assert found(index, "", "properties.n desc", limit=1).cursor


# Pages


@every_case(
    "order_by",
    [(), ("players desc",), ("players desc", "properties.level", "created_at desc"), ("properties.clan desc", "name")],
)
@every_case("where", ["", "open_seats > 0", "properties.level IN (1, 2) OR players = 3", "players = 3"])
def test_pages_add_up_whatever_the_budget(where: str, order_by: tuple[str, ...]) -> None:
    index = many_rooms()
    whole = found(index, where, *order_by, limit=2 * ROOMS, budget=10 * ROOMS)
    seen: list[str] = []
    cursor = ""

    for budget in cycle((150, 4000, 2000)):
        page = found(index, where, *order_by, limit=70, budget=budget, cursor=cursor)
        seen += ids(page)
        cursor = page.cursor
        if not cursor:
            break

    assert whole.cursor == ""
    assert seen == ids(whole)
    assert len(set(seen)) == len(seen) > 0


def test_a_page_that_ends_with_the_last_room_has_no_cursor() -> None:
    index = an_index(a_room("r1"), a_room("r2"))

    assert found(index, "", limit=2).cursor == ""
    assert found(index, "", limit=1).cursor != ""


def test_only_visible_rooms_are_found() -> None:
    index = an_index(a_room("r1", creator="ann"), a_room("r2", creator="bob"), a_room("r3", creator="ann"))

    page = found(index, "", limit=2, visible=lambda row: row.creator == "ann")

    assert ids(page) == ["r1", "r3"]


def test_a_search_can_be_for_one_kind_of_rooms() -> None:
    index = an_index(a_room("r1", kind="arena"), a_room("r2", kind="it's"), a_room("r3", kind="it's", players=3))

    page = index.search(parse_query("players < 3 OR players > 3", [], kind="it's"), now=NOW, limit=9)

    assert ids(page) == ["r2"]


# How much is looked at


@every_case(
    ("where", "order_by", "looked_max"),
    [
        ("", (), 20),
        ("open_seats > 0", (), 31),
        ("id = 'r1234'", ("name",), 1),
        ("id IN ('r0001', 'r0002', 'nobody')", (), 2),
        ("name = 'Room 77' AND open_seats >= 0", ("players desc",), 1),
        ("players > 100", ("players",), 0),
        ("properties.unknown = 1", ("players",), 0),
        ("properties.level = 'three'", (), 0),
        ("properties.rating >= 100 AND properties.rating < 101", ("name",), 7),
        ("properties.level = 7 OR name = 'Room 8'", ("players desc", "name"), 31),
        ("properties.level IN (1, 2, 3, 4, 5)", ("name",), 150),
        ("created_at >= 2990", ("players",), 10),
        ("created_at > 1500 AND created_at < 2900", (), 20),
        ("age_s < -2000", ("created_at desc",), 20),
        ("open_seats > 0", ("players desc",), 20),
        ("players < 4", ("players desc",), 20),
        ("properties.mode = 'ctf'", ("properties.mode",), 20),
        ("properties.mode = 'duel'", (), 20),
        ("open_seats > 0", ("properties.rating desc",), 31),
        ("", ("properties.unknown",), 20),
        ("properties.clan >= 2997", ("properties.clan",), 1),
        ("properties.clan > 'Clan 2' AND properties.clan < 'Clan 3'", ("properties.clan",), 20),
    ],
)
@every_case("budget", [600, 2000])
def test_little_is_looked_at(where: str, order_by: tuple[str, ...], looked_max: int, budget: int) -> None:
    page = found(many_rooms(), where, *order_by, budget=budget)

    assert page.looked <= looked_max
    assert len(page.rows) == min(looked_max, 20)


@pytest.mark.parametrize("order_by", [(), ("name",), ("players desc", "name"), ("players", "properties.level", "name")])
def test_a_search_that_finds_nothing_for_a_long_time_stops_and_can_go_on(order_by: tuple[str, ...]) -> None:
    index, where = many_rooms(), "NOT name <> 'Room 2999'"
    page = found(index, where, *order_by, budget=500)
    pages = [page]

    while page.cursor:
        page = found(index, where, *order_by, budget=500, cursor=page.cursor)
        pages.append(page)

    assert pages[0].rows == []
    assert all(page.looked <= 500 for page in pages)
    assert [room_id for page in pages for room_id in ids(page)] == ["r2999"]


def test_a_walk_along_a_range_ends_with_the_range() -> None:
    index, where = many_rooms(), "properties.clan > 'Clan'"
    first = found(index, where, "properties.clan", limit=ROOMS, budget=600)

    second = found(index, where, "properties.clan", limit=ROOMS, budget=600, cursor=first.cursor)

    assert len(first.rows) == first.looked == 600
    assert len(second.rows) == second.looked == 400
    assert second.cursor == ""


def test_a_long_expression_pays_for_its_length() -> None:
    where = " AND ".join(["NOT players > 100"] * 40)

    page = found(many_rooms(), where, limit=ROOMS, budget=1000)

    assert page.looked == 1000
    assert len(page.rows) == 100
    assert page.cursor


# Columns


def test_properties_beyond_the_columns_are_found_all_the_same() -> None:
    index = an_index(a_room("r1", properties={"a": 1, "b": 2}), a_room("r2", properties={"b": 1}), columns_max=1)

    assert ids(found(index, "properties.a = 1")) == ["r1"]
    assert ids(found(index, "properties.b > 0", "properties.b")) == ["r2", "r1"]


def test_too_many_rooms_are_not_sorted_by_a_property_without_a_column() -> None:
    index = an_index(
        *(a_room(f"r{at}", players=at % 5, properties={"a": at, "b": at}) for at in range(50)), columns_max=1
    )

    with pytest.raises(Invalid, match="narrow the search"):
        found(index, "", "properties.b", budget=20)
    assert len(found(index, "players = 3", "properties.b", budget=20).rows) == 10
    assert len(found(index, "", "properties.a", budget=20).rows) == 20


def test_a_column_is_free_for_another_property_when_no_room_has_it_any_more() -> None:
    index = an_index(a_room("r1", properties={"a": 1}), a_room("r2", properties={"b": 1}), columns_max=1)
    index.put(a_room("r1"))
    index.put(a_room("r3", properties={"b": 2}))
    assert ids(found(index, "properties.b > 0")) == ["r2", "r3"]

    index.remove("r2")
    index.remove("r3")
    index.put(a_room("r4", properties={"b": 3}))

    page = found(index, "properties.b > 0", "properties.b")
    assert (ids(page), page.looked) == (["r4"], 1)
