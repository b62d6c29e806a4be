"""How long a round trip takes, how soon to send again, and how much to hold back: from the peer's acknowledgements."""

# Until the first round trip is known.
_ROUND_TRIP_S = 0.5
# Below it a busy machine answers late, and everything would be sent twice.
_RESEND_S_MIN = 0.05
# A packet that was lost several times is not held back much longer: the peer may only have been unable to read it.
_RESEND_S_MAX = 1.0

THROTTLE_MAX = 32
"""The throttle is a fraction of this: of the window, and of the datagrams that are sent."""
# A path that is this full still gets a quarter: the newest position must arrive now and then.
_THROTTLE_MIN = 8
_THROTTLE_STEP = 2
# The counter visits each of 32 values once before it repeats one: 7 and 32 have no common divisor.
_COUNTER_STEP = 7
# For so long the best round trip is what later ones are compared with.
_INTERVAL_S = 5.0
# The system's and Python's own delays vary that much without any queue on the way.
_JITTER_S = 0.02


class RoundTrip:
    """The smoothed round-trip time and its deviation."""

    __slots__ = ("deviation_s", "is_known", "smoothed_s")

    def __init__(self) -> None:
        self.smoothed_s = _ROUND_TRIP_S
        self.deviation_s = 0.0
        self.is_known = False

    def add(self, sample_s: float) -> None:
        """One acknowledgement has arrived."""
        if not self.is_known:
            self.is_known = True
            self.smoothed_s, self.deviation_s = sample_s, sample_s / 2
            return
        self.deviation_s += (abs(sample_s - self.smoothed_s) - self.deviation_s) / 4
        self.smoothed_s += (sample_s - self.smoothed_s) / 8

    @property
    def resend_s(self) -> float:
        """How long to wait for an acknowledgement."""
        return min(max(self.smoothed_s + 4 * self.deviation_s, _RESEND_S_MIN), _RESEND_S_MAX)


def after_loss(resend_s: float) -> float:
    """How long to wait the next time."""
    return min(2 * resend_s, _RESEND_S_MAX)


class SendThrottle:
    """Sends less while round trips get longer, because then packets wait in some queue on the way."""

    __slots__ = ("_best_s", "_counter", "_deviation_s", "_next_best_s", "_next_deviation_s", "_renewed_at", "value")

    def __init__(self) -> None:
        self.value = THROTTLE_MAX
        self._best_s: float | None = None
        self._deviation_s = 0.0
        self._next_best_s = self._next_deviation_s = 0.0
        self._renewed_at = 0.0
        self._counter = 0

    def add(self, sample_s: float, round_trip: RoundTrip, now: float) -> None:
        """One acknowledgement has arrived; `round_trip` has it already."""
        if self._best_s is not None:
            if sample_s <= max(self._best_s, _JITTER_S):
                self.value = min(self.value + _THROTTLE_STEP, THROTTLE_MAX)
            elif sample_s > self._best_s + max(2 * self._deviation_s, _JITTER_S):
                self.value = max(self.value - _THROTTLE_STEP, _THROTTLE_MIN)
            self._next_best_s = min(self._next_best_s, round_trip.smoothed_s)
            self._next_deviation_s = max(self._next_deviation_s, round_trip.deviation_s)
        if self._best_s is None or now - self._renewed_at >= _INTERVAL_S:
            if self._best_s is None:
                self._next_best_s, self._next_deviation_s = round_trip.smoothed_s, round_trip.deviation_s
            self._best_s, self._deviation_s = self._next_best_s, self._next_deviation_s
            self._next_best_s, self._next_deviation_s = round_trip.smoothed_s, round_trip.deviation_s
            self._renewed_at = now

    def lets_through(self) -> bool:
        """Whether to send the next datagram, or to drop it here instead of somewhere on the way."""
        if self.value == THROTTLE_MAX:
            return True
        self._counter = (self._counter + _COUNTER_STEP) % THROTTLE_MAX
        return self._counter < self.value
