"""A node of three is killed (kill -9), again and again: how long until each of its durable rooms plays elsewhere?

Every room has a player, a real session of the SDK, who counts: each number is answered with how many were counted, so
that a message that is lost or doubled is seen at once. A room plays elsewhere once another node has saved it: then it
is owned there, and what it says leaves. The node that has the most rooms is killed, about half of them, and started
again when the others have them all. Three NATS servers keep every record on three disks' worth of files (R3) and write
it before they acknowledge it (`sync_interval: always`).

    python -m benchmarks.cluster_takeover [--rooms 1000] [--kills 20] [--rate 0.5] [--folder on/a/disk]
"""

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.cluster_players import Players
from benchmarks.cluster_rig import Rig
from benchmarks.directory import percentile

WITHIN_S = 3.0
# The others are at rest again.
_REST_S = 1.0


async def measure(options: argparse.Namespace, console: Console) -> int:
    """Kill, wait, start again; then the table."""
    owned_s: list[float] = []
    back_s: list[float] = []
    worst: list[float] = []
    async with Rig(folder=options.folder) as rig:
        console.print(f"{options.rooms} rooms are made …")
        began_at = time.monotonic()
        async with Players(rig.urls, rooms=options.rooms, seats=1, per_s=options.rate) as players:
            await rig.until(lambda: len(rig.owners) >= options.rooms)
            console.print(f"… in {time.monotonic() - began_at:.0f} s")
            for number in range(1, options.kills + 1):
                await asyncio.sleep(_REST_S)
                await players.report()
                name, count = Counter(node for node, _ in rig.owners.values()).most_common(1)[0]
                rooms = [room for room, (node, _) in rig.owners.items() if node == name]
                killed_at = await rig.nodes[name].kill()
                await rig.until(lambda: all(rig.owners[room][1] > killed_at for room in rooms))  # noqa: B023 - used at once
                times = [rig.owners[room][1] - killed_at for room in rooms]
                await rig.start(name)
                report = await players.report()
                resumed = [at - killed_at for at in report.resumed_at if at > killed_at]
                owned_s += times
                back_s += resumed
                worst.append(max(times))
                console.print(
                    f"{number}/{options.kills}: {count} rooms of {name} in {percentile(times, 0.5):.2f} s (p50),"
                    f" {max(times):.2f} s (all); {len(resumed)} players back, the last after {max(resumed):.2f} s"
                )
            final = await players.report("end")
        errors = rig.errors()
    table = Table("from the kill until", "p50", "p99", "max", "of")
    for title, values in (("a room plays elsewhere", owned_s), ("its player is back", back_s)):
        figures = (percentile(values, 0.5), percentile(values, 0.99), max(values))
        table.add_row(title, *(f"{value:.2f} s" for value in figures), f"{len(values):,}")
    table.title = f"{options.kills} kills, {options.rooms:,} durable rooms on three nodes, {os.cpu_count()} cores"
    console.print(table)
    late = sum(each > WITHIN_S for each in worst)
    console.print(
        f"{final.sent:,} messages: " + ", ".join(f"{count} {name}" for name, count in final.wrong.items()) + ".",
        f"{late} of {options.kills} kills took longer than {WITHIN_S:g} s for all rooms.",
    )
    if errors:
        console.print(errors, markup=False)
    return 1 if any(final.wrong.values()) or percentile(owned_s, 0.99) > WITHIN_S else 0


def main() -> int:
    """Parse, run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rooms", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rate", type=float, default=0.5, help="messages of each player a second")
    parser.add_argument("--folder", type=Path, help="where NATS keeps its files: a disk, not a tmpfs")
    options = parser.parse_args()
    return asyncio.run(measure(options, Console(highlight=False)))


if __name__ == "__main__":
    sys.exit(main())
