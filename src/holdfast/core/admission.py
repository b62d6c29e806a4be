"""Limits before sign-in: counts for each address, and the rate at which clients are admitted.

Many players may share an address (`core.addresses`). So players with a valid session are not affected by others at the
same address: a resume with a valid token costs the address nothing, and neither wrong credentials nor floods block it.
They block new sign-ins.
"""

from holdfast.core.buckets import Bucket, Rate, Slots
from holdfast.core.limits import Limits

# After this many doublings a wait exceeds any limit for it.
_DOUBLINGS_MAX = 16


class AddressActivity:
    """The counts of one address."""

    __slots__ = ("_blocked_until", "_counted_at", "_failures", "_limits", "_slots", "guesses", "hellos", "strangers")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.strangers = 0
        """Its open connections that have not signed in."""
        self.hellos = Bucket(Rate(limits.hellos_per_address_burst, limits.hellos_per_address_per_s))
        self.guesses = Bucket(Rate(limits.guesses_per_address_burst, limits.guesses_per_address_per_s))
        self._slots = Slots(limits.hellos_per_address_per_s, limits.retry_after_max_s)
        self._failures = 0.0
        self._counted_at = 0.0
        self._blocked_until = 0.0

    def failed(self, now: float) -> None:
        """A credential was wrong. Beyond the burst, each failure doubles the wait before the next attempt."""
        limits = self._limits
        # Nothing is forgiven while sign-ins are blocked anyway: otherwise the waits would not grow.
        forgiven_since = max(self._counted_at, self._blocked_until)
        forgiven = max(0.0, now - forgiven_since) * limits.failures_per_address_per_s
        self._failures = failures = max(0.0, self._failures - forgiven) + 1
        self._counted_at = now
        beyond = failures - limits.failures_per_address_burst
        if beyond > 0:
            first_s = 1.0 / limits.failures_per_address_per_s
            # Only as much of the excess is remembered as makes a difference.
            self._failures = failures - max(0.0, beyond - _DOUBLINGS_MAX)
            doublings = min(beyond, _DOUBLINGS_MAX) - 1
            self._blocked_until = now + min(limits.failure_wait_max_s, first_s * 2.0**doublings)

    def blocked_s(self, now: float) -> float:
        """How long sign-ins from this address are blocked."""
        return max(0.0, self._blocked_until - now)

    def retry_after_s(self, now: float) -> float:
        """When a client over the limit should retry: a different time for each."""
        return self._slots.next_s(now)


class AddressTable:
    """The recently seen addresses; when the table is full, the least recently seen is forgotten.

    An address with unauthenticated connections is never forgotten: its counts would restart at zero.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.strangers = 0
        self._with_strangers: dict[str, AddressActivity] = {}
        # Least recently seen first.
        self._without_strangers: dict[str, AddressActivity] = {}

    def __len__(self) -> int:
        return len(self._with_strangers) + len(self._without_strangers)

    def activity(self, name: str) -> AddressActivity:
        """The counts of an address, which is marked as just seen."""
        known = self._with_strangers.get(name)
        if known is not None:
            return known
        activity = self._without_strangers.pop(name, None) or AddressActivity(self._limits)
        self._without_strangers[name] = activity
        self._make_space()
        return activity

    def came(self, name: str) -> None:
        """An unauthenticated connection has opened."""
        activity = self.activity(name)
        activity.strangers += 1
        self.strangers += 1
        self._without_strangers.pop(name, None)
        self._with_strangers[name] = activity

    def went(self, name: str) -> None:
        """A connection has signed in or closed."""
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
    """Admits clients at a rate the server can sustain, resumes before new sign-ins.

    Clients over the rate are told when to retry. Sign-ins get what resumes leave: each uses up a resume too, and while
    resumes have to wait, no sign-in is admitted.
    """

    def __init__(self, limits: Limits) -> None:
        self._resumes = Bucket(Rate(limits.resumes_per_s, limits.resumes_per_s))
        self._sign_ins = Bucket(Rate(limits.sign_ins_per_s, limits.sign_ins_per_s))
        self._resume_slots = Slots(limits.resumes_per_s, limits.retry_after_max_s)
        self._sign_in_slots = Slots(limits.sign_ins_per_s, limits.retry_after_max_s)

    def resume_s(self, now: float) -> float:
        """How long a resume has to wait; 0 if it is admitted."""
        return 0.0 if self._resumes.take(now) else self._resume_slots.next_s(now)

    def not_resumed(self) -> None:
        """An admitted resume found no session: return its allowance."""
        self._resumes.give_back()

    def refused_retry_s(self, now: float) -> float:
        """When a client that was refused without being read should retry."""
        return self._resume_slots.next_s(now)

    def sign_in_s(self, now: float) -> float:
        """How long a sign-in has to wait; 0 if it is admitted."""
        waiting_until = self._resume_slots.last_at
        if waiting_until <= now and not self._sign_ins.wait_s(now) and self._resumes.take(now):
            self._sign_ins.take(now)
            return 0.0
        return self._sign_in_slots.next_s(now, after=waiting_until)
