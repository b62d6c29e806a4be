"""The random numbers of a durable room: `random.Random` whose whole state is one number, saved with the room."""

from random import Random
from typing import Any

_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
# 53 bits of the 64 fill a float's fraction.
_TO_FLOAT = 2.0**-53


class SplitMix64(Random):
    """Fast, and good enough for games. The state of Python's own generator takes 2.5 KiB."""

    def __init__(self, seed: int) -> None:
        self._position = 0
        super().__init__(seed)

    @property
    def position(self) -> int:
        """The whole state: a generator seeded with it continues from here."""
        return self._position

    def seed(self, a: Any = None, version: int = 2) -> None:
        super().seed(a, version)
        self._position = (a if isinstance(a, int) else super().getrandbits(64)) & _MASK

    def getstate(self) -> tuple[Any, ...]:
        return (self._position,)

    def setstate(self, state: tuple[Any, ...]) -> None:
        (self._position,) = state

    def __reduce__(self) -> tuple[Any, ...]:
        # `Random` would make its copies without a seed.
        return type(self), (self._position,)

    def random(self) -> float:
        return (self._next() >> 11) * _TO_FLOAT

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        """A normally distributed number; Python's own `gauss` keeps every second one in hidden state."""
        return self.normalvariate(mu, sigma)

    def getrandbits(self, k: int, /) -> int:
        if k < 0:
            raise ValueError("number of bits must be non-negative")
        bits = 0
        for _ in range((k + 63) // 64):
            bits = bits << 64 | self._next()
        return bits >> (-k % 64)

    def _next(self) -> int:
        self._position = z = (self._position + _STEP) & _MASK
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _MASK
        return z ^ (z >> 31)
