"""The turn of a transactional room while it is not over: what undoes it, and what waits until it has succeeded.

What the game sees again in the same turn changes at once, and is noted to be undone. What others would see waits.
"""

from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any

Act = tuple[Callable[..., Any], tuple[Any, ...]]

# Of the code that runs now, and of the tasks that it starts.
_current: "ContextVar[Transaction | None]" = ContextVar("holdfast_transaction", default=None)


class Transaction:
    """One turn of one room."""

    __slots__ = ("_held", "_undo", "is_open", "marks")

    def __init__(self) -> None:
        self.is_open = True
        """Whether the turn is not over."""
        self._undo: list[Act] = []
        self._held: list[Act] = []
        self.marks: dict[object, int] = {}
        """How often what was done in this turn, for those who have to know."""

    def undo(self, act: Callable[..., Any], *args: Any) -> None:
        """Call this if the turn fails; what was noted last comes first."""
        self._undo.append((act, args))

    def hold(self, act: Callable[..., Any], *args: Any) -> None:
        """Call this if the turn succeeds, in this order."""
        self._held.append((act, args))

    def mark(self, what: object) -> bool:
        """Count something; True for the first time."""
        count = self.marks[what] = self.marks.get(what, 0) + 1
        return count == 1

    def close(self, *, is_undone: bool) -> list[Act]:
        """The turn is over; returns what is to be called now."""
        acts = self._undo[::-1] if is_undone else self._held
        self.is_open = False
        # Timers and tasks that it has started refer to it for as long as they last.
        self._undo, self._held, self.marks = [], [], {}
        return acts


def enter(transaction: Transaction) -> "Token[Transaction | None]":
    """The code that runs now, and the tasks that it starts, are part of this turn."""
    return _current.set(transaction)


def leave(token: "Token[Transaction | None]") -> None:
    """The code that runs now is not part of the turn any more."""
    _current.reset(token)


def current_transaction() -> Transaction | None:
    """The turn that the code which runs now is a part of; None if its room is not transactional, or there is none."""
    transaction = _current.get()
    return transaction if transaction is not None and transaction.is_open else None


def when_it_succeeds(act: Callable[..., Any], *args: Any) -> None:
    """Call this when the present turn has succeeded; now outside of a transactional one."""
    transaction = current_transaction()
    if transaction is None:
        act(*args)
    else:
        transaction.hold(act, *args)
