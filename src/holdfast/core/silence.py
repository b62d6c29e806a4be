"""Whether a peer is alive although no complete payload came for a while: the link still carries traffic.

Bytes of its next payload may be arriving. Or bytes to the peer may be leaving: the ping waits behind them, and so does
the pong. Bytes that the link accepts at once prove nothing: the peer's system does that while its program hangs.
"""

from typing import NamedTuple


class Traffic(NamedTuple):
    """What a link has carried so far, counted in bytes and not in payloads."""

    received: int = 0
    taken: int = 0
    """Acknowledged or read by the other end."""
    waiting: int = 0
    """Sent, and not taken by the other end yet."""


class Look(NamedTuple):
    """The traffic at some time."""

    at: float
    traffic: Traffic

    def is_alive(self, before: "Look | None", heard_at: float, bytes_per_s: float) -> bool:
        """Whether enough was carried since the look before, if that was taken in the same silence."""
        if before is None or not heard_at <= before.at < self.at:
            return False
        received = self.traffic.received - before.traffic.received
        taken = min(self.traffic.taken - before.traffic.taken, before.traffic.waiting)
        return received + taken >= bytes_per_s * (self.at - before.at)
