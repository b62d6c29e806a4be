"""The numbers of a run."""

from collections import Counter
from collections.abc import Iterable

from tests.storm.summary import checked_lines, violation_lines
from tests.storm_cluster.checker import Checked
from tests.storm_cluster.ownership import Change, percentile


def summary(checked: Checked) -> str:
    """What was done, checked and found."""
    findings, changes = checked
    counts = findings.counts
    lines = [
        f"done: {counts['kill']:,} kills of a node ({counts['kill early']:,} while it started),"
        f" {counts['stop']:,} stops, {counts['drain']:,} drains, {counts['moved']:,} moves, {counts['cut']:,} cuts,"
        f" {counts['nats'] // 2:,} NATS servers killed, stopped or cut off, {counts['fenced']:,} rooms fenced",
        *checked_lines(findings),
    ]
    calm = [change for change in changes if not (change.is_disturbed or change.is_without_leader)]
    lines += _times("from a kill to each room playing elsewhere", (each for each in calm if each.cause == "kill"), 3.0)
    lines += _times(
        "the same while NATS had no leader, or more was done to the nodes",
        (each for each in changes if each.cause == "kill" and (each.is_disturbed or each.is_without_leader)),
        10.0,
    )
    lines += _times(
        "rooms that were moved, from commit to commit", (each for each in calm if each.cause == "move"), 0.5
    )
    lines += _times("rooms of a node that was drained, the same", (each for each in calm if each.cause == "drain"), 0.5)
    lines += _times(
        "rooms of a node that was stopped or cut off, from its last commit",
        (each for each in calm if each.cause in {"stop", "cut"}),
        3.0,
    )
    return "\n".join([*lines, *violation_lines(findings)])


def _times(what: str, changes: Iterable[Change], wanted_s: float) -> list[str]:
    times = [change.unowned_s for change in changes]
    if not times:
        return []
    late = sum(each > wanted_s for each in times)
    return [
        f"{what}: p50 {percentile(times, 0.5):.2f}, p99 {percentile(times, 0.99):.2f}, max {max(times):.2f} s"
        f" ({len(times):,}; {late} above {wanted_s:g} s)"
    ]


def episodes_line(counts: Counter[str]) -> str:
    """How often what was done."""
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
