"""Rate limits: a burst, then a rate per second. Time is an argument.

A bucket is one number, the time at which it will be full again (the generic cell rate algorithm). Taking from it moves
that time forward; nothing has to be refilled. In any period at most the burst plus rate × period is taken.
"""

NEVER = float("-inf")
_HAIR = 0.01


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
