"""How long it takes from a kill until everybody is back."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from tests.storm.history import Line

_DISTURBANCES = {"kill", "stop", "zombie", "full"}
# After these, everybody has to come back.
_SENDS_AWAY = {"kill", "zombie"}


class Return(NamedTuple):
    """How long it took from a kill until somebody was back, and until everybody was."""

    first_s: float
    last_s: float


def times_to_return(storm: Sequence[Line], backs: Sequence[Sequence[float]]) -> list[Return]:
    """Of each kill that found everybody there, and after which nothing else was done before the last one was back.

    `backs` are the times at which each client came back.
    """
    disturbed = [line[1] for line in storm if line[0] in _DISTURBANCES]
    sent_away = [line[1] for line in storm if line[0] in _SENDS_AWAY]
    found: list[Return] = []
    for line in storm:
        if line[0] != "kill":
            continue
        killed_at = line[1]
        later = bisect_right(disturbed, killed_at)
        before = bisect_left(sent_away, killed_at)
        until = disturbed[later] if later < len(disturbed) else float("inf")
        firsts = [_first_after(times, killed_at) for times in backs]
        were_there = not before or all(_first_after(times, sent_away[before - 1]) < killed_at for times in backs)
        if firsts and were_there and max(firsts) < until:
            found.append(Return(min(firsts) - killed_at, max(firsts) - killed_at))
    return found


def _first_after(times: Sequence[float], at: float) -> float:
    place = bisect_right(times, at)
    return times[place] if place < len(times) else float("inf")
