"""A room's chance: `random.Random` in everything but its memory, which is one number and is saved with the room."""

from random import Random
from typing import Any

_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
# 53 bits of the 64 fill a float's fraction.
_TO_FLOAT = 2.0**-53


class Dice(Random):
    """SplitMix64: quick, and good enough for games. Python's own generator remembers 2.5 KiB."""

    def __init__(self, seed: int) -> None:
        self._position = 0
        super().__init__(seed)

    @property
    def position(self) -> int:
        """All there is to remember: dice made with it go on from here."""
        return self._position

    def seed(self, a: Any = None, version: int = 2) -> None:
        """Begin anew from a number."""
        super().seed(a, version)
        self._position = (a if isinstance(a, int) else super().getrandbits(64)) & _MASK

    def getstate(self) -> tuple[Any, ...]:
        """For `setstate`."""
        return (self._position,)

    def setstate(self, state: tuple[Any, ...]) -> None:
        """Go on from what `getstate` gave."""
        (self._position,) = state

    def __reduce__(self) -> tuple[Any, ...]:
        # `Random` would make its copies without a seed.
        return type(self), (self._position,)

    def random(self) -> float:
        """The next number of [0, 1)."""
        return (self._next() >> 11) * _TO_FLOAT

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        """A number of the normal distribution; Python's own `gauss` remembers every second one in secret."""
        return self.normalvariate(mu, sigma)

    def getrandbits(self, k: int, /) -> int:
        """So many random bits."""
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
