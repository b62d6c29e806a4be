"""Cursors: text that anybody can send, so nothing in it is believed."""

import string
from base64 import urlsafe_b64decode
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Invalid
from holdfast.core.tokens import printable
from holdfast.schemas.requests import Search
from holdfast.search import Index, Query, parse_query
from tests.cases import every_case
from tests.search.oracle import NOW, TEXTS, a_room

ORDERS: list[list[str]] = [[], ["players desc"], ["players", "properties.a desc", "name"], ["created_at desc"]]


def an_index() -> Index:
    index = Index()
    for number in range(12):
        properties = {"a": TEXTS[number % 5]} if number % 3 else {}
        index.put(a_room(f"r{number}", players=number % 3, created_at=float(number), properties=properties))
    return index


def first_cursor(index: Index, query: Query, limit: int = 2) -> str:
    return index.search(query, now=NOW, limit=limit).cursor


@pytest.mark.parametrize("order_by", ORDERS)
def test_a_cursor_is_letters_that_a_url_can_carry(order_by: list[str]) -> None:
    cursor = first_cursor(an_index(), parse_query("", order_by))

    assert cursor
    assert set(cursor) <= set(string.ascii_letters + string.digits + "-_")


@pytest.mark.parametrize(
    ("where", "order_by", "kind"),
    [("players >= 0", ["players"], None), ("", ["players desc"], None), ("", [], None), ("", ["players"], "arena")],
)
def test_a_cursor_goes_on_no_other_search(where: str, order_by: list[str], kind: str | None) -> None:
    index = an_index()
    cursor = first_cursor(index, parse_query("", ["players"]))

    with pytest.raises(Invalid, match="a different search"):
        index.search(parse_query(where, order_by, kind), now=NOW, limit=2, cursor=cursor)


def test_a_cursor_is_good_for_another_index_of_the_same_rooms() -> None:
    """Such as that of a node that has started anew."""
    query = parse_query("", ["players desc", "name"])

    pages = [an_index().search(query, now=NOW, limit=4, cursor=first_cursor(an_index(), query)) for _ in range(2)]

    assert pages[0] == pages[1]
    assert pages[0].rows


def test_a_cursor_fits_its_field_whatever_the_texts() -> None:
    index, query = Index(), parse_query("", ["name", "creator", "host", "properties.a"])
    for number in range(2):
        room_id = f"{number}" * 64
        index.put(a_room(room_id, name="🦑" * 128, creator="🦑" * 128, host="🦑" * 128, properties={"a": "🦑" * 500}))

    cursor = first_cursor(index, query, limit=1)

    assert cursor
    msgspec.convert({"cursor": cursor}, Search)


def test_a_cursor_can_be_made_for_a_row() -> None:
    index, query = an_index(), parse_query("", ["players desc"])
    row = index.search(query, now=NOW, limit=5).rows[-1]

    assert query.cursor_after(row) == first_cursor(index, query, limit=5)


# What somebody else might send


def forged(query: Query, *fields: Any) -> str:
    """A cursor with the fingerprint of this search and a content of its own."""
    fingerprint = msgspec.msgpack.decode(urlsafe_b64decode(query.cursor_after(a_room()) + "=="))[0]
    return printable(msgspec.msgpack.encode([fingerprint, *fields]))


@every_case(
    "fields",
    [
        (),
        ([1], [1.0, "r0"]),
        ([1, 2, 3, 4], [1.0, "r0"]),
        ([1, 2, 3], None),
        ([], None),
        ([1, 2, 3], [float("nan"), "r0"]),
        ([1, 2, 3], [1.0]),
        ([1, 2, 3], ["r0", 1.0]),
        ([1, 2, [3]], [1.0, "r0"]),
        ([1, 2, {}], [1.0, "r0"]),
        ([1, 2, b"3"], [1.0, "r0"]),
        ([1, 2, 3], [1.0, "r0"], "more"),
    ],
)
def test_a_cursor_that_cannot_be_is_refused(fields: tuple[Any, ...]) -> None:
    query = parse_query("", ["players", "properties.a desc", "name"])

    with pytest.raises(Invalid):
        an_index().search(query, now=NOW, limit=2, cursor=forged(query, *fields))


@pytest.mark.parametrize("broken", ["{} ", "{}!", "\n{}", "{0}{0}", "ä{}"])
def test_a_cursor_that_was_not_copied_well_is_refused(broken: str) -> None:
    index, query = an_index(), parse_query("", ["players"])

    with pytest.raises(Invalid, match="invalid; start again"):
        index.search(query, now=NOW, limit=2, cursor=broken.format(first_cursor(index, query)))


scalars = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), st.text(max_size=40))
births = st.one_of(st.none(), st.tuples(st.floats(), st.text(max_size=8)))


@given(
    order_by=st.sampled_from(ORDERS),
    keys=st.lists(scalars, max_size=4),
    birth=births,
    where=st.sampled_from(["", "players > 0", "properties.a = 'a'", "age_s < 5"]),
    budget=st.sampled_from([1, 3, 4000]),
)
def test_a_forged_cursor_is_refused_or_points_somewhere(
    *, order_by: list[str], keys: list[Any], birth: Any, where: str, budget: int
) -> None:
    index, query = an_index(), parse_query(where, order_by)

    with suppress(Invalid):
        found = index.search(query, now=NOW, limit=20, cursor=forged(query, keys, birth), budget=budget)
        assert found.looked <= budget


@given(st.one_of(st.text(max_size=80), st.binary(max_size=60).map(printable)))
def test_any_text_is_refused_as_a_cursor(text: str) -> None:
    query = parse_query("", ["players"])

    with suppress(Invalid):
        found = an_index().search(query, now=NOW, limit=2, cursor=text)
        assert text == "", found


@given(st.integers(0, 200), st.characters())
def test_a_good_cursor_gone_bad_is_refused_or_points_somewhere(at: int, letter: str) -> None:
    index, query = an_index(), parse_query("", ["players", "name desc"])
    cursor = first_cursor(index, query)
    at %= len(cursor)

    with suppress(Invalid):
        index.search(query, now=NOW, limit=2, cursor=cursor[:at] + letter + cursor[at + 1 :])
