"""How long a client waits before it reconnects: full jitter, so that ten thousand clients do not return at once.

    random() × min(longest_s × stretch, first_s × 2^attempt)

The cap is low, so that clients find a restarted server within about a second. A server that stays down is tried less
often: after `LONG_OUTAGE_S` the cap grows in proportion to the outage, up to `STRETCH_MAX` times.
"""

from dataclasses import dataclass

FIRST_S = 0.1
LONGEST_S = 1.0
LONG_OUTAGE_S = 30.0
STRETCH_MAX = 15.0
_DOUBLINGS_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The settings of one client."""

    first_s: float = FIRST_S
    longest_s: float = LONGEST_S

    def __post_init__(self) -> None:
        # Not `first_s > longest_s`: NaN has to be refused too.
        if not 0.0 < self.first_s <= self.longest_s < float("inf"):
            raise ValueError("first_s must be above 0, and not above longest_s")

    def wait_s(self, attempt: int, entropy: float, *, lost_s: float = 0.0, retry_after_s: float = 0.0) -> float:
        """The wait before attempt number `attempt` (from 0), `lost_s` after the loss; `entropy` is uniform in [0, 1).

        It begins after `retry_after_s`, the time that the server asked for.
        """
        stretch = min(max(1.0, lost_s / LONG_OUTAGE_S), STRETCH_MAX)
        ceiling = min(self.longest_s * stretch, self.first_s * 2.0 ** min(attempt, _DOUBLINGS_MAX))
        return retry_after_s + entropy * ceiling
