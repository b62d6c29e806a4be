"""A search as data: what its text says, and nothing else."""

from dataclasses import dataclass
from enum import StrEnum

Value = bool | int | float | str

PROPERTIES = "properties"
CREATED_AT = "created_at"
AGES = (CREATED_AT, "age_s")
"""Two words for the same: the greater the one, the less the other."""

TERMS = {
    **dict.fromkeys(("id", "kind", "name", "phase", "creator", "host"), str),
    **dict.fromkeys(("players", "max_players", "open_seats"), int),
    **dict.fromkeys(AGES, float),
    **dict.fromkeys(("is_locked", "has_password"), bool),
}
"""What every room has, and of which type it is."""


class Operator(StrEnum):
    """How two values are compared."""

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
"""The older a room, the less its `created_at`."""


@dataclass(frozen=True, slots=True)
class Term:
    """What is compared: a name of `TERMS`, or one of the properties by its key."""

    name: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A term and a value."""

    term: Term
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class Membership:
    """A term and the values of which it should have one."""

    term: Term
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Holds if its part does not."""

    part: "Expression"


@dataclass(frozen=True, slots=True)
class And:
    """Holds if all parts do; of no parts: always. No part is an `And`."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Holds if one part does."""

    parts: tuple["Expression", ...]


Expression = Comparison | Membership | Not | And | Or


@dataclass(frozen=True, slots=True)
class Ordering:
    """One term of `order_by`."""

    term: Term
    is_descending: bool


def conjunction(*parts: Expression) -> Expression:
    """That all of these hold."""
    flat = tuple(inner for part in parts for inner in (part.parts if isinstance(part, And) else (part,)))
    return flat[0] if len(flat) == 1 else And(flat)
