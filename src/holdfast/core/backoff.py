"""How long a client waits before it tries again: full jitter, so that ten thousand clients do not return at once."""

FIRST_S = 0.25
LONGEST_S = 15.0
_DOUBLINGS_MAX = 16


def backoff_s(attempt: int, chance: float, *, retry_after_s: float = 0.0) -> float:
    """The wait before attempt number `attempt` (from 0); `chance` is uniform in [0, 1).

    A server that named a time is obeyed, with the jitter on top of it.
    """
    ceiling = min(LONGEST_S, FIRST_S * 2.0 ** min(attempt, _DOUBLINGS_MAX))
    return retry_after_s + chance * ceiling
