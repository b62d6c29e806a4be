"""A search as data: the syntax tree."""

from dataclasses import dataclass
from enum import StrEnum
from typing import get_type_hints

from holdfast.schemas.room import RoomInfo

Value = bool | int | float | str

PROPERTIES = "properties"
CREATED_AT = "created_at"
AGES = (CREATED_AT, "age_s")
"""Equivalent terms with opposite order: the greater the one, the smaller the other."""

_SHOWN = {**get_type_hints(RoomInfo), "age_s": float}
TERMS = {
    name: _SHOWN[name]
    for name in (
        *("id", "kind", "name", "phase", "creator", "host"),
        *("players", "max_players", "open_seats", *AGES),
        *("is_locked", "has_password"),
    )
}
"""The terms that every room has, and their types: what searches see of a `RoomInfo`."""


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
