"""Properties that are compared with values of another type: such a comparison is never true, and seldom meant."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, assert_never

from holdfast.search.language import PROPERTIES, And, Comparison, Expression, Membership, Not, Operator, Or
from holdfast.search.order import BOOLEAN, LISTS, NUMBER, TEXT, rank_of

_WORDS = {BOOLEAN: "true or false", NUMBER: "a number", TEXT: "text"}


def types_compared(where: Expression) -> dict[str, set[int]]:
    """The properties that a search compares, and the types of which their values must have one to match."""
    found: dict[str, set[int]] = {}
    for key, rank in _needed(where, is_negated=False):
        found.setdefault(key, set()).add(rank)
    return found


def _needed(where: Expression, *, is_negated: bool) -> Iterator[tuple[str, int]]:
    match where:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _needed(part, is_negated=is_negated)
        case Not(part):
            yield from _needed(part, is_negated=not is_negated)
        case Comparison(term, how, value):
            # A value of another type is unequal.
            if term.name == PROPERTIES and (how is Operator.NE) == is_negated:
                yield term.key, _rank(value)
        case Membership(term, values):
            if term.name == PROPERTIES and not is_negated:
                yield from ((term.key, _rank(value)) for value in values)
        case _:
            assert_never(where)


def other_types(ranks: Collection[int]) -> list[int]:
    """The types that are none of these."""
    return [rank for rank in _WORDS if rank not in ranks]


def kind_of(where: Expression) -> str:
    """The kind of room that a search is restricted to; empty: any."""
    for part in where.parts if isinstance(where, And) else (where,):
        match part:
            case Comparison(term, Operator.EQ, str(value)) if term.name == "kind":
                return value
    return ""


def conflict(where: Expression, properties: Mapping[str, Any]) -> str:
    """How these properties contradict a search in their types; empty: they do not."""
    for key, wanted in types_compared(where).items():
        value = properties.get(key)
        if _ranks(value) and not _ranks(value) & wanted:
            return mismatch(key, value, wanted)
    return ""


def mismatch(key: str, value: Any, wanted: Collection[int]) -> str:
    """That a property has this value, and is compared with those types."""
    name = f"{PROPERTIES}.{key}" if key.isidentifier() else f'{PROPERTIES}."{key}"'
    return f"{name} is compared with {_named(wanted)}, and is {_named(_ranks(value))}"


def _named(ranks: Collection[int]) -> str:
    return " or ".join(_WORDS[rank] for rank in sorted(ranks))


def _ranks(value: Any) -> set[int]:
    """The type of a value, or those of a list's elements."""
    found = map(rank_of, value if isinstance(value, LISTS) else (value,))
    return {rank for rank in found if rank is not None}


def _rank(value: Any) -> int:
    rank = rank_of(value)
    assert rank is not None
    return rank
