"""Round-trip time of one session: the last sample, the worst, a smoothed value and the jitter (as RFC 6298 does)."""

_GAIN = 1 / 8
_JITTER_GAIN = 1 / 4


class Latency:
    """Statistics of samples in milliseconds; all zero until the first one."""

    __slots__ = ("jitter_ms", "last_ms", "samples", "smoothed_ms", "worst_ms")

    def __init__(self) -> None:
        self.last_ms = 0.0
        self.smoothed_ms = 0.0
        self.jitter_ms = 0.0
        self.worst_ms = 0.0
        self.samples = 0

    def add(self, sample_ms: float) -> None:
        """Add one measured round trip."""
        self.last_ms = sample_ms
        self.worst_ms = max(self.worst_ms, sample_ms)
        if self.samples == 0:
            self.smoothed_ms = sample_ms
            self.jitter_ms = sample_ms / 2
        else:
            self.jitter_ms += _JITTER_GAIN * (abs(sample_ms - self.smoothed_ms) - self.jitter_ms)
            self.smoothed_ms += _GAIN * (sample_ms - self.smoothed_ms)
        self.samples += 1
