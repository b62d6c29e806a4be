"""What is said about a search that finds nothing because it compares a property with another type."""

from typing import Any

from holdfast.schemas.room import RoomInfo
from holdfast.search import Index, conflict, parse_query
from tests.cases import every_case
from tests.search.oracle import a_room


def hint(where: str, *rooms: dict[str, Any], kind: str | None = None) -> str:
    index = Index()
    for number, room in enumerate(rooms):
        index.put(a_room(f"r{number}", kind=room.get("kind", "arena"), properties=room))
    return index.why_empty(parse_query(where, [], kind=kind))


def test_text_compared_with_a_number_says_so() -> None:
    assert hint("players > 0 AND properties.level > 2", {"level": "3"}) == (
        "no room can match: properties.level is compared with a number, and is text in the rooms that have it"
    )


@every_case(
    ("where", "level", "says"),
    [
        ("properties.level = '3'", 3, "properties.level is compared with text, and is a number"),
        ("properties.level IN (1, true)", "3", "is compared with true or false or a number, and is text"),
        ("NOT properties.level <> 3", "3", "is compared with a number, and is text"),
        ("properties.level = 3 OR players > 9", True, "is compared with a number, and is true or false"),
        ("properties.level = 3", ["a", "b"], "is compared with a number, and is text"),
    ],
)
def test_it_says_which_types(where: str, level: object, says: str) -> None:
    assert says in hint(where, {"level": level})


def test_a_key_that_is_no_word_is_named_in_quotes() -> None:
    assert 'properties."skill level" is compared' in hint("properties.'skill level' = 3", {"skill level": "3"})


@every_case(
    ("where", "level"),
    [
        ("properties.level = 3", 4),
        ("properties.level = 3", None),
        ("properties.level = 3", [4, "3"]),
        ("properties.level = 3 OR properties.level = 'four'", "3"),
        ("properties.level <> 3 AND players > 9", "3"),
        ("NOT properties.level = 3 AND players > 9", "3"),
        ("NOT properties.level IN (3) AND players > 9", "3"),
        ("players > 9", "3"),
    ],
)
def test_nothing_is_said_where_types_are_not_the_reason(where: str, level: object) -> None:
    assert hint(where, {"level": level}) == ""


def test_one_room_with_the_right_type_is_enough_to_say_nothing() -> None:
    assert hint("properties.level > 9", {"level": "3"}, {"level": 3}) == ""


def test_rooms_of_other_kinds_do_not_count() -> None:
    rooms = {"kind": "coop", "level": 3}, {"kind": "arena", "level": "3"}

    assert hint("properties.level > 9", *rooms) == ""
    assert hint("properties.level > 9", *rooms, kind="arena") != ""
    assert hint("properties.level > 9", *rooms, kind="coop") == ""


def test_rooms_that_the_searcher_may_not_see_are_not_spoken_of() -> None:
    index = Index()
    index.put(a_room("r0", properties={"level": "3"}))
    index.put(a_room("r1", properties={"rank": 1}))
    index.put(a_room("r2", properties={"rank": "1"}))

    def is_public(row: RoomInfo) -> bool:
        return row.id == "r2"

    assert index.why_empty(parse_query("properties.level > 9", []), is_public) == ""
    assert index.why_empty(parse_query("properties.rank > 9", []), is_public) != ""


def test_properties_contradict_a_search_by_their_types_alone() -> None:
    where = parse_query("properties.level > 2 AND properties.modes = 'duel'", []).where

    assert conflict(where, {"level": "3"}) == "properties.level is compared with a number, and is text"
    others: list[dict[str, Any]] = [{}, {"level": 1, "modes": "flag"}, {"modes": ["duel", 2]}, {"modes": []}]
    for properties in others:
        assert conflict(where, properties) == ""
