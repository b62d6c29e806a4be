"""Lockouts: after a few wrong passwords an account takes a pause, and a longer one after every further one.

Nobody can tell a pause from a wrong password. Guesses within it do not make it longer, and it is never long, so whoever
guesses at an account cannot keep its owner out; and where the owner has signed in from before, guesses made elsewhere
do not count at all.
"""

from collections.abc import Callable
from typing import NamedTuple

from holdfast.core.limits import Limits

_ANYWHERE = ""
# Twice as long so often is longer than any limit.
_DOUBLINGS_MAX = 60


class _Guesses(NamedTuple):
    wrong: int
    until: float


_NONE = _Guesses(0, 0.0)


class Lockouts:
    """The wrong passwords of each account on this node: from each address where it is at home, and from all others."""

    def __init__(self, limits: Limits, now: Callable[[], float]) -> None:
        self._limits = limits
        self._now = now
        # By account and address; the one that was heard of longest ago is the first.
        self._guesses: dict[tuple[str, str], _Guesses] = {}

    def guess(self, name: str, address: str) -> bool:
        """Whether a password may be tried now. It counts as wrong until `was_right`: many at once are still many."""
        now = self._now()
        place = self._place(name, address)
        wrong, until = self._guesses.pop(place, _NONE)
        if now < until:
            self._keep(place, _Guesses(wrong, until))
            return False
        over = wrong + 1 - self._limits.wrong_passwords_max
        pause_s = self._limits.lockout_s * 2.0 ** min(over, _DOUBLINGS_MAX) if over >= 0 else 0.0
        self._keep(place, _Guesses(wrong + 1, now + min(pause_s, self._limits.lockout_max_s)))
        return True

    def take_back(self, name: str, address: str) -> None:
        """The last guess came to nothing: it counts neither way."""
        place = self._place(name, address)
        wrong, _ = self._guesses.pop(place, _NONE)
        self._keep(place, _Guesses(max(0, wrong - 1), 0.0))

    def was_right(self, name: str, address: str) -> None:
        """The owner has signed in from there, and is at home there from now on."""
        if (name, address) not in self._guesses:
            self._guesses.pop((name, _ANYWHERE), None)
        self._guesses.pop((name, address), None)
        self._keep((name, address), _NONE)

    def forget(self, name: str) -> None:
        """The account has another password, or is gone."""
        for place in [place for place in self._guesses if place[0] == name]:
            del self._guesses[place]

    def _place(self, name: str, address: str) -> tuple[str, str]:
        return (name, address) if (name, address) in self._guesses else (name, _ANYWHERE)

    def _keep(self, place: tuple[str, str], guesses: _Guesses) -> None:
        self._guesses[place] = guesses
        while len(self._guesses) > self._limits.lockouts_max:
            del self._guesses[next(iter(self._guesses))]
