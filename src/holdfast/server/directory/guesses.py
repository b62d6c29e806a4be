"""How fast the password of a room, and codes, may be guessed.

Each wrong guess counts at its room: of the guesser's address, and of all. When those are used up, the next is checked
only after a while. A right password costs nothing, and whoever knows it waits up to `guess_wait_max_s`, behind whatever
address; while somebody keeps guessing from the same address, or from several, they may be told to try again: who was
refused has no place in the queue. A session that has guessed wrong does not stand in that queue, so a guesser needs a
new session for every further guess. Nothing is looked at before its time has come: a late answer would mean "wrong".
"""

from holdfast.core.addresses import address_group
from holdfast.core.buckets import Bucket, Rate
from holdfast.core.limits import Limits
from holdfast.core.session import Session

CODES = ""
"""Where codes are guessed: at no room."""

_Place = tuple[str, str]


class Guesses:
    """The wrong guesses of late, by room and address."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._at_address = Rate(limits.guesses_per_address_burst, limits.guesses_per_address_per_s)
        self._at_room = Rate(limits.guesses_per_room_burst, limits.guesses_per_room_per_s)
        # In the order in which they were last used; "" stands for all addresses.
        self._buckets: dict[_Place, Bucket] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_s(self, session: Session, room_id: str, now: float) -> float | None:
        """How long this session's next guess has to wait; None if it is refused.

        It counts as wrong until it is known to be `right`: several at once do not share one wait.
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
        """It was right, or nobody looked at it: it costs nothing."""
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
