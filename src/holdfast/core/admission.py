"""Who may come to the door, before anybody knows who they are: counts for each address, and the pace of a storm.

Addresses are counted by household (`core.addresses`): many players may stand behind one. So nobody who proves to be one
of ours is held up for what their neighbours did: a session that is resumed with its token costs its household nothing,
and neither wrong credentials nor floods keep it out. They keep out who wants to sign in anew.
"""

from holdfast.core.buckets import Bucket, Rate, Slots
from holdfast.core.limits import Limits

# A wait that was doubled so often is longer than any limit for it.
_DOUBLINGS_MAX = 16


class Household:
    """What is remembered of one address."""

    __slots__ = ("_barred_until", "_counted_at", "_failures", "_limits", "_slots", "guesses", "hellos", "strangers")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.strangers = 0
        """Links from there on which nobody has said yet who they are."""
        self.hellos = Bucket(Rate(limits.hellos_per_address_burst, limits.hellos_per_address_per_s))
        self.guesses = Bucket(Rate(limits.guesses_per_address_burst, limits.guesses_per_address_per_s))
        self._slots = Slots(limits.hellos_per_address_per_s, limits.retry_after_max_s)
        self._failures = 0.0
        self._counted_at = 0.0
        self._barred_until = 0.0

    def failed(self, now: float) -> None:
        """A credential proved nothing. Beyond the burst, each failure doubles the wait before the next attempt."""
        limits = self._limits
        # What is forgiven with time is not forgiven while they have to wait anyway: the waits would not grow.
        forgiven_since = max(self._counted_at, self._barred_until)
        forgiven = max(0.0, now - forgiven_since) * limits.failures_per_address_per_s
        self._failures = failures = max(0.0, self._failures - forgiven) + 1
        self._counted_at = now
        beyond = failures - limits.failures_per_address_burst
        if beyond > 0:
            first_s = 1.0 / limits.failures_per_address_per_s
            # Only so much of what is beyond it is remembered as makes a difference.
            self._failures = failures - max(0.0, beyond - _DOUBLINGS_MAX)
            doublings = min(beyond, _DOUBLINGS_MAX) - 1
            self._barred_until = now + min(limits.failure_wait_max_s, first_s * 2.0**doublings)

    def barred_s(self, now: float) -> float:
        """How long nobody from there may sign in."""
        return max(0.0, self._barred_until - now)

    def come_back_s(self, now: float) -> float:
        """When somebody who is one too many should come back: each is told another time."""
        return self._slots.next_s(now)


class AddressBook:
    """The households that were heard of lately; when it is full, the one that was not heard of for longest gives way.

    One with strangers at the door is never forgotten: it could begin anew with a clean slate.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.strangers = 0
        """All of them."""
        self._at_the_door: dict[str, Household] = {}
        # In the order in which they were last heard of.
        self._resting: dict[str, Household] = {}

    def __len__(self) -> int:
        return len(self._at_the_door) + len(self._resting)

    def household(self, name: str) -> Household:
        """What is known of a household; from now on it was just heard of."""
        known = self._at_the_door.get(name)
        if known is not None:
            return known
        household = self._resting.pop(name, None) or Household(self._limits)
        self._resting[name] = household
        self._make_space()
        return household

    def came(self, name: str) -> None:
        """A stranger is at the door."""
        household = self.household(name)
        household.strangers += 1
        self.strangers += 1
        self._resting.pop(name, None)
        self._at_the_door[name] = household

    def went(self, name: str) -> None:
        """A stranger is known now, or gone."""
        household = self._at_the_door[name]
        household.strangers -= 1
        self.strangers -= 1
        if not household.strangers:
            self._resting[name] = self._at_the_door.pop(name)
            self._make_space()

    def _make_space(self) -> None:
        while len(self) > self._limits.addresses_max and len(self._resting) > 1:
            del self._resting[next(iter(self._resting))]


class Governor:
    """Lets a storm in at a pace that the node can keep: those who come back before those who are new.

    What is beyond the pace is told when to come back. New ones get what is left: each takes its place among those who
    come back too, and while some of those have to wait, nobody new is let in.
    """

    def __init__(self, limits: Limits) -> None:
        self._resumes = Bucket(Rate(limits.resumes_per_s, limits.resumes_per_s))
        self._sign_ins = Bucket(Rate(limits.sign_ins_per_s, limits.sign_ins_per_s))
        self._resume_slots = Slots(limits.resumes_per_s, limits.retry_after_max_s)
        self._sign_in_slots = Slots(limits.sign_ins_per_s, limits.retry_after_max_s)

    def resume_s(self, now: float) -> float:
        """How long somebody who comes back has to wait; 0 if they may come in."""
        return 0.0 if self._resumes.take(now) else self._resume_slots.next_s(now)

    def not_resumed(self) -> None:
        """Somebody was let in to come back, and had nothing to come back to."""
        self._resumes.give_back()

    def turned_away_s(self, now: float) -> float:
        """When somebody should come back who was not even listened to."""
        return self._resume_slots.next_s(now)

    def sign_in_s(self, now: float) -> float:
        """How long somebody new has to wait; 0 if they may come in."""
        waiting_until = self._resume_slots.last_at
        if waiting_until <= now and not self._sign_ins.wait_s(now) and self._resumes.take(now):
            self._sign_ins.take(now)
            return 0.0
        return self._sign_in_slots.next_s(now, after=waiting_until)
