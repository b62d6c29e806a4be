"""Allowances that fill up again: so many at once, then so many a second. Time is an argument.

A bucket is one number, the time at which it will be full again (the generic cell rate algorithm). Taking from it moves
that time onwards; there is nothing to refill and nothing to tick. What is taken in any stretch of time is at most the
burst and what the rate allows in it.
"""

NEVER = float("-inf")
_HAIR = 0.01


class Rate:
    """So many at once, then so many a second: shared by all buckets of a kind."""

    __slots__ = ("span_s", "step_s")

    def __init__(self, burst: float, per_s: float) -> None:
        if burst <= 0 or per_s <= 0:
            raise ValueError(f"an allowance needs a burst and a rate above 0; got {burst:g} and {per_s:g} a second")
        self.step_s = 1.0 / per_s
        """How long it takes to earn one."""
        # A hair more, or the last of the burst would be refused for a sum of fractions that is not exact.
        self.span_s = (burst + _HAIR) / per_s
        """How long it takes to fill a bucket."""


class Bucket:
    """One allowance. `full_at` and `step_s` are open for hot paths, which need no call while the bucket is full."""

    __slots__ = ("_span_s", "full_at", "step_s")

    def __init__(self, rate: Rate) -> None:
        self.step_s = rate.step_s
        self._span_s = rate.span_s
        self.full_at = NEVER

    def take(self, now: float, amount: float = 1) -> bool:
        """Take so many, or nothing if there are not enough; a full bucket gives more than it holds, once, on credit."""
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
        """Take one, if need be on credit: whoever comes next waits longer for it."""
        self.full_at = max(self.full_at, now) + self.step_s

    def wait_s(self, now: float, amount: float = 1) -> float:
        """How long until so many can be taken; 0 if they can be now."""
        missing_s = self.full_at + amount * self.step_s - now - self._span_s
        return max(0.0, min(missing_s, self.full_at - now))

    def give_back(self, amount: float = 1) -> None:
        """Put back what was taken for nothing. A bucket never holds more than its burst for it."""
        self.full_at -= amount * self.step_s


class Slots:
    """Places in time for those who have to come back: each is told a later one, so that they do not all return at once.

    The places are `1 / per_s` apart and none is further away than `wait_max_s`: when all are given out, those of the
    later half are given out again. Whoever returns then may be told another.
    """

    __slots__ = ("_step_s", "_wait_max_s", "last_at")

    def __init__(self, per_s: float, wait_max_s: float) -> None:
        self._step_s = 1.0 / per_s
        self._wait_max_s = wait_max_s
        self.last_at = NEVER
        """The last place that was given out."""

    def next_s(self, now: float, *, after: float = NEVER) -> float:
        """How long from now the next free place is, none of them before `after`."""
        wait_s = max(now, self.last_at, after) + self._step_s - now
        if wait_s > self._wait_max_s:
            wait_s = min(self._wait_max_s, self._wait_max_s / 2 + self._step_s)
        self.last_at = now + wait_s
        return wait_s
