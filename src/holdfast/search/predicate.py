"""Compiles a search into a function that tests a row. The package docstring has the rules."""

from collections.abc import Callable, Sequence
from typing import Any, assert_never

from holdfast.schemas.room import RoomInfo
from holdfast.search.language import (
    AGES,
    COMPARE,
    CREATED_AT,
    MIRRORED,
    PROPERTIES,
    And,
    Comparison,
    Expression,
    Membership,
    Not,
    Operator,
    Or,
    Term,
    Value,
)
from holdfast.search.order import LISTS, RANKS, key_of, rank_of, reader

Test = Callable[[RoomInfo, float], bool]
"""Tests a row at a time."""


def predicate(expression: Expression) -> Test:
    """The function for an expression."""
    match expression:
        case And(parts):
            return _every([predicate(part) for part in sorted(parts, key=_effort)])
        case Or(parts):
            return _some([predicate(part) for part in parts])
        case Not(part):
            test = predicate(part)
            return lambda row, now: not test(row, now)
        case Membership(term, values):
            return _membership(term, values)
        case Comparison(term, how, value):
            return _comparison(term, how, value)
        case _:
            assert_never(expression)


def weight_of(expression: Expression) -> int:
    """The number of comparisons in an expression; an IN is one, however long."""
    match expression:
        case And(parts) | Or(parts):
            return sum(map(weight_of, parts))
        case Not(part):
            return weight_of(part)
        case Membership(term, values) if term.name in AGES:
            return len(values)
        case _:
            return 1


def _effort(expression: Expression) -> int:
    """Cheap tests come first: most rooms are rejected without reading their properties."""
    match expression:
        case Comparison(term) | Membership(term):
            return int(term.name == PROPERTIES)
        case _:
            return 1 + weight_of(expression)


def _every(tests: Sequence[Test]) -> Test:
    def every(row: RoomInfo, now: float) -> bool:
        for test in tests:  # noqa: SIM110 - half the time of `all` and a generator, for each row
            if not test(row, now):
                return False
        return True

    return every


def _some(tests: Sequence[Test]) -> Test:
    def some(row: RoomInfo, now: float) -> bool:
        for test in tests:  # noqa: SIM110 - as above
            if test(row, now):
                return True
        return False

    return some


def _comparison(term: Term, how: Operator, wanted: Value) -> Test:
    if term.name == PROPERTIES:
        return _of_property(term.key, how, wanted)
    compare, number = COMPARE[how], key_of(wanted)[1]
    if term.name == CREATED_AT:
        return lambda row, now: compare(row.created_at, number)
    if term.name in AGES:
        mirrored = COMPARE[MIRRORED[how]]
        return lambda row, now: mirrored(row.created_at, now - number)
    read = reader(term)
    return lambda row, now: compare(read(row), wanted)


def _of_property(key: str, how: Operator, wanted: Value) -> Test:
    rank, compare = rank_of(wanted), COMPARE[how]
    kinds = frozenset(kind for kind in RANKS if RANKS[kind] == rank)

    def equals(value: object) -> bool:
        return value == wanted and rank_of(value) == rank

    def is_or_has(row: RoomInfo, _now: float) -> bool:
        value = row.properties.get(key)
        if value == wanted:
            return rank_of(value) == rank
        return isinstance(value, LISTS) and any(map(equals, value))

    def neither_is_nor_has(row: RoomInfo, _now: float) -> bool:
        value = row.properties.get(key)
        if isinstance(value, LISTS):
            return not any(map(equals, value))
        return rank_of(value) is not None and not equals(value)

    def stands_in_order(row: RoomInfo, _now: float) -> bool:
        value = row.properties.get(key)
        return (type(value) in kinds or rank_of(value) == rank) and compare(value, wanted)

    return {Operator.EQ: is_or_has, Operator.NE: neither_is_nor_has}.get(how, stands_in_order)


def _membership(term: Term, values: tuple[Value, ...]) -> Test:
    if term.name in AGES:
        return _some([_comparison(term, Operator.EQ, value) for value in values])
    read = reader(term)
    by_rank = {rank: frozenset(value for value in values if rank_of(value) == rank) for rank in RANKS.values()}
    by_kind = {kind: by_rank[rank] for kind, rank in RANKS.items()}

    def is_choice(value: Any) -> bool:
        choices = by_kind.get(type(value))
        if choices is None:
            rank = rank_of(value)
            return rank is not None and value in by_rank[rank]
        return value in choices

    def is_or_has(row: RoomInfo, _now: float) -> bool:
        value = read(row)
        return any(map(is_choice, value)) if isinstance(value, LISTS) else is_choice(value)

    return is_or_has
