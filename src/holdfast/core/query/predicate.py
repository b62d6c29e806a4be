"""From a search as data to a function that tells whether it holds for a row. What holds is told in the package."""

import operator
from collections.abc import Callable, Sequence
from typing import Any, assert_never

from holdfast.core.query.ast import (
    AGE_S,
    CREATED_AT,
    MIRRORED,
    PROPERTIES,
    TERMS,
    And,
    Comparison,
    Expression,
    Membership,
    Not,
    Operator,
    Or,
    Value,
)
from holdfast.core.query.row import Row, reader
from holdfast.core.query.values import LISTS, RANKS, key_of, rank_of

Test = Callable[[Row, float], bool]
"""Whether something holds for a row now."""

_COMPARE: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQ: operator.eq,
    Operator.NE: operator.ne,
    Operator.LT: operator.lt,
    Operator.LE: operator.le,
    Operator.GT: operator.gt,
    Operator.GE: operator.ge,
}


def predicate(expression: Expression) -> Test:
    """The function for an expression."""
    match expression:
        case And(parts):
            return _every([predicate(part) for part in parts])
        case Or(parts):
            return _some([predicate(part) for part in parts])
        case Not(part):
            return _negated(predicate(part))
        case Membership(term, values):
            return _some([predicate(Comparison(term, Operator.EQ, value)) for value in values])
        case Comparison(term) if term.name == PROPERTIES:
            return _of_property(term.key, expression.operator, expression.value)
        case Comparison(term) if rank_of(expression.value) != RANKS[TERMS[term.name]]:
            return _always if expression.operator is Operator.NE else _never
        case Comparison(term) if term.name in (CREATED_AT, AGE_S):
            return _of_age(expression)
        case Comparison():
            return _of_room(expression)
        case _:
            assert_never(expression)


def born(comparison: Comparison, now: float) -> tuple[Operator, float]:
    """What a comparison of `created_at` or `age_s` with a number says of `created_at`."""
    number: float = key_of(comparison.value)[1]
    if comparison.term.name == AGE_S:
        return MIRRORED[comparison.operator], now - number
    return comparison.operator, number


def _always(_row: Row, _now: float) -> bool:
    return True


def _never(_row: Row, _now: float) -> bool:
    return False


def _negated(test: Test) -> Test:
    return lambda row, now: not test(row, now)


def _every(tests: Sequence[Test]) -> Test:
    def every(row: Row, now: float) -> bool:
        for test in tests:  # noqa: SIM110 - half the time of `all` and a generator, for every row that is looked at
            if not test(row, now):
                return False
        return True

    return every if tests else _always


def _some(tests: Sequence[Test]) -> Test:
    def some(row: Row, now: float) -> bool:
        for test in tests:  # noqa: SIM110 - as above
            if test(row, now):
                return True
        return False

    return some


def _of_room(comparison: Comparison) -> Test:
    read, compare, wanted = reader(comparison.term), _COMPARE[comparison.operator], comparison.value
    return lambda row, now: compare(read(row), wanted)


def _of_age(comparison: Comparison) -> Test:
    def holds(row: Row, now: float) -> bool:
        how, moment = born(comparison, now)
        return _COMPARE[how](row.created_at, moment)

    return holds


def _of_property(key: str, how: Operator, wanted: Value) -> Test:
    rank, compare = rank_of(wanted), _COMPARE[how]

    def equals(value: object) -> bool:
        return value == wanted and rank_of(value) == rank

    def is_or_has(row: Row, _now: float) -> bool:
        value = row.properties.get(key)
        return any(map(equals, value)) if isinstance(value, LISTS) else equals(value)

    def neither_is_nor_has(row: Row, _now: float) -> bool:
        value = row.properties.get(key)
        if isinstance(value, LISTS):
            return not any(map(equals, value))
        return rank_of(value) is not None and not equals(value)

    def stands_in_order(row: Row, _now: float) -> bool:
        value = row.properties.get(key)
        return rank_of(value) == rank and compare(value, wanted)

    match how:
        case Operator.EQ:
            return is_or_has
        case Operator.NE:
            return neither_is_nor_has
        case _:
            return stands_in_order
