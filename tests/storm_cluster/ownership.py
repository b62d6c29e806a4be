"""How long rooms were without an owner: read from the records that the nodes have written down.

A room is without an owner from the moment at which its node is killed, or else from that node's last record, until the
first record of another life. A room that comes to a node says so in a record at once.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.storm.history import Line

# A commit that nobody answers takes so long to be settled after a leader is there again.
_LEADER_S = 10.0
_FAULTS = frozenset({"kill", "stop", "cut", "drain"})


class Change(NamedTuple):
    """A room has another owner."""

    room: str
    cause: str
    """"kill", "drain", "stop", "cut", or "move" if nothing was done to the owner."""
    began_at: float
    unowned_s: float
    is_disturbed: bool
    """Something else was done to a node meanwhile."""
    is_without_leader: bool
    """NATS had no leader at that time, or only just again."""


def changes(trails: Mapping[int, Iterable[Line]], storm: Sequence[Line], idle: Collection[str] = ()) -> list[Change]:
    """All changes of owners, in the order of their time; when one of the `idle` rooms has moved, nobody can see."""
    rooms: dict[str, list[tuple[int, float, int]]] = {}
    for life, lines in trails.items():
        for line in lines:
            if line[0] == "record":
                _, at, room, _, index, *_ = line
                rooms.setdefault(room, []).append((index, at, life))
    names = {line[2]: line[3] for line in storm if line[0] == "start"}
    faults = [line for line in storm if line[0] in _FAULTS]
    times = [line[1] for line in faults]
    downs = _without_leader(storm)
    found: list[Change] = []
    for room, records in rooms.items():
        records.sort()
        for (_, last_at, former), (_, first_at, life) in pairwise(records):
            if former == life:
                continue
            meanwhile = faults[bisect_left(times, last_at - 0.5) : bisect_left(times, first_at)]
            own = [line for line in meanwhile if line[2] in {former, names.get(former)}]
            kill = next((line for line in own if line[0] == "kill"), None)
            cause = "kill" if kill is not None else own[0][0] if own else "move"
            # Its last record may be old: nobody plays there.
            done_at = kill[1] if kill is not None else own[0][1] if own else 0.0
            began_at = max(last_at, done_at)
            if cause == "move" and room in idle:
                continue
            is_without = any(began < first_at and began_at < ended for began, ended in downs)
            found.append(Change(room, cause, began_at, first_at - began_at, len(meanwhile) > len(own), is_without))
    return sorted(found, key=lambda change: change.began_at)


def _without_leader(storm: Sequence[Line]) -> list[tuple[float, float]]:
    """From when until when, at most. Another server leads before the one that is down is back."""
    found: list[tuple[float, float]] = []
    for line in storm:
        if line[0] == "nats" and line[2] == "down":
            found.append((line[1] - 1.0, line[1] + _LEADER_S))
        elif line[0] == "nats" and line[2] == "up":
            # Its return may cost the others their leader once more.
            found.append((line[1], line[1] + _LEADER_S))
    return found


def percentile(values: Sequence[float], part: float) -> float:
    """The value that so large a part of the others is not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
