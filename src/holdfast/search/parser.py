"""Parses tokens into a syntax tree. Nothing is evaluated here, and nesting is limited to `NESTING_MAX`."""

from collections.abc import Callable, Sequence

from holdfast.core.errors import Invalid
from holdfast.search.ast import (
    PROPERTIES,
    TERMS,
    And,
    Comparison,
    Expression,
    Membership,
    Not,
    Operator,
    Or,
    Ordering,
    Term,
    Value,
    conjunction,
)
from holdfast.search.lexer import Source, TokenKind, tokens

# Nested parentheses and NOTs: more than people write, far less than the interpreter's stack.
NESTING_MAX = 32
# Values of one IN.
IN_MAX = 100
# Terms of an order; a cursor contains all of them.
ORDER_BY_MAX = 4

_OPERATORS = {operator.value: operator for operator in Operator}
_BOOLEANS = {"TRUE": True, "FALSE": False}
_A_TERM = f"a term ({', '.join(TERMS)} or {PROPERTIES}.key)"
_A_VALUE = "a value (a number, true, false, or text in quotes)"
_AN_OPERATOR = f"{' '.join(_OPERATORS)} or IN"


def parse_where(text: str) -> Expression:
    """The expression of a `where`, or `Invalid` with the column of the error."""
    parser = _Parser(Source("where", text))
    if parser.ends():
        return And(())
    expression = parser.either()
    if not parser.ends():
        raise parser.expected("AND, OR or the end")
    return expression


def parse_order(order_by: Sequence[str]) -> tuple[Ordering, ...]:
    """The terms of an `order_by`, or `Invalid` likewise."""
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
        self._tokens = iter(tokens(source))
        self._token = next(self._tokens)
        self._depth = 0

    def ends(self) -> bool:
        """Whether everything has been read."""
        return self._token.kind is TokenKind.END

    def expected(self, what: str) -> Invalid:
        """The error for an unexpected token."""
        return self._source.complaint(self._token.column, f"expected {what}, found {self._token.shown}")

    def takes(self, keyword: str) -> bool:
        """Consume this word or symbol if it is next."""
        if self._token.keyword != keyword:
            return False
        self._next()
        return True

    def either(self) -> Expression:
        """A disjunction."""
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
        term = self.term("NOT, ( or ")
        if self.takes("IN"):
            return Membership(term, self._values())
        operator = _OPERATORS.get(self._token.keyword)
        if operator is None:
            raise self.expected(_AN_OPERATOR)
        self._next()
        return Comparison(term, operator, self._value())

    def term(self, or_else: str = "") -> Term:
        """A term; `or_else` names the alternatives in an error."""
        name = self._token.text
        if self._token.kind is not TokenKind.WORD or name not in (PROPERTIES, *TERMS):
            raise self.expected(or_else + _A_TERM)
        self._next()
        return Term(name, self._key()) if name == PROPERTIES else Term(name)

    def _key(self) -> str:
        if not self.takes("."):
            raise self.expected("a dot and the key of a property")
        if self._token.kind not in (TokenKind.WORD, TokenKind.TEXT):
            raise self.expected("the key of a property, in quotes unless it is a plain word")
        key = str(self._token.value)
        self._next()
        return key

    def _values(self) -> tuple[Value, ...]:
        if not self.takes("("):
            raise self.expected("( and the values")
        values = [self._value()]
        while self.takes(","):
            if len(values) == IN_MAX:
                raise self.expected(f"at most {IN_MAX} values")
            values.append(self._value())
        if not self.takes(")"):
            raise self.expected("a comma or )")
        return tuple(values)

    def _value(self) -> Value:
        value = self._token.value
        if self._token.kind is TokenKind.WORD and self._token.keyword in _BOOLEANS:
            value = _BOOLEANS[self._token.keyword]
        elif self._token.kind not in (TokenKind.NUMBER, TokenKind.TEXT):
            raise self.expected(_A_VALUE)
        self._next()
        return value

    def _next(self) -> None:
        self._token = next(self._tokens)
