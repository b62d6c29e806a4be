"""What one session may say, and what happens when it says more. It outlives connections: a new one refills nothing.

Each class of what a client says has its allowance. What is beyond one is a violation; violations are forgiven as time
passes, so that a few in a month are none. How many there are decides what becomes of the next:

    violations                         what is beyond its allowance is
    up to `violations_warned_max`      carried out all the same, and told to whoever watches the node
    more than that                     not carried out, and the client is told so
    more than `violations_max`         the end of the connection

`Limits.flood_policy` says how far down this ladder goes.
"""

from typing import Literal

from holdfast.core.buckets import Bucket, Rate
from holdfast.core.limits import Limits

Step = Literal["warn", "drop", "disconnect"]
"""What becomes of something that is beyond its allowance."""

PAYLOAD_OVERHEAD_BYTES = 256
"""What a payload costs beside its bytes: to read and answer one of ten bytes is as much work as one of hundreds."""


# The last payload of a connection, which says goodbye, need not be paid for.
_FAREWELL_S = 0.01


class Rates:
    """The allowances of every session of a node, and of a stranger, from its limits."""

    __slots__ = ("bytes", "hello", "latest", "limits", "messages", "requests")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.messages = Rate(limits.messages_burst, limits.messages_per_s)
        self.latest = Rate(limits.latest_burst, limits.latest_per_s)
        self.requests = Rate(limits.requests_burst, limits.requests_per_s)
        self.bytes = Rate(limits.bytes_burst, limits.bytes_per_s)
        hello_bytes = limits.hello_bytes_max + PAYLOAD_OVERHEAD_BYTES
        self.hello = Rate(hello_bytes, hello_bytes / limits.hello_s)
        """Bytes, of somebody who has not said who they are."""


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
        """Before that, a client that was cut off for flooding is not welcome back."""

    def is_rested(self, now: float) -> bool:
        """Whether every allowance is full and every violation forgiven: as if nothing had been said."""
        return (
            max(self.messages.full_at, self.latest.full_at, self.requests.full_at) <= now
            and self.bytes.full_at <= now + _FAREWELL_S
            and self.violations(now) == 0
            and self.barred_until <= now
        )

    def over(self, now: float) -> Step:
        """Something was beyond its allowance: what becomes of it."""
        limits = self._limits
        self._violations = violations = self.violations(now) + 1
        self._counted_at = now
        if limits.flood_policy == "warn" or violations <= limits.violations_warned_max:
            return "warn"
        if violations <= limits.violations_max:
            return "drop"
        # No more than that is remembered, or a client would not be forgiven for as long as it has flooded.
        self._violations = float(limits.violations_max)
        return "drop" if limits.flood_policy == "drop" else "disconnect"

    def bar(self, now: float) -> None:
        """The client is cut off, and not welcome for a while."""
        self.barred_until = now + self._limits.retry_after_max_s

    def violations(self, now: float) -> float:
        """How many there are that have not been forgiven yet."""
        return max(0.0, self._violations - (now - self._counted_at) * self._limits.violations_per_s)
