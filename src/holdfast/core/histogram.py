"""How values are spread: counted in fixed buckets, as plain integers. It costs the same however many values come in."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise


class Histogram:
    """Counts values up to each bound, and adds them up. Nothing in it ever gets smaller."""

    __slots__ = ("_counts", "bounds", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds` are the upper ends of the buckets, smallest first; what is larger than the last is counted too."""
        if not bounds or any(low >= high for low, high in pairwise(bounds)):
            raise ValueError(f"the bounds of a histogram must grow; got {list(bounds)}")
        self.bounds = tuple(bounds)
        self._counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count a value. One below zero, from a clock that went back, counts as zero."""
        # `not >` instead of `<`: so what is not a number counts as zero too.
        if not value > 0.0:
            value = 0.0
        self._counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        """How many values came."""
        return sum(self._counts)

    def cumulative(self) -> list[int]:
        """How many values were at most as large as each bound; the last number is of all of them."""
        return list(accumulate(self._counts))
