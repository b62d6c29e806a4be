"""Lockouts: after a few wrong passwords there is a pause, and a longer one after every further one.

A pause looks like a wrong password from outside. Wrong passwords are counted by account and network (an IPv4 address or
an IPv6 /64), so guessing from one address does not lock the owner out elsewhere. The guesses of all networks together
count too, with a higher limit, so that many addresses do not help to guess without end. Guesses during a pause do not
extend it, pauses are bounded, and wrong guesses expire with time. In networks from which the owner has signed in
before, only the guesses made there count.
"""

from collections.abc import Callable
from typing import NamedTuple

from holdfast.core.addresses import address_group
from holdfast.core.limits import Limits

_ANYWHERE = "*"
# Twice as long so often is longer than any limit.
_DOUBLINGS_MAX = 60
# A single network that keeps guessing is forgiven faster than it can guess, so it does not lock out the others.
_FORGIVEN_PER_PAUSE = 2.0


class _Place(NamedTuple):
    """An account, and from where: a network, or anywhere."""

    name: str
    network: str


class _Guesses(NamedTuple):
    """How many were wrong when the last of them was made, and until when there is a pause for it."""

    wrong: float
    made_at: float
    until: float


_NONE = _Guesses(0.0, 0.0, 0.0)


class Lockouts:
    """The wrong passwords of each account on this node."""

    def __init__(self, limits: Limits, now: Callable[[], float]) -> None:
        self._limits = limits
        self._now = now
        self._forgiven_per_s = _FORGIVEN_PER_PAUSE / limits.lockout_max_s
        # Where owners are at home, and everybody else; of both, what was heard of longest ago is the first.
        self._homes: dict[_Place, _Guesses] = {}
        self._strangers: dict[_Place, _Guesses] = {}

    def guess(self, name: str, address: str) -> bool:
        """Whether a password may be tried now. It counts as wrong until `was_right`: parallel attempts add up."""
        now = self._now()
        known, places = self._places(name, address)
        guesses = [known.get(place, _NONE) for place in places]
        may_try = all(now >= each.until for each in guesses)
        for place, each in zip(places, guesses, strict=True):
            self._keep(known, place, self._one_more(place, each, now) if may_try else each)
        return may_try

    def take_back(self, name: str, address: str) -> None:
        """The last guess came to nothing: it counts neither way."""
        known, places = self._places(name, address)
        for place in places:
            wrong, made_at, _ = known.get(place, _NONE)
            self._keep(known, place, _Guesses(max(0.0, wrong - 1), made_at, 0.0))

    def was_right(self, name: str, address: str) -> None:
        """The owner has signed in from there, and is at home there from now on."""
        known, places = self._places(name, address)
        for place in places:
            known.pop(place, None)
        self._keep(self._homes, places[0], _NONE)

    def forget(self, name: str) -> None:
        """The account has another password, or is gone."""
        for known in (self._homes, self._strangers):
            for place in [place for place in known if place.name == name]:
                del known[place]

    def _places(self, name: str, address: str) -> tuple[dict[_Place, _Guesses], list[_Place]]:
        """Where a guess that is made there counts."""
        there = _Place(name, address_group(address))
        if there in self._homes:
            return self._homes, [there]
        return self._strangers, [there, _Place(name, _ANYWHERE)]

    def _one_more(self, place: _Place, guesses: _Guesses, now: float) -> _Guesses:
        limits = self._limits
        # Not for the time of a pause: the next one would not be longer.
        forgiven = max(0.0, now - max(guesses.made_at, guesses.until)) * self._forgiven_per_s
        wrong = max(0.0, guesses.wrong - forgiven) + 1
        is_anywhere = place.network == _ANYWHERE
        over = int(wrong) - (limits.wrong_passwords_elsewhere_max if is_anywhere else limits.wrong_passwords_max)
        pause_s = limits.lockout_s * 2.0 ** min(over, _DOUBLINGS_MAX) if over >= 0 else 0.0
        return _Guesses(wrong, now, now + min(pause_s, limits.lockout_max_s))

    def _keep(self, known: dict[_Place, _Guesses], place: _Place, guesses: _Guesses) -> None:
        known.pop(place, None)
        known[place] = guesses
        while len(known) > self._limits.lockouts_max:
            del known[next(iter(known))]
