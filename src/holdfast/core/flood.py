"""The rate limits of one session, and what happens beyond them. They outlive connections: reconnecting refills nothing.

Each class of input has its allowance. Exceeding one is a violation; violations are forgiven over time, so that rare
ones have no effect. Their number decides what happens to input beyond an allowance:

    violations                         the input is
    up to `violations_warned_max`      carried out, and reported as an event
    more than that                     not carried out, and the client is told so
    more than `violations_max`         answered by closing the connection

`Limits.flood_policy` sets how far this goes.
"""

from typing import Literal

from holdfast.core.buckets import Bucket, Rate
from holdfast.core.limits import Limits

Step = Literal["warn", "drop", "disconnect"]
"""What happens to input beyond its allowance."""

PAYLOAD_OVERHEAD_BYTES = 256
"""The cost of a payload besides its bytes: reading and answering ten bytes is as much work as hundreds."""


# The last payload of a connection, a bye, is free.
_FAREWELL_S = 0.01


class Rates:
    """The rate limits of every session of a node, and of unauthenticated connections."""

    __slots__ = ("bytes", "hello", "latest", "limits", "messages", "requests")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.messages = Rate(limits.messages_burst, limits.messages_per_s)
        self.latest = Rate(limits.latest_burst, limits.latest_per_s)
        self.requests = Rate(limits.requests_burst, limits.requests_per_s)
        self.bytes = Rate(limits.bytes_burst, limits.bytes_per_s)
        hello_bytes = limits.hello_bytes_max + PAYLOAD_OVERHEAD_BYTES
        self.hello = Rate(hello_bytes, hello_bytes / limits.hello_s)
        """Bytes of an unauthenticated connection."""


class Flood:
    """The allowances of one session, and its violations."""

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
        """The violations that are not forgiven yet."""
        return max(0.0, self._violations - (now - self._counted_at) * self._limits.violations_per_s)
