"""Rate limits: of anything (a burst, then a rate per second), of one session, and before sign-in. Time is an argument.

A bucket is one number, the time at which it will be full again (the generic cell rate algorithm). Taking from it moves
that time forward; nothing has to be refilled. In any period at most the burst plus rate × period is taken.
"""

from typing import Literal

from holdfast.core.limits import Limits, RoleLimits

NEVER = float("-inf")

PAYLOAD_OVERHEAD_BYTES = 256
"""The cost of a payload besides its bytes: reading and answering ten bytes is as much work as hundreds."""

Step = Literal["warn", "drop", "disconnect"]
"""What happens to input of a session beyond its allowance."""

_HAIR = 0.01
# The last payload of a connection, a bye, is free.
_FAREWELL_S = 0.01
# After this many doublings a wait exceeds any limit for it.
_DOUBLINGS_MAX = 16


class Rate:
    """A burst and a rate per second, shared by all buckets of a kind."""

    __slots__ = ("span_s", "step_s")

    def __init__(self, burst: float, per_s: float) -> None:
        if burst <= 0 or per_s <= 0:
            raise ValueError(f"a rate limit needs a burst and a rate above 0; got {burst:g} and {per_s:g} per second")
        self.step_s = 1.0 / per_s
        """Seconds until one unit is refilled."""
        # Slightly more, or rounding errors would refuse the last unit of the burst.
        self.span_s = (burst + _HAIR) / per_s
        """Seconds until an empty bucket is full."""


class Bucket:
    """One allowance. `full_at` and `step_s` are public for hot paths, which need no call while the bucket is full."""

    __slots__ = ("_span_s", "full_at", "step_s")

    def __init__(self, rate: Rate) -> None:
        self.step_s = rate.step_s
        self._span_s = rate.span_s
        self.full_at = NEVER

    def agree(self, rate: Rate, now: float) -> None:
        """Keep to another rate from now on. What was taken stays taken, up to the new burst."""
        taken = max(0.0, self.full_at - now) / self.step_s if self.step_s else 0.0
        self.step_s = rate.step_s
        self._span_s = rate.span_s
        self.full_at = now + min(taken * rate.step_s, rate.span_s) if taken else self.full_at

    def take(self, now: float, amount: float = 1) -> bool:
        """Take `amount`, or nothing if there is too little; a full bucket allows more than it holds, once, on
        credit."""
        full_at = self.full_at
        if full_at <= now:
            self.full_at = now + amount * self.step_s
            return True
        full_at += amount * self.step_s
        if full_at - now > self._span_s:
            return False
        self.full_at = full_at
        return True

    def charge(self, now: float) -> None:
        """Take one, on credit if necessary: the next caller waits longer."""
        self.full_at = max(self.full_at, now) + self.step_s

    def wait_s(self, now: float, amount: float = 1) -> float:
        """Seconds until `amount` can be taken; 0 if it can be now."""
        missing_s = self.full_at + amount * self.step_s - now - self._span_s
        return max(0.0, min(missing_s, self.full_at - now))

    def give_back(self, amount: float = 1) -> None:
        """Return what was taken in vain, up to the burst."""
        self.full_at -= amount * self.step_s


class Slots:
    """Retry times for refused clients: each gets a later one, so that they do not all return at once.

    The times are `1 / per_s` apart and none is further away than `wait_max_s`: when all are assigned, those of the
    later half are assigned again. A client that returns then may be refused once more.
    """

    __slots__ = ("_step_s", "_wait_max_s", "last_at")

    def __init__(self, per_s: float, wait_max_s: float) -> None:
        self._step_s = 1.0 / per_s
        self._wait_max_s = wait_max_s
        self.last_at = NEVER
        """The last assigned time."""

    def next_s(self, now: float, *, after: float = NEVER) -> float:
        """Seconds until the next free time, which is not before `after`."""
        wait_s = max(now, self.last_at, after) + self._step_s - now
        if wait_s > self._wait_max_s:
            wait_s = min(self._wait_max_s, self._wait_max_s / 2 + self._step_s)
        self.last_at = now + wait_s
        return wait_s


# One session


class Rates:
    """The rate limits that sessions share, and that of unauthenticated connections."""

    __slots__ = ("__weakref__", "bytes", "hello", "latest", "limits", "messages", "requests", "special")

    def __init__(self, limits: Limits, special: RoleLimits | None = None) -> None:
        self.limits = limits
        self.special = special
        """Those of the limits that differ from the node's, because of a role or for one session."""
        self.messages = Rate(limits.messages_burst, limits.messages_per_s)
        self.latest = Rate(limits.latest_burst, limits.latest_per_s)
        self.requests = Rate(limits.requests_burst, limits.requests_per_s)
        self.bytes = Rate(limits.bytes_burst, limits.bytes_per_s)
        hello_bytes = limits.hello_bytes_max + PAYLOAD_OVERHEAD_BYTES
        self.hello = Rate(hello_bytes, hello_bytes / limits.hello_s)
        """Bytes of an unauthenticated connection."""


class Flood:
    """The allowances of one session, and its violations. They outlive connections: reconnecting refills nothing.

    Exceeding an allowance is a violation; violations are forgiven over time, so that rare ones have no effect. Their
    number decides what happens to the input, as far as `Limits.flood_policy` says:

        violations                         the input is
        up to `violations_warned_max`      carried out, and reported as an event
        more than that                     not carried out, and the client is told so
        more than `violations_max`         answered by closing the connection
    """

    __slots__ = ("_counted_at", "_limits", "_violations", "barred_until", "bytes", "latest", "messages", "requests")

    def __init__(self, rates: Rates) -> None:
        self._limits = rates.limits
        self.messages = Bucket(rates.messages)
        self.latest = Bucket(rates.latest)
        self.requests = Bucket(rates.requests)
        self.bytes = Bucket(rates.bytes)
        self._violations = 0.0
        self._counted_at = 0.0
        self.barred_until = 0.0
        """A client that was disconnected for flooding may not resume before this time."""

    def agree(self, rates: Rates, now: float) -> None:
        """Keep to other limits from now on."""
        self._limits = rates.limits
        self.messages.agree(rates.messages, now)
        self.latest.agree(rates.latest, now)
        self.requests.agree(rates.requests, now)
        self.bytes.agree(rates.bytes, now)

    def is_rested(self, now: float) -> bool:
        """Whether every allowance is full and every violation forgiven, as in a new session."""
        return (
            max(self.messages.full_at, self.latest.full_at, self.requests.full_at) <= now
            and self.bytes.full_at <= now + _FAREWELL_S
            and self.violations(now) == 0
            and self.barred_until <= now
        )

    def over(self, now: float) -> Step:
        """Something exceeded its allowance: returns the step to take."""
        limits = self._limits
        self._violations = violations = self.violations(now) + 1
        self._counted_at = now
        if limits.flood_policy == "warn" or violations <= limits.violations_warned_max:
            return "warn"
        if violations <= limits.violations_max:
            return "drop"
        # The number is capped, or a client would need as long to be forgiven as it has flooded.
        self._violations = float(limits.violations_max)
        return "drop" if limits.flood_policy == "drop" else "disconnect"

    def bar(self, now: float) -> None:
        """The client is disconnected, and may not resume for a while."""
        self.barred_until = now + self._limits.retry_after_max_s

    def violations(self, now: float) -> float:
        return max(0.0, self._violations - (now - self._counted_at) * self._limits.violations_per_s)


# Before sign-in. Many players may share an address, so nothing here affects those with a valid session: a resume with a
# valid token costs the address nothing, and neither wrong credentials nor floods block it. They block new sign-ins.


class AddressActivity:
    """The counts of one address."""

    __slots__ = (
        "_blocked_until",
        "_counted_at",
        "_failures",
        "_limits",
        "_slots",
        "guesses",
        "hellos",
        "unauthenticated",
    )

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.unauthenticated = 0
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
        self.unauthenticated = 0
        # Those with unauthenticated connections, and the others, least recently seen first.
        self._active: dict[str, AddressActivity] = {}
        self._idle: dict[str, AddressActivity] = {}

    def __len__(self) -> int:
        return len(self._active) + len(self._idle)

    def activity(self, name: str) -> AddressActivity:
        """The counts of an address, which is marked as just seen."""
        known = self._active.get(name)
        if known is not None:
            return known
        activity = self._idle.pop(name, None)
        is_new = activity is None
        if activity is None:
            activity = AddressActivity(self._limits)
        self._idle[name] = activity
        if is_new:
            self._make_space()
        return activity

    def came(self, name: str) -> None:
        """An unauthenticated connection has opened."""
        activity = self.activity(name)
        activity.unauthenticated += 1
        self.unauthenticated += 1
        self._idle.pop(name, None)
        self._active[name] = activity

    def went(self, name: str) -> None:
        """A connection has signed in or closed."""
        activity = self._active[name]
        activity.unauthenticated -= 1
        self.unauthenticated -= 1
        if not activity.unauthenticated:
            self._idle[name] = self._active.pop(name)
            self._make_space()

    def _make_space(self) -> None:
        while len(self) > self._limits.addresses_max and len(self._idle) > 1:
            del self._idle[next(iter(self._idle))]


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
