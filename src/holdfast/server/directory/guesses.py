"""Rate limits on guessing room passwords and join codes.

Wrong guesses are counted for each room, by address and in total. When an allowance is used up, the next guess is
checked only after a wait. Right passwords cost nothing: a player who knows the password waits at most
`guess_wait_max_s`. During an attack from the same address, or from several, they may be asked to try again, as a
refused guess keeps no place in the queue. A session that has guessed wrong cannot enter that queue, so an attacker
needs a new session for every further guess. No guess is checked before its time: a late answer would reveal "wrong".
"""

from holdfast.core.addresses import address_group
from holdfast.core.buckets import Bucket, Rate
from holdfast.core.limits import Limits
from holdfast.core.session import Session

CODES = ""
"""The key of code guesses, which concern no room."""

_Place = tuple[str, str]


class Guesses:
    """Recent wrong guesses, by room and address."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._at_address = Rate(limits.guesses_per_address_burst, limits.guesses_per_address_per_s)
        self._at_room = Rate(limits.guesses_per_room_burst, limits.guesses_per_room_per_s)
        # Least recently used first; "" stands for all addresses.
        self._buckets: dict[_Place, Bucket] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_s(self, session: Session, room_id: str, now: float) -> float | None:
        """How long this session's next guess has to wait; None if it is refused.

        The guess counts as wrong until `right` is called, so that simultaneous guesses do not share one wait.
        """
        if session.wrong_guesses >= self._limits.wrong_guesses_max:
            return None
        buckets = self._of(session, room_id)
        wait_s = max(bucket.wait_s(now) for bucket in buckets)
        if wait_s > (0.0 if session.wrong_guesses else self._limits.guess_wait_max_s):
            return None
        session.wrong_guesses += 1
        for bucket in buckets:
            bucket.charge(now)
        return wait_s

    def right(self, session: Session, room_id: str) -> None:
        """The guess was right, or was not checked: it costs nothing."""
        session.wrong_guesses -= 1
        for bucket in self._of(session, room_id):
            bucket.give_back()

    def _of(self, session: Session, room_id: str) -> list[Bucket]:
        group = address_group(session.address)
        found = [self._bucket((room_id, group), self._at_address)]
        if room_id != CODES:
            found.append(self._bucket((room_id, ""), self._at_room))
        return found

    def _bucket(self, place: _Place, rate: Rate) -> Bucket:
        bucket = self._buckets.pop(place, None) or Bucket(rate)
        self._buckets[place] = bucket
        if len(self._buckets) > self._limits.guess_places_max:
            del self._buckets[next(iter(self._buckets))]
        return bucket
