"""What can be written in a search, what it means, and what is said about what cannot be read."""

import re
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.core.errors import Invalid
from holdfast.schemas.requests import EXPRESSION_CHARS_MAX
from holdfast.search import parse_query
from holdfast.search.language import (
    IN_MAX,
    NESTING_MAX,
    ORDER_BY_MAX,
    And,
    Comparison,
    Expression,
    Membership,
    Not,
    Operator,
    Or,
    Ordering,
    Term,
    parse_order,
    parse_where,
)
from tests.cases import every_case
from tests.search.oracle import expressions, order_written, orderings, written

PLAYERS, OPEN_SEATS, PHASE, LEVEL = Term("players"), Term("open_seats"), Term("phase"), Term("properties", "level")
A = Comparison(PLAYERS, Operator.EQ, 1)
B = Comparison(PLAYERS, Operator.EQ, 2)
C = Comparison(PLAYERS, Operator.EQ, 3)


@every_case("sign", list(Operator))
def test_a_term_is_compared_with_a_value(sign: Operator) -> None:
    assert parse_where(f"players {sign.value} 3") == Comparison(PLAYERS, sign, 3)


@every_case(
    ("text", "value"),
    [
        ("0", 0),
        ("-7", -7),
        ("1.5", 1.5),
        ("-0.25", -0.25),
        ("1e3", 1000.0),
        ("2.5E-1", 0.25),
        ("true", True),
        ("FALSE", False),
        ("'dust'", "dust"),
        ('"dust"', "dust"),
        ("''", ""),
        (r"'it\'s'", "it's"),
        ('"it\'s"', "it's"),
        (r'"a \"quote\", a \\ and a\nline"', 'a "quote", a \\ and a\nline'),
        ("'größer als ☃'", "größer als ☃"),
        ("'AND (players'", "AND (players"),
    ],
)
def test_values_are_numbers_booleans_and_text(text: str, value: object) -> None:
    expression = parse_where(f"properties.level = {text}")

    assert isinstance(expression, Comparison)
    assert (type(expression.value), expression.value) == (type(value), value)


@every_case(
    ("text", "key"),
    [
        ("properties.level", "level"),
        ("properties.map-size_2", "map-size_2"),
        ("properties.größe", "größe"),
        ("properties.in", "in"),
        ("properties.NOT", "NOT"),
        ('properties."a key"', "a key"),
        ("properties.'a.b'", "a.b"),
        (r"properties.'it\'s'", "it's"),
    ],
)
def test_properties_are_named_by_their_keys(text: str, key: str) -> None:
    assert parse_where(f"{text} = 1") == Comparison(Term("properties", key), Operator.EQ, 1)


def test_in_lists_the_values() -> None:
    assert parse_where("properties.level IN ('lobby', 2, true)") == Membership(LEVEL, ("lobby", 2, True))
    assert parse_where("phase in('lobby')") == Membership(PHASE, ("lobby",))


@every_case(
    ("text", "meaning"),
    [
        ("players=1 OR players=2 AND players=3", Or((A, And((B, C))))),
        ("players=1 AND players=2 OR players=3", Or((And((A, B)), C))),
        ("NOT players=1 AND players=2", And((Not(A), B))),
        ("NOT players=1 OR players=2", Or((Not(A), B))),
        ("NOT (players=1 OR players=2)", Not(Or((A, B)))),
        ("(players=1 OR players=2) AND players=3", And((Or((A, B)), C))),
        ("players=1 AND (players=2 AND players=3)", And((A, B, C))),
        ("NOT NOT players=1", Not(Not(A))),
        ("((players=1))", A),
    ],
)
def test_not_binds_closer_than_and_and_and_closer_than_or(text: str, meaning: Expression) -> None:
    assert parse_where(text) == meaning


@pytest.mark.parametrize(
    "text",
    [
        "players=1AND(players=2OR NOT(players=3))",
        "players = 1 and ( players = 2 or not ( players = 3 ) )",
        "\n players\t=1  And(players =2 oR nOt players= 3)\n",
    ],
)
def test_spaces_are_optional_and_keywords_have_any_case(text: str) -> None:
    assert parse_where(text) == And((A, Or((B, Not(C)))))


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_no_condition_is_met_by_every_room(text: str) -> None:
    assert parse_where(text) == And(())


def test_rooms_are_ordered_by_terms_either_way() -> None:
    assert parse_order(["players desc", "properties.level", 'properties."a key" ASC', "created_at DESC"]) == (
        Ordering(PLAYERS, is_descending=True),
        Ordering(LEVEL, is_descending=False),
        Ordering(Term("properties", "a key"), is_descending=False),
        Ordering(Term("created_at"), is_descending=True),
    )


@given(expressions, orderings)
def test_what_was_meant_is_what_is_read(where: Expression, order_by: list[Ordering]) -> None:
    assert flat(parse_where(written(where))) == flat(where)
    assert parse_order(order_written(order_by)) == tuple(order_by)


def flat(expression: Expression) -> Expression:
    """Without an AND in an AND, which the parser does not keep apart either."""
    match expression:
        case And(parts):
            flattened = [flat(part) for part in parts]
            return And(tuple(each for part in flattened for each in (part.parts if isinstance(part, And) else (part,))))
        case Or(parts):
            return Or(tuple(flat(part) for part in parts))
        case Not(part):
            return Not(flat(part))
        case _:
            return expression


# What cannot be read


@every_case(
    ("where", "column", "expected"),
    [
        ("players", 8, "expected = <> < <= > >= or IN, found the end"),
        ("players > ", 11, "expected a value (a number, true, false, or text in quotes), found the end"),
        ("players > lobby", 11, "expected a value (a number, true, false, or text in quotes), found 'lobby'"),
        ("3 < players", 1, "expected NOT, ( or a term (id, kind, name,"),
        ("player > 3", 1, "found 'player'"),
        ("players > 3 AND", 16, "expected NOT, ( or a term"),
        ("players > 3 open_seats > 0", 13, "expected AND, OR or the end, found 'open_seats'"),
        ("players > 3 & open_seats > 0", 13, "found '&'"),
        ("(players > 3", 13, "expected AND, OR or ), found the end"),
        ("players > 3)", 12, "expected AND, OR or the end, found ')'"),
        ("properties = 3", 12, "expected a dot and the key of a property, found '='"),
        ("properties. = 3", 13, "expected the key of a property, in quotes unless it is a plain word, found '='"),
        ("properties.a.b = 3", 13, "expected = <> < <= > >= or IN, found '.'"),
        ("properties.2v2 = 3", 12, "expected the key of a property"),
        ("phase IN 'lobby'", 10, "expected ( and the values"),
        ("phase IN ()", 11, "expected a value"),
        ("phase IN ('lobby' 'playing')", 19, "expected a comma or ), found \"'playing'\""),
        ("name = 'dust", 8, "expected another ' where this text ends"),
        ("name = \"dust'", 8, 'expected another " where this text ends'),
        (r"name = 'd\ust'", 10, "after the backslash"),
        (f"players > {'9' * 41}", 11, "expected a number of at most 40 characters"),
        ("players = '4'", 11, "expected a number, because that is what players is, found \"'4'\""),
        ("age_s < true", 9, "expected a number, because that is what age_s is, found 'true'"),
        ("name <> 3", 9, "expected text in quotes, because that is what name is, found '3'"),
        ("is_locked = 'true'", 13, "expected true or false, because that is what is_locked is"),
        ("players IN (1, 'two')", 16, "expected a number, because that is what players is"),
        ("maximumSessions >= '8'", 20, "expected a number, because that is what maximumSessions is"),
        ("hasAvailablePlayerSessions = 1", 30, "expected true or false, because that is what hasAvail"),
    ],
)
def test_a_mistake_is_shown_where_it_is(where: str, column: int, expected: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_query(where, [])

    message, _, pointer = str(caught.value).split("\n")
    assert message.startswith(f"where, column {column}: ")
    assert expected in message
    assert pointer.index("^") == 2 + column - 1


def test_a_mistake_far_inside_is_shown_with_what_stands_around_it() -> None:
    where = "players > 3 AND " * 20 + "oops = 1" + " AND players > 3" * 20

    with pytest.raises(Invalid) as caught:
        parse_query(where, [])

    message, shown, pointer = str(caught.value).split("\n")
    assert f"column {where.index('oops') + 1}:" in message
    assert shown[pointer.index("^") :].startswith("oops")
    assert len(shown) < 80


@pytest.mark.parametrize(
    ("order_by", "mistake"),
    [
        (["players", "level"], "order_by[1], column 1: expected a term"),
        (["players down"], "order_by[0], column 9: expected ASC, DESC or the end, found 'down'"),
        (["players desc asc"], "order_by[0], column 14: expected the end, found 'asc'"),
        ([""], "order_by[0], column 1: expected a term"),
        (["players"] * (ORDER_BY_MAX + 1), "order_by: expected at most 4 terms, found 5"),
    ],
)
def test_a_mistake_in_an_order_is_shown_too(order_by: list[str], mistake: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_query("", order_by)

    assert str(caught.value).startswith(mistake)


@pytest.mark.parametrize("deeper", ["(", "NOT ", "NOT(", "(NOT "])
def test_nesting_has_an_end(deeper: str) -> None:
    with pytest.raises(Invalid, match=f"at most {NESTING_MAX} NOTs and parentheses in each other"):
        parse_where(deeper * EXPRESSION_CHARS_MAX)


def test_nesting_up_to_the_limit_is_understood() -> None:
    where = "(" * NESTING_MAX + "players=1" + ")" * NESTING_MAX + " OR players=2"

    assert parse_where(where) == Or((A, B))


def test_in_has_a_limit() -> None:
    values = ",".join(["1"] * IN_MAX)

    assert parse_where(f"players IN ({values})") == Membership(PLAYERS, (1,) * IN_MAX)
    with pytest.raises(Invalid, match=f"at most {IN_MAX} values"):
        parse_where(f"players IN ({values},1)")


WORDS = [
    *("players", "name", "age_s", "properties", ".", "level", "=", "<>", "<", ">=", "AND", "or", "Not", "IN", "(", ")"),
    *(",", "1", "-2.5", "1e999", "true", "'text'", '"', "'", "\\", "!", "\x00", "\ud800", " ", "desc"),
]


@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(WORDS), max_size=24).map("".join)))
@example("\u2028players=1")
@example("players=\u0663")
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(Invalid):
        parse_where(text)
    with suppress(Invalid):
        parse_order([text])


@pytest.mark.parametrize(
    ("where", "column", "cure"),
    [
        ("players == 1", 9, "write = for =="),
        ("players != 1", 9, "write <> for !="),
        ("players = 1 && phase = 'lobby'", 13, "write AND for &&"),
        ("players = 1 || phase = 'lobby'", 13, "write OR for ||"),
    ],
)
def test_what_other_languages_write_is_answered_with_how_it_is_written_here(where: str, column: int, cure: str) -> None:
    with pytest.raises(Invalid, match=re.escape(f"where, column {column}: {cure}")):
        parse_query(where, ())
