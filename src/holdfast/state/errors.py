"""What can go wrong with shared state: the game's values cannot be shared, or a client cannot follow."""

from collections.abc import Iterable
from typing import Any, Self


class Unshareable(ValueError):
    """A value, or a type, that cannot be shared; the message begins with its path."""

    def __init__(self, problem: str, path: Iterable[Any] = ()) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path: tuple[Any, ...] = tuple(path)

    def under(self, key: Any) -> Self:
        """The same, seen from one level further out."""
        self.path = (key, *self.path)
        return self

    def __str__(self) -> str:
        return f"{as_text(self.path)}: {self.problem}" if self.path else self.problem


class NotANode(ValueError):
    """A change that no server writes."""


class OutOfSync(ValueError):
    """A change of something that the mirror does not have: only the whole view helps."""


def a(value: Any) -> str:
    """What a value is, for a message: not the value itself, which may be a secret."""
    name = "None" if value is None else type(value).__name__
    return name if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def as_text(path: Iterable[Any]) -> str:
    """A path as Python would write it: `state.cards[3].rank`."""
    steps = [f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]" for key in path]
    return "".join(steps).removeprefix(".")
