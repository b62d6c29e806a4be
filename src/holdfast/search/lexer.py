"""Text to tokens, each with its column; and error messages that point at one."""

import re
from enum import Enum
from typing import NamedTuple

from holdfast.core.errors import Invalid
from holdfast.search.ast import Value

# No meaningful number is longer.
NUMBER_CHARS_MAX = 40
# How much of the text is shown on each side of an error.
_SHOWN_CHARS = 30

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


class TokenKind(Enum):
    """What a token is."""

    NUMBER = "number"
    WORD = "word"
    TEXT = "text"
    SYMBOL = "symbol"
    END = "end"


class Token(NamedTuple):
    """A token: its text, its value, and the column where it begins."""

    kind: TokenKind
    text: str
    value: Value
    column: int

    @property
    def keyword(self) -> str:
        """A word or symbol as the grammar spells it; empty for anything else."""
        return self.text.upper() if self.kind in (TokenKind.WORD, TokenKind.SYMBOL) else ""

    @property
    def shown(self) -> str:
        """Its name in an error message."""
        return repr(self.text[:_SHOWN_CHARS]) if self.text else "the end"


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


# Operators of other languages, and their equivalents.
_FOREIGN = {"==": "=", "!=": "<>", "&&": "AND", "||": "OR"}


def tokens(source: Source) -> list[Token]:
    """All tokens of the text; the last is the end."""
    found: list[Token] = []
    position = 0
    while not found or found[-1].kind is not TokenKind.END:
        match = _TOKEN.match(source.text, position)
        if match is None:
            raise _unreadable(source, position)
        assert match.lastgroup is not None
        kind, written = TokenKind(match.lastgroup), match[match.lastgroup]
        column = match.start(match.lastgroup) + 1
        if source.text[column - 1 : column + 1] == "==":
            raise _foreign(source, column, "==")
        found.append(Token(kind, written, _value(source, kind, written, column), column))
        position = match.end()
    return found


def _value(source: Source, kind: TokenKind, written: str, column: int) -> Value:
    match kind:
        case TokenKind.NUMBER if len(written) > NUMBER_CHARS_MAX:
            raise source.complaint(column, f"expected a number of at most {NUMBER_CHARS_MAX} characters")
        case TokenKind.NUMBER:
            return int(written) if written.lstrip("-").isdigit() else float(written)
        case TokenKind.TEXT:
            return _unescaped(source, written, column)
        case _:
            return written


def _unescaped(source: Source, written: str, column: int) -> str:
    def meant(escape: re.Match[str]) -> str:
        if escape[1] not in _ESCAPED:
            where = column + 1 + escape.start()
            raise source.complaint(where, f"expected one of {' '.join(_ESCAPED)} after the backslash")
        return _ESCAPED[escape[1]]

    return _ESCAPE.sub(meant, written[1:-1])


def _unreadable(source: Source, position: int) -> Invalid:
    while source.text[position].isspace():
        position += 1
    letter = source.text[position]
    if (word := source.text[position : position + 2]) in _FOREIGN:
        return _foreign(source, position + 1, word)
    if letter in "'\"":
        return source.complaint(position + 1, f"expected another {letter} where this text ends")
    return source.complaint(position + 1, f"expected a term, a value or an operator, found {letter!r}")


def _foreign(source: Source, column: int, word: str) -> Invalid:
    return source.complaint(column, f"write {_FOREIGN[word]} for {word}")
