"""As much of PromQL as it takes to see which series an expression is about, and what it does with them."""

import re
from collections.abc import Iterator
from typing import NamedTuple

TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\$?[a-zA-Z_][a-zA-Z0-9_:]*|\d[\w.]*|!=|=~|!~|>=|<=|==|\S')
NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_:]*")
LABEL_LISTS = {"by", "without", "on", "ignoring", "group_left", "group_right"}
WORDS = {"and", "or", "unless", "offset", "bool"}
MATCHERS = {"=", "!=", "=~", "!~"}
OPENING = {"(": ")", "[": "]", "{": "}"}


class Series(NamedTuple):
    """One selector: the series it names, the labels it looks at, and the function that it is given to."""

    name: str
    labels: dict[str, str]
    function: str
    has_range: bool


class Expression:
    """What is in one expression. `ValueError` if it cannot be one."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = TOKEN.findall(text)
        self._at = 0
        self.series: list[Series] = []
        self.grouped_by: set[str] = set()
        self._read("", "")

    def _read(self, function: str, closing: str) -> None:
        """Up to the bracket that ends this part."""
        called = ""
        for token in self._each():
            if token == closing:
                return
            if token in LABEL_LISTS:
                self.grouped_by |= set(self._names("(", ")"))
            elif token == "(":
                self._read(called, ")")
            elif token in {")", "]", "}"}:
                raise ValueError(f"{token} closes nothing in {' '.join(self._tokens)}")
            elif NAME.fullmatch(token) and token not in WORDS:
                called = self._function_or_series(token, function)
        if closing:
            raise ValueError(f"{closing} is missing in {' '.join(self._tokens)}")

    def _function_or_series(self, name: str, function: str) -> str:
        """The name of a function that is called; else it is a series, and noted."""
        following = self._peek()
        if following == "(" or following in LABEL_LISTS:
            return name
        labels = dict(self._matchers()) if following == "{" else {}
        has_range = self._peek() == "["
        if has_range:
            self._names("[", "]")
        self.series.append(Series(name, labels, function, has_range))
        return ""

    def _matchers(self) -> Iterator[tuple[str, str]]:
        self._names_expected("{")
        while (label := self._next()) != "}":
            if label == ",":
                continue
            matcher, value = self._next(), self._next()
            if not NAME.fullmatch(label) or matcher not in MATCHERS or not value.startswith('"'):
                raise ValueError(f"{label} {matcher} {value} is no matcher")
            yield label, value.strip('"')

    def _names(self, opening: str, closing: str) -> list[str]:
        self._names_expected(opening)
        names: list[str] = []
        while (token := self._next()) != closing:
            names += [token] if token != "," else []
        return names

    def _names_expected(self, opening: str) -> None:
        if self._next() != opening:
            raise ValueError(f"{opening} is missing in {' '.join(self._tokens)}")

    def _each(self) -> Iterator[str]:
        while self._at < len(self._tokens):
            yield self._next()

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise ValueError(f"{' '.join(self._tokens)} ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""
