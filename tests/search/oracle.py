"""Searches done the slow way, straight from what the package promises; and rows and searches to try it with."""

import operator
from collections.abc import Callable, Iterable
from functools import cmp_to_key
from math import inf
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.schemas.room import RoomInfo
from holdfast.search.language import And, Comparison, Expression, Membership, Not, Operator, Or, Ordering, Term, Value

NOW = 10.0
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ROOM = RoomInfo(
    id="r0", kind="arena", name="", players=1, max_players=4, open_seats=3, created_at=1.0, phase="lobby", properties={}
)


def a_room(room_id: str = "r0", **changes: Any) -> RoomInfo:
    """A room like another, but for this."""
    return replace(ROOM, id=room_id, **changes)


# What holds


def type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "0 boolean"
    if isinstance(value, int | float) and value == value:  # noqa: PLR0124 - not NaN
        return "1 number"
    return "2 text" if isinstance(value, str) else ""


def compared(value: Any, how: Operator, wanted: Value) -> bool:
    if isinstance(value, list | tuple):
        has = any(type_of(each) and compared(each, Operator.EQ, wanted) for each in value)
        return has if how is Operator.EQ else not has if how is Operator.NE else False
    if not type_of(value):
        return False
    if type_of(value) != type_of(wanted):
        return how is Operator.NE
    return COMPARE[how](value, wanted)


def value_of(row: RoomInfo, term: Term) -> object:
    return row.properties.get(term.key) if term.name == "properties" else getattr(row, term.name)


def holds(expression: Expression, row: RoomInfo, now: float) -> bool:
    match expression:
        case And(parts):
            return all(holds(part, row, now) for part in parts)
        case Or(parts):
            return any(holds(part, row, now) for part in parts)
        case Not(part):
            return not holds(part, row, now)
        case Membership(term, values):
            return any(holds(Comparison(term, Operator.EQ, value), row, now) for value in values)
        case Comparison(Term("age_s"), how, value):
            return compared(now - row.created_at, how, value)
        case Comparison(term, how, value):
            return compared(value_of(row, term), how, value)


def scanned(
    rows: Iterable[RoomInfo], where: Expression, order_by: Iterable[Ordering], now: float = NOW
) -> list[RoomInfo]:
    """The rows for which an expression holds, in order."""
    orderings = list(order_by)

    def compare(one: RoomInfo, other: RoomInfo) -> int:
        for term, is_descending in ((each.term, each.is_descending) for each in orderings):
            if term.name in ("created_at", "age_s"):
                is_younger = (one.created_at, one.id) > (other.created_at, other.id)
                return 1 if is_younger == (is_descending == (term.name == "age_s")) else -1
            places = [(type_of(value), cut(value)) for value in (value_of(one, term), value_of(other, term))]
            missing = [not rank for rank, _ in places]
            if missing[0] != missing[1]:
                return 1 if missing[0] else -1
            if not missing[0] and places[0] != places[1]:
                return 1 if (places[0] > places[1]) != is_descending else -1
        return 1 if (one.created_at, one.id) > (other.created_at, other.id) else -1

    return sorted((row for row in rows if holds(where, row, now)), key=cmp_to_key(compare))


def cut(value: Any) -> Any:
    """As much of a value as decides the order: 32 letters of a text, of a very large number its nearest float."""
    if isinstance(value, str):
        return value[:32]
    if isinstance(value, int) and not -(2**63) < value < 2**63:
        try:
            return float(value)
        except OverflowError:
            return inf if value > 0 else -inf
    return value


# Few different values, so that they meet; and some at the edges of what a key can hold

TEXTS = ["", "a", "b", "it's", "new\nline", *("x" * length for length in (31, 32, 33)), "x" * 32 + "y"]
LARGE = [0, -1.5, 2**62, 2**63, 2**70, 2**70 + 1, float(2**70), -(2**80), 1e300]
SMALL: list[Value] = [0, 1, 1.0, 2, "a", "b", True, False]
UNSEARCHABLE: list[Any] = [None, {}, float("nan"), b"a"]

small = st.sampled_from(SMALL)
texts = st.sampled_from(TEXTS)
large = st.sampled_from(LARGE)
lists = st.lists(st.one_of(small, small, st.sampled_from([*UNSEARCHABLE, ["a"]])), max_size=3)
properties = st.fixed_dictionaries(
    {},
    optional={
        "a": small,
        "a key": st.one_of(small, lists, st.sampled_from(UNSEARCHABLE)),
        "large": st.one_of(large, st.sampled_from([10**400, -(10**400)])),
        "text": texts,
    },
)
rows = st.builds(
    RoomInfo,
    id=st.sampled_from([f"r{number}" for number in range(16)]),
    kind=st.sampled_from(["arena", "coop"]),
    name=texts,
    players=st.integers(0, 2),
    max_players=st.just(4),
    open_seats=st.integers(0, 2),
    created_at=st.sampled_from([1.0, 2.0, 2.5, 9.0]),
    phase=st.just("lobby"),
    properties=properties,
    is_locked=st.booleans(),
)


def properties_named(*keys: str) -> st.SearchStrategy[Term]:
    return st.sampled_from([Term("properties", key) for key in keys])


def terms_named(*names: str) -> st.SearchStrategy[Term]:
    return st.sampled_from([Term(name) for name in names])


def comparisons(terms: st.SearchStrategy[Term], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Expression]:
    how = st.sampled_from(list(Operator))
    some = st.lists(values, min_size=1, max_size=3).map(tuple)
    return st.one_of(*[st.builds(Comparison, terms, how, values)] * 3, st.builds(Membership, terms, some))


anything = st.one_of(
    comparisons(terms_named("players", "open_seats"), st.integers(-1, 3)),
    comparisons(terms_named("kind"), st.sampled_from(["arena", "coop"])),
    comparisons(terms_named("is_locked"), st.booleans()),
    comparisons(terms_named("id"), st.sampled_from(["r1", "r2", "r11"])),
    comparisons(terms_named("created_at"), st.sampled_from([1, 2.0, 2.25, 9])),
    comparisons(terms_named("age_s"), st.sampled_from([9, 8.0, 7.75, 1])),
    comparisons(properties_named("a", "a key", "unknown"), small),
    comparisons(properties_named("large"), large),
    comparisons(st.one_of(terms_named("name"), properties_named("text")), texts),
    comparisons(terms_named("players", "age_s"), large),
    comparisons(properties_named("a", "text", "large"), st.one_of(small, texts, large)),
)
ordered_terms = st.one_of(
    terms_named("players", "kind", "is_locked", "players", "kind", "is_locked", "name", "id", "created_at", "age_s"),
    properties_named("a", "a key", "large", "text", "unknown"),
)
orderings = st.lists(st.builds(Ordering, ordered_terms, st.booleans()), max_size=4)


def _larger(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(parts, min_size=2, max_size=3).map(tuple)
    return st.one_of(st.builds(Not, parts), st.builds(And, several), st.builds(Or, several))


expressions = st.one_of(st.just(And(())), anything, st.recursive(anything, _larger, max_leaves=5))


# As text


def written(expression: Expression) -> str:
    """An expression as somebody might write it."""
    match expression:
        case And(parts):
            return " AND ".join(f"({written(part)})" for part in parts)
        case Or(parts):
            return " or ".join(f"({written(part)})" for part in parts)
        case Not(part):
            return f"Not ({written(part)})"
        case Membership(term, values):
            return f"{term_written(term)} in ({','.join(map(value_written, values))})"
        case Comparison(term, how, value):
            return f"{term_written(term)}{how.value}{value_written(value)}"


def order_written(order_by: Iterable[Ordering]) -> list[str]:
    return [term_written(each.term) + (" desc" if each.is_descending else "") for each in order_by]


def term_written(term: Term) -> str:
    return f"{term.name}.{value_written(term.key)}" if term.name == "properties" else term.name


def value_written(value: Value) -> str:
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
    return str(value).lower() if isinstance(value, bool) else repr(value)
