"""Limits before a sign-in: what is counted for each address, and how fast a crowd is let in.

Many players may share an address (`core.addresses`). So a player who proves to have a session is not held up by what
others at the same address did: a resume with a good token costs the address nothing, and neither wrong credentials nor
floods block it. They block new sign-ins.
"""

from holdfast.core.buckets import Bucket, Rate, Slots
from holdfast.core.limits import Limits

# A wait that was doubled so often is longer than any limit for it.
_DOUBLINGS_MAX = 16


class AddressActivity:
    """What is remembered of one address."""

    __slots__ = ("_blocked_until", "_counted_at", "_failures", "_limits", "_slots", "guesses", "hellos", "strangers")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.strangers = 0
        """Links from there on which nobody has said yet who they are."""
        self.hellos = Bucket(Rate(limits.hellos_per_address_burst, limits.hellos_per_address_per_s))
        self.guesses = Bucket(Rate(limits.guesses_per_address_burst, limits.guesses_per_address_per_s))
        self._slots = Slots(limits.hellos_per_address_per_s, limits.retry_after_max_s)
        self._failures = 0.0
        self._counted_at = 0.0
        self._blocked_until = 0.0

    def failed(self, now: float) -> None:
        """A credential proved nothing. Beyond the burst, each failure doubles the wait before the next attempt."""
        limits = self._limits
        # What is forgiven with time is not forgiven while they have to wait anyway: the waits would not grow.
        forgiven_since = max(self._counted_at, self._blocked_until)
        forgiven = max(0.0, now - forgiven_since) * limits.failures_per_address_per_s
        self._failures = failures = max(0.0, self._failures - forgiven) + 1
        self._counted_at = now
        beyond = failures - limits.failures_per_address_burst
        if beyond > 0:
            first_s = 1.0 / limits.failures_per_address_per_s
            # Only so much of what is beyond it is remembered as makes a difference.
            self._failures = failures - max(0.0, beyond - _DOUBLINGS_MAX)
            doublings = min(beyond, _DOUBLINGS_MAX) - 1
            self._blocked_until = now + min(limits.failure_wait_max_s, first_s * 2.0**doublings)

    def blocked_s(self, now: float) -> float:
        """How long nobody from there may sign in."""
        return max(0.0, self._blocked_until - now)

    def retry_after_s(self, now: float) -> float:
        """When somebody who is one too many should come back: each is told another time."""
        return self._slots.next_s(now)


class AddressTable:
    """The addresses seen lately; when it is full, the one not seen for longest is forgotten.

    An address with connections that have not signed in is never forgotten: it would start with a clean slate.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.strangers = 0
        """All of them."""
        self._with_strangers: dict[str, AddressActivity] = {}
        # In the order in which they were last heard of.
        self._without_strangers: dict[str, AddressActivity] = {}

    def __len__(self) -> int:
        return len(self._with_strangers) + len(self._without_strangers)

    def activity(self, name: str) -> AddressActivity:
        """What is known of an address; it counts as just seen."""
        known = self._with_strangers.get(name)
        if known is not None:
            return known
        activity = self._without_strangers.pop(name, None) or AddressActivity(self._limits)
        self._without_strangers[name] = activity
        self._make_space()
        return activity

    def came(self, name: str) -> None:
        """A stranger is at the door."""
        activity = self.activity(name)
        activity.strangers += 1
        self.strangers += 1
        self._without_strangers.pop(name, None)
        self._with_strangers[name] = activity

    def went(self, name: str) -> None:
        """A stranger is known now, or gone."""
        activity = self._with_strangers[name]
        activity.strangers -= 1
        self.strangers -= 1
        if not activity.strangers:
            self._without_strangers[name] = self._with_strangers.pop(name)
            self._make_space()

    def _make_space(self) -> None:
        while len(self) > self._limits.addresses_max and len(self._without_strangers) > 1:
            del self._without_strangers[next(iter(self._without_strangers))]


class AdmissionRate:
    """Admits a crowd at a rate the server can keep, resumes before new sign-ins.

    Whoever exceeds the rate is told when to try again. Sign-ins get what resumes leave: each uses up a resume too, and
    while resumes have to wait, nobody new is admitted.
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

    def refused_retry_s(self, now: float) -> float:
        """When somebody should come back who was not even listened to."""
        return self._resume_slots.next_s(now)

    def sign_in_s(self, now: float) -> float:
        """How long somebody new has to wait; 0 if they may come in."""
        waiting_until = self._resume_slots.last_at
        if waiting_until <= now and not self._sign_ins.wait_s(now) and self._resumes.take(now):
            self._sign_ins.take(now)
            return 0.0
        return self._sign_in_slots.next_s(now, after=waiting_until)
