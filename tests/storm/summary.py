"""The numbers of a run."""

from statistics import median

from tests.storm.checker import Findings

_SHOWN = 20


def summary(findings: Findings) -> str:
    """What was checked, and what was found."""
    counts = findings.counts
    lines = [
        f"done: {counts['kill']:,} kills ({counts['kill early']:,} while the server started), {counts['stop']:,} stops,"
        f" {counts['zombie']:,} zombies ({counts['fenced']:,} rooms fenced), {counts['full']:,} full disks or NATS"
        " kills",
        *checked_lines(findings),
    ]
    if findings.returns:
        first, last = zip(*findings.returns, strict=True)
        lines.append(
            f"from kill to everybody back: median {median(last):.2f} s, worst {max(last):.2f} s; to the first:"
            f" median {median(first):.2f} s, worst {max(first):.2f} s ({len(last)} kills that found everybody there)"
        )
    return "\n".join([*lines, *violation_lines(findings)])


def checked_lines(findings: Findings) -> list[str]:
    """How much was checked, and how much of it is wrong."""
    counts = findings.counts
    return [
        f"checked: {counts['up']:,} messages up, {counts['down']:,} down, {counts['resumes']:,} resumes"
        f" ({counts['replayed']:,} messages replayed), {counts['rings']:,} timers,"
        f" {counts['effects']:,} effects ({counts['payments']:,} times carried out),"
        f" {counts['records']:,} records ({counts['links']:,} links)",
        f"lost {counts['lost']}, duplicated {counts['duplicated']}, reordered {counts['reordered']},"
        f" other {len(findings.violations) - counts['lost'] - counts['duplicated'] - counts['reordered']}",
    ]


def violation_lines(findings: Findings) -> list[str]:
    """The first of what was found."""
    lines = [f"  {violation.kind}: {violation.what}" for violation in findings.violations[:_SHOWN]]
    if len(findings.violations) > _SHOWN:
        lines.append(f"  … and {len(findings.violations) - _SHOWN} more")
    return lines
