"""The search language: text to tokens to a syntax tree. The package docstring has the grammar.

Every error is an `Invalid` that points at its column.
"""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, floor
from typing import Any, NamedTuple, assert_never, get_type_hints

from holdfast.core.errors import Invalid
from holdfast.schemas.room import RoomInfo

# No meaningful number is longer.
NUMBER_CHARS_MAX = 40
# Nested parentheses and NOTs: more than people write, far less than the interpreter's stack.
NESTING_MAX = 32
# Values of one IN.
IN_MAX = 100
# Terms of an order; a cursor contains all of them.
ORDER_BY_MAX = 4
# How much of the text is shown on each side of an error.
_SHOWN_CHARS = 30

# The syntax tree

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
        *("players", "max_players", "open_seats", "spectators", "max_spectators", *AGES),
        *("is_locked", "has_password"),
    )
}
"""The terms that every room has, and their types: what searches see of a `RoomInfo`."""

# Amazon GameLift's terms, which O3DE has too: a filter that was written for them means the same here.
GAMELIFT_TERMS = {
    "gameSessionId": "id",
    "gameSessionName": "name",
    "gameSessionProperties": PROPERTIES,
    "maximumSessions": "max_players",
    "playerSessionCount": "players",
    # To sort by these two is to sort by ours; a comparison is translated.
    "creationTimeMillis": CREATED_AT,
    "hasAvailablePlayerSessions": "open_seats",
}
_TYPES = {
    **TERMS,
    **{theirs: TERMS[ours] for theirs, ours in GAMELIFT_TERMS.items() if ours != PROPERTIES},
    "hasAvailablePlayerSessions": bool,
}
_CONVERTED = ("creationTimeMillis", "hasAvailablePlayerSessions")
_MS_PER_S = 1000
# No room is created before or after; and a number that is infinite cannot be rounded.
_MILLIS_MAX = 10**18


class Operator(StrEnum):
    """The comparison operators."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


COMPARE: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQ: operator.eq,
    Operator.NE: operator.ne,
    Operator.LT: operator.lt,
    Operator.LE: operator.le,
    Operator.GT: operator.gt,
    Operator.GE: operator.ge,
}
MIRRORED = {
    Operator.EQ: Operator.EQ,
    Operator.NE: Operator.NE,
    Operator.LT: Operator.GT,
    Operator.GT: Operator.LT,
    Operator.LE: Operator.GE,
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


# Terms of GameLift


def _as_written(name: str, term: Term, how: Operator, value: Value) -> Expression:
    """A comparison, in our own terms if it was written in GameLift's."""
    match name:
        case "hasAvailablePlayerSessions":
            return _is_open(how, value)
        case "creationTimeMillis":
            return _created_at(how, value)
        case _:
            return Comparison(term, how, value)


def _is_open(how: Operator, value: Value) -> Expression:
    is_open = Comparison(Term("open_seats"), Operator.GT, 0)
    if_open, if_full = COMPARE[how](True, value), COMPARE[how](False, value)
    if if_open == if_full:
        return And(()) if if_open else Or(())
    return is_open if if_open else Not(is_open)


def _created_at(how: Operator, value: Value) -> Expression:
    """A comparison of whole milliseconds: it is true of every moment of one, or of none."""
    assert not isinstance(value, str)
    millis = max(-_MILLIS_MAX, min(value, _MILLIS_MAX))
    first, behind = ceil(millis) / _MS_PER_S, (floor(millis) + 1) / _MS_PER_S
    since = Comparison(Term(CREATED_AT), Operator.GE, first)
    until = Comparison(Term(CREATED_AT), Operator.LT, behind)
    match how:
        case Operator.LT:
            return Comparison(Term(CREATED_AT), Operator.LT, first)
        case Operator.LE:
            return until
        case Operator.GT:
            return Comparison(Term(CREATED_AT), Operator.GE, behind)
        case Operator.GE:
            return since
        case Operator.EQ:
            return And((since, until))
        case Operator.NE:
            return Not(And((since, until)))
        case _:
            assert_never(how)


# Tokens

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number> -?[0-9]+ (?:\.[0-9]+)? (?:[eE][+-]?[0-9]+)? )
      | (?P<word>   [^\W\d][\w-]* )
      | (?P<text>   '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
      | (?P<symbol> <> | <= | >= | [=<>(),.] )
      | (?P<end>    \Z )
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t"}
# Operators of other languages, and their equivalents.
_FOREIGN = {"==": "=", "!=": "<>", "&&": "AND", "||": "OR"}


class Token(NamedTuple):
    """A token: the name of its group in the pattern, its text, its value, and the column where it begins."""

    kind: str
    text: str
    value: Value
    column: int

    @property
    def keyword(self) -> str:
        """A word or symbol as the grammar spells it; empty for anything else."""
        return self.text.upper() if self.kind in ("word", "symbol") else ""


class Source(NamedTuple):
    """A text to parse, and its name in error messages."""

    name: str
    text: str

    def complaint(self, column: int, message: str) -> Invalid:
        """The error that points at a column, counted from 1."""
        start = max(0, column - 1 - _SHOWN_CHARS)
        shown = self.text[start : column - 1 + _SHOWN_CHARS]
        line = "".join(letter if letter.isprintable() else " " for letter in shown)
        return Invalid(f"{self.name}, column {column}: {message}\n  {line}\n  {' ' * (column - 1 - start)}^")

    def tokens(self) -> list[Token]:
        """All tokens of the text; the last is the end."""
        found: list[Token] = []
        position = 0
        while not found or found[-1].kind != "end":
            match = _TOKEN.match(self.text, position)
            if match is None:
                raise self._unreadable(position)
            kind = match.lastgroup
            assert kind is not None
            column = match.start(kind) + 1
            if self.text[column - 1 : column + 1] == "==":
                raise self._unreadable(column - 1)
            found.append(Token(kind, match[kind], self._value(kind, match[kind], column), column))
            position = match.end()
        return found

    def _value(self, kind: str, written: str, column: int) -> Value:
        def meant(escape: re.Match[str]) -> str:
            if escape[1] not in _ESCAPED:
                where = column + 1 + escape.start()
                raise self.complaint(where, f"expected one of {' '.join(_ESCAPED)} after the backslash")
            return _ESCAPED[escape[1]]

        if kind == "text":
            return _ESCAPE.sub(meant, written[1:-1])
        if kind != "number":
            return written
        if len(written) > NUMBER_CHARS_MAX:
            raise self.complaint(column, f"expected a number of at most {NUMBER_CHARS_MAX} characters")
        return int(written) if written.lstrip("-").isdigit() else float(written)

    def _unreadable(self, position: int) -> Invalid:
        while self.text[position].isspace():
            position += 1
        letter, word = self.text[position], self.text[position : position + 2]
        message = f"expected a term, a value or an operator, found {letter!r}"
        if word in _FOREIGN:
            message = f"write {_FOREIGN[word]} for {word}"
        elif letter in "'\"":
            message = f"expected another {letter} where this text ends"
        return self.complaint(position + 1, message)


# The parser

_OPERATORS = {operator.value: operator for operator in Operator}
_BOOLEANS = {"TRUE": True, "FALSE": False}
_A_TERM = f"a term ({', '.join(TERMS)} or {PROPERTIES}.key)"
_A_VALUE = "a value (a number, true, false, or text in quotes)"
_VALUES = {bool: "true or false", int: "a number", float: "a number", str: "text in quotes"}
_AN_OPERATOR = f"{' '.join(_OPERATORS)} or IN"


def parse_where(text: str) -> Expression:
    """The expression of a `where`."""
    parser = _Parser(Source("where", text))
    if parser.ends():
        return And(())
    expression = parser.either()
    if not parser.ends():
        raise parser.expected("AND, OR or the end")
    return expression


def parse_order(order_by: Sequence[str]) -> tuple[Ordering, ...]:
    """The terms of an `order_by`."""
    if len(order_by) > ORDER_BY_MAX:
        raise Invalid(f"order_by: expected at most {ORDER_BY_MAX} terms, found {len(order_by)}")
    return tuple(_ordering(Source(f"order_by[{number}]", text)) for number, text in enumerate(order_by))


def _ordering(source: Source) -> Ordering:
    parser = _Parser(source)
    term = parser.term()
    is_descending = parser.takes("DESC")
    says_direction = is_descending or parser.takes("ASC")
    if not parser.ends():
        raise parser.expected("the end" if says_direction else "ASC, DESC or the end")
    return Ordering(term, is_descending)


class _Parser:
    """A recursive descent parser; each method parses what it is named for, or raises what it expected."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._tokens = iter(source.tokens())
        self._token = next(self._tokens)
        self._depth = 0

    def ends(self) -> bool:
        return self._token.kind == "end"

    def expected(self, what: str) -> Invalid:
        """The error for an unexpected token."""
        found = repr(self._token.text[:_SHOWN_CHARS]) if self._token.text else "the end"
        return self._source.complaint(self._token.column, f"expected {what}, found {found}")

    def takes(self, keyword: str) -> bool:
        """Consume this word or symbol if it is next."""
        if self._token.keyword != keyword:
            return False
        self._next()
        return True

    def either(self) -> Expression:
        parts = [self._both()]
        while self.takes("OR"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _both(self) -> Expression:
        parts = [self._negation()]
        while self.takes("AND"):
            parts.append(self._negation())
        return conjunction(*parts)

    def _negation(self) -> Expression:
        column = self._token.column
        if self.takes("NOT"):
            return Not(self._deeper(self._negation, column))
        if self.takes("("):
            expression = self._deeper(self.either, column)
            if not self.takes(")"):
                raise self.expected("AND, OR or )")
            return expression
        return self._comparison()

    def _deeper(self, parse: Callable[[], Expression], column: int) -> Expression:
        if self._depth == NESTING_MAX:
            raise self._source.complaint(column, f"expected at most {NESTING_MAX} NOTs and parentheses in each other")
        self._depth += 1
        expression = parse()
        self._depth -= 1
        return expression

    def _comparison(self) -> Expression:
        name = self._token.text
        term = self.term("NOT, ( or ")
        if self.takes("IN"):
            values = self._values(name)
            if name in _CONVERTED:
                return Or(tuple(_as_written(name, term, Operator.EQ, value) for value in values))
            return Membership(term, values)
        how = _OPERATORS.get(self._token.keyword)
        if how is None:
            raise self.expected(_AN_OPERATOR)
        self._next()
        return _as_written(name, term, how, self._value(name))

    def term(self, or_else: str = "") -> Term:
        """A term; `or_else` names the alternatives in an error."""
        name = GAMELIFT_TERMS.get(self._token.text, self._token.text)
        if self._token.kind != "word" or name not in (PROPERTIES, *TERMS):
            raise self.expected(or_else + _A_TERM)
        self._next()
        if name != PROPERTIES:
            return Term(name)
        if not self.takes("."):
            raise self.expected("a dot and the key of a property")
        if self._token.kind not in ("word", "text"):
            raise self.expected("the key of a property, in quotes unless it is a plain word")
        return Term(name, str(self._next().value))

    def _values(self, of: str) -> tuple[Value, ...]:
        if not self.takes("("):
            raise self.expected("( and the values")
        values = [self._value(of)]
        while self.takes(","):
            if len(values) == IN_MAX:
                raise self.expected(f"at most {IN_MAX} values")
            values.append(self._value(of))
        if not self.takes(")"):
            raise self.expected("a comma or )")
        return tuple(values)

    def _value(self, of: str) -> Value:
        """A value of the type that the term has; a property may have any."""
        token = self._token
        is_boolean = token.keyword in _BOOLEANS
        if not is_boolean and token.kind not in ("number", "text"):
            raise self.expected(_A_VALUE)
        value = _BOOLEANS[token.keyword] if is_boolean else token.value
        needed = _VALUES[_TYPES[of]] if of in _TYPES else ""
        if needed and needed != _VALUES[type(value)]:
            raise self.expected(f"{needed}, because that is what {of} is")
        self._next()
        return value

    def _next(self) -> Token:
        """Consume a token; the end is never consumed."""
        token, self._token = self._token, next(self._tokens)
        return token
