"""How long a client waits before it tries again: full jitter, so that ten thousand clients do not return at once.

    random() × min(longest_s × stretch, first_s × 2^attempt)

The cap is low, so that a server that restarts is found within about a second of opening its port. A server that stays
away is asked less often: after `LONG_OUTAGE_S` the cap grows in proportion to the outage, up to `STRETCH_MAX` times.
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
        # Not `first_s > longest_s`: a NaN has to be refused too.
        if not 0.0 < self.first_s <= self.longest_s < float("inf"):
            raise ValueError("the first wait must be more than 0 s, and no longer than the longest")

    def wait_s(self, attempt: int, entropy: float, *, lost_s: float = 0.0, retry_after_s: float = 0.0) -> float:
        """The wait before attempt number `attempt` (from 0), `lost_s` after the loss; `chance` is uniform in [0, 1).

        If the server named a time, that time passes first.
        """
        stretch = min(max(1.0, lost_s / LONG_OUTAGE_S), STRETCH_MAX)
        ceiling = min(self.longest_s * stretch, self.first_s * 2.0 ** min(attempt, _DOUBLINGS_MAX))
        return retry_after_s + entropy * ceiling
