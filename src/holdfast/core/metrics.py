"""What is measured, and what was read: as plain data, for whoever draws it."""

from typing import Literal

from msgspec import Struct


class Metric(Struct, frozen=True):
    """Something that is measured, in the base unit that its name ends in."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    """A counter only grows while the node lives, and its name ends in _total; a gauge goes up and down."""
    help: str
    labels: tuple[str, ...] = ()
    """What it is told apart by. Every label has few values."""


class Spread(Struct, frozen=True):
    """What a histogram has counted."""

    bounds: tuple[float, ...]
    cumulative: list[int]
    """How many values were at most as large as each bound, and in all."""
    sum: float


class Reading(Struct, frozen=True):
    """A metric at one moment: its value for each combination of its labels' values that there is."""

    metric: Metric
    values: dict[tuple[str, ...], float | Spread]
