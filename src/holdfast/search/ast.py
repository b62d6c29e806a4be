"""A search as data: the syntax tree."""

from dataclasses import dataclass
from enum import StrEnum

Value = bool | int | float | str

PROPERTIES = "properties"
CREATED_AT = "created_at"
AGES = (CREATED_AT, "age_s")
"""Equivalent terms with opposite order: the greater the one, the smaller the other."""

TERMS = {
    **dict.fromkeys(("id", "kind", "name", "phase", "creator", "host"), str),
    **dict.fromkeys(("players", "max_players", "open_seats"), int),
    **dict.fromkeys(AGES, float),
    **dict.fromkeys(("is_locked", "has_password"), bool),
}
"""The terms that every room has, and their types."""


class Operator(StrEnum):
    """The comparison operators."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


MIRRORED = {
    Operator.EQ: Operator.EQ,
    Operator.NE: Operator.NE,
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
}
"""The older a room, the smaller its `created_at`."""


@dataclass(frozen=True, slots=True)
class Term:
    """What is compared: a name of `TERMS`, or a property by its key."""

    name: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a term with a value."""

    term: Term
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class Membership:
    """A term and the values of which it must have one."""

    term: Term
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """True if its part is false."""

    part: "Expression"


@dataclass(frozen=True, slots=True)
class And:
    """True if all parts are; without parts: always. No part is an `And`."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True if one part is."""

    parts: tuple["Expression", ...]


Expression = Comparison | Membership | Not | And | Or


@dataclass(frozen=True, slots=True)
class Ordering:
    """One term of `order_by`."""

    term: Term
    is_descending: bool


def conjunction(*parts: Expression) -> Expression:
    """The conjunction of these."""
    flat = tuple(inner for part in parts for inner in (part.parts if isinstance(part, And) else (part,)))
    return flat[0] if len(flat) == 1 else And(flat)
