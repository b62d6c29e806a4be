"""What a load counts: latencies in a histogram, messages by what became of them, sessions by how they came back."""

import math
from typing import Any

import msgspec

# A bucket is this much wider than the one before: what a histogram says of a latency is right to within 5 %.
_WIDER = 1.05
_LEAST_MS = 0.01
_REASONS_MAX = 5


class Histogram(msgspec.Struct):
    """Latencies, by the number of their bucket."""

    counts: dict[int, int] = {}

    def add(self, seconds: float) -> None:
        """One more."""
        bucket = math.ceil(math.log(max(seconds * 1e3, _LEAST_MS) / _LEAST_MS, _WIDER))
        self.counts[bucket] = self.counts.get(bucket, 0) + 1

    def merge(self, other: "Histogram") -> None:
        """Those of another one, too."""
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count

    @property
    def total(self) -> int:
        """How many there are."""
        return sum(self.counts.values())

    def within_ms(self, share: float) -> float:
        """The latency that this share of them did not exceed; 0 if there are none."""
        left = math.ceil(self.total * share)
        for bucket in sorted(self.counts):
            left -= self.counts[bucket]
            if left <= 0:
                return _LEAST_MS * _WIDER**bucket
        return 0.0

    def bands(self) -> list[tuple[float, float, int]]:
        """From, to and how many, in milliseconds; each band is twice as wide as the one before."""
        doubled: dict[int, int] = {}
        for bucket, count in self.counts.items():
            band = max(0, math.ceil(math.log2(_LEAST_MS * _WIDER**bucket / 0.125)))
            doubled[band] = doubled.get(band, 0) + count
        if not doubled:
            return []
        return [
            (0.0 if band == 0 else 0.0625 * 2**band, 0.125 * 2**band, doubled.get(band, 0))
            for band in range(min(doubled), max(doubled) + 1)
        ]


class LoadTally(msgspec.Struct):
    """What the bots of one process have counted since it began, but the latencies since the measurement began."""

    signed_in: int = 0
    sent: int = 0
    acknowledged: int = 0
    unconfirmed: int = 0
    """Sent, and not acknowledged when the bots had stopped and the server had had time."""
    undelivered: int = 0
    """Sent to a seat or session that was gone before; the client was told so."""
    received: int = 0
    lost: int = 0
    """Numbers that were left out on the way to a client."""
    duplicated: int = 0
    """Numbers that came to a client's game twice."""
    drops: int = 0
    injected: int = 0
    resumed: int = 0
    resynced: int = 0
    reset: int = 0
    replayed: int = 0
    finished: int = 0
    """Bots whose `play` returned, and whose place another one took."""
    failed: int = 0
    reasons: list[str] = []
    """Why bots failed: the first few."""
    sends: Histogram = msgspec.field(default_factory=Histogram)
    """From when a message was due until the server had acknowledged it."""
    asks: Histogram = msgspec.field(default_factory=Histogram)
    """The same of messages whose sender waits for the answer."""
    late: Histogram = msgspec.field(default_factory=Histogram)
    """How late the load itself was, whatever the server did: the latencies contain it."""
    cpu_s: float = 0.0

    def fail(self, reason: str) -> None:
        """A bot has failed."""
        self.failed += 1
        if len(self.reasons) < _REASONS_MAX and reason not in self.reasons:
            self.reasons.append(reason)

    def merge(self, other: "LoadTally") -> None:
        """What another process has counted, too."""
        for name in self.__struct_fields__:
            mine: Any = getattr(self, name)
            theirs: Any = getattr(other, name)
            match mine:
                case Histogram():
                    mine.merge(theirs)
                case list():
                    mine += [each for each in theirs if each not in mine][: _REASONS_MAX - len(mine)]
                case _:
                    setattr(self, name, mine + theirs)


class ServerReport(msgspec.Struct, frozen=True):
    """What the server says of itself."""

    cpu_s: float
    memory_mib: float
    applied: int
    repeated: int
    """Messages that a client sent again and the server had already: not applied."""
    throttled: int
    has_agents: bool
    """Agents' messages count as applied, too, and no client has sent them."""
