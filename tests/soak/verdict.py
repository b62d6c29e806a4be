"""What the readings of a soak say: whether anything has grown over its second half."""

from collections.abc import Callable, Sequence
from math import sqrt
from statistics import median, variance
from typing import NamedTuple

GROWTH_MAX = 0.05
"""By this much the last quarter may be above the third one."""
READINGS_MIN = 8
"""Fewer say nothing: a quarter must have two."""


class Row(NamedTuple):
    """One reading, taken when everybody had gone."""

    minute: float
    memory_bytes: float
    store_bytes: float
    descriptors: float
    tasks: float
    cpu_memory: float
    """CPU per message in a memory room, beside a server that nobody churns."""
    cpu_commit: float
    """The same in a durable room."""


class Watched(NamedTuple):
    """One column, and what is too little to be growth."""

    name: str
    of: Callable[[Row], float]
    slack: float


WATCHED = (
    # A page of the allocator here and there; a log of SQLite that is cut now and not then.
    Watched("memory", lambda row: row.memory_bytes, 512 * 1024),
    Watched("store", lambda row: row.store_bytes, 64 * 1024),
    Watched("descriptors", lambda row: row.descriptors, 1),
    Watched("tasks", lambda row: row.tasks, 1),
    # Ratios of two servers that are measured in turn, on a machine that others use too.
    Watched("CPU per message, memory", lambda row: row.cpu_memory, 0.05),
    Watched("CPU per message, commit", lambda row: row.cpu_commit, 0.05),
)


class Finding(NamedTuple):
    """How one column went over the second half."""

    name: str
    before: float
    after: float
    is_flat: bool

    @property
    def growth(self) -> float:
        """Relative; 0.05 is five per cent."""
        return self.after / self.before - 1 if self.before else 0.0


def findings(rows: Sequence[Row]) -> list[Finding]:
    """The third quarter against the last one, for each column; the first half is warm-up. Empty if it is too short."""
    if len(rows) < READINGS_MIN:
        return []
    quarter = len(rows) // 4
    third, last = rows[-2 * quarter : -quarter], rows[-quarter:]
    found: list[Finding] = []
    for name, of, slack in WATCHED:
        before, after = [of(row) for row in third], [of(row) for row in last]
        allowed = median(before) * (1 + GROWTH_MAX) + slack + _noise(before, after)
        found.append(Finding(name, median(before), median(after), median(after) <= allowed))
    return found


def _noise(before: list[float], after: list[float]) -> float:
    """How far apart two such quarters are by chance, nineteen times in twenty, if readings waver as these do."""
    spread = sqrt((variance(before) + variance(after)) / 2)
    return 2 * spread * sqrt(2 / len(before))
