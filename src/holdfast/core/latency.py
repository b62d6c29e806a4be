"""The round-trip time of a session."""


class Latency:
    """Round-trip times in milliseconds, smoothed as in RFC 6298; all zero until the first sample."""

    __slots__ = ("jitter_ms", "last_ms", "samples", "smoothed_ms", "worst_ms")

    def __init__(self) -> None:
        self.last_ms = 0.0
        self.smoothed_ms = 0.0
        self.jitter_ms = 0.0
        self.worst_ms = 0.0
        self.samples = 0

    def add(self, sample_ms: float) -> None:
        self.last_ms = sample_ms
        self.worst_ms = max(self.worst_ms, sample_ms)
        if self.samples == 0:
            self.smoothed_ms = sample_ms
            self.jitter_ms = sample_ms / 2
        else:
            self.jitter_ms += (abs(sample_ms - self.smoothed_ms) - self.jitter_ms) / 4
            self.smoothed_ms += (sample_ms - self.smoothed_ms) / 8
        self.samples += 1
