"""The newest datagram is sent once more, unless a newer one comes first: two packets are seldom both lost."""

from holdfast.core.rates import Bucket, Rate
from holdfast.transports.port import TransportLimits


class Repeat:
    """What is due once more, of one end of a link; the time is an argument.

    Only the newest: a receiver drops one that a newer one has overtaken. Repetitions are bounded by
    `udp_repeat_bytes_per_s`.
    """

    __slots__ = ("_allowance", "_data", "_repeat_s", "due_at")

    def __init__(self, limits: TransportLimits) -> None:
        self._repeat_s = limits.udp_repeat_s
        bytes_per_s = limits.udp_repeat_bytes_per_s
        self._allowance = Bucket(Rate(bytes_per_s, bytes_per_s))
        self._data = b""
        self.due_at: float | None = None
        """When to ask for it."""

    def newest(self, data: bytes, now: float) -> None:
        """This was sent now."""
        if self._repeat_s:
            self._data, self.due_at = data, now + self._repeat_s

    def take(self, now: float) -> bytes | None:
        """What to send once more now, if it is due."""
        if self.due_at is None or self.due_at > now:
            return None
        self.due_at = None
        return self._data if self._allowance.take(now, len(self._data)) else None

    def forget(self) -> None:
        """Nothing is sent once more: the path is full, or gone."""
        self.due_at = None
