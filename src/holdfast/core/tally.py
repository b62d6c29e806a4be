"""Counts by name: how often each thing happened. The names are few, whatever is counted."""

from collections.abc import Iterable

OTHER = "other"
"""Where names are counted that came when there were enough of them."""


class Tally:
    """Counts that only grow. A name is a tuple of words, such as ("websocket",) or ("hello", "refused")."""

    __slots__ = ("_counts", "_names_max")

    def __init__(self, known: Iterable[tuple[str, ...]] = (), *, names_max: int = 100) -> None:
        """`known` names are there from the start, at zero: who compares two moments sees the first one, too."""
        self._counts: dict[tuple[str, ...], int] = dict.fromkeys(known, 0)
        self._names_max = max(names_max, len(self._counts))

    def add(self, *name: str, times: int = 1) -> None:
        """It happened once more, or so many times."""
        if name not in self._counts and len(self._counts) >= self._names_max:
            name = (OTHER,) * len(name)
        self._counts[name] = self._counts.get(name, 0) + times

    def counts(self) -> dict[tuple[str, ...], int]:
        """How often each happened: a copy."""
        return dict(self._counts)
