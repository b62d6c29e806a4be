"""A node of three is killed (kill -9), again and again: how long until each of its durable rooms plays elsewhere?

Every room has a player, a real session of the SDK, who counts: each number is answered with how many were counted, so
that a message that is lost or doubled is seen at once. A room plays elsewhere once another node has saved it: then it
is owned there, and what it says leaves. The node that has the most rooms is killed, about half of them, and started
again when the others have them all. Three NATS servers keep every record on three disks' worth of files (R3) and write
it before they acknowledge it (`sync_interval: always`).

    python -m benchmarks.cluster_takeover [--rooms 1000] [--kills 20] [--rate 0.5] [--folder on/a/disk] [--samples file]

With `--samples` one measurement is made in several runs: the table is of all that the file has.
"""

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.cluster_players import Players
from benchmarks.cluster_rig import Rig
from benchmarks.directory import percentile

WITHIN_S = 3.0
# The others are at rest again.
_REST_S = 1.0


class Kill(msgspec.Struct):
    """One kill, and the seconds from it."""

    owned_s: list[float]
    """Until each room of the node played elsewhere."""
    back_s: list[float]
    """Until each player who had lost the connection or the room was back."""


class Samples(msgspec.Struct):
    """What was measured, in one run or several."""

    kills: list[Kill] = []
    sent: int = 0
    wrong: dict[str, int] = {}

    @property
    def owned_s(self) -> list[float]:
        return [at for kill in self.kills for at in kill.owned_s]

    @property
    def late(self) -> int:
        """How many kills took too long for at least one room."""
        return sum(max(kill.owned_s) > WITHIN_S for kill in self.kills)

    def save(self, file: Path | None) -> None:
        """Keep it, if it is to be kept."""
        if file is not None:
            file.write_bytes(msgspec.json.encode(self))

    def table(self, rooms: int) -> Table:
        """The times."""
        title = f"{len(self.kills)} kills, {rooms:,} durable rooms on three nodes, {os.cpu_count()} cores"
        table = Table("from the kill until", "p50", "p99", "max", "of", title=title)
        rows = {
            "a room plays elsewhere": self.owned_s,
            "all rooms of the node do": [max(kill.owned_s) for kill in self.kills],
            "its player is back": [at for kill in self.kills for at in kill.back_s],
        }
        for row, values in rows.items():
            figures = (percentile(values, 0.5), percentile(values, 0.99), max(values))
            table.add_row(row, *(f"{value:.2f} s" for value in figures), f"{len(values):,}")
        return table


async def measure(options: argparse.Namespace, console: Console) -> int:
    """Kill, wait, start again; then the table."""
    samples, file = Samples(), options.samples
    if file is not None and file.exists():
        samples = msgspec.json.decode(file.read_bytes(), type=Samples)
    async with Rig(folder=options.folder) as rig:
        console.print(f"{options.rooms} rooms are made …")
        began_at = time.monotonic()
        async with Players(rig.urls, rooms=options.rooms, seats=1, per_s=options.rate) as players:
            await rig.until(lambda: len(rig.owners) >= options.rooms)
            console.print(f"… in {time.monotonic() - began_at:.0f} s")
            for number in range(1, options.kills + 1):
                await asyncio.sleep(_REST_S)
                name, kill = await _kill(rig, players)
                samples.kills.append(kill)
                samples.save(file)
                console.print(
                    f"{number}/{options.kills}: {len(kill.owned_s)} rooms of {name}"
                    f" in {percentile(kill.owned_s, 0.5):.2f} s (p50), {max(kill.owned_s):.2f} s (all);"
                    f" {len(kill.back_s)} players back, the last after {max(kill.back_s):.2f} s"
                )
            final = await players.report("end")
        errors = rig.errors()
    samples.sent += final.sent
    samples.wrong = {word: samples.wrong.get(word, 0) + count for word, count in final.wrong.items()}
    samples.save(file)
    console.print(samples.table(options.rooms))
    console.print(
        f"{samples.sent:,} messages: " + ", ".join(f"{count} {word}" for word, count in samples.wrong.items()) + ".",
        f"{samples.late} of {len(samples.kills)} kills took longer than {WITHIN_S:g} s for all rooms.",
    )
    if errors:
        console.print(errors, markup=False)
    return 1 if any(samples.wrong.values()) or percentile(samples.owned_s, 0.99) > WITHIN_S else 0


async def _kill(rig: Rig, players: Players) -> tuple[str, Kill]:
    """Kill the node with the most rooms, and start it again when the others have them."""
    await players.report()
    name, _ = Counter(node for node, _ in rig.owners.values()).most_common(1)[0]
    rooms = [room for room, (node, _) in rig.owners.items() if node == name]
    killed_at = await rig.nodes[name].kill()
    await rig.until(lambda: all(rig.owners[room][1] > killed_at for room in rooms))
    owned_s = [rig.owners[room][1] - killed_at for room in rooms]
    await rig.start(name)
    report = await players.report()
    return name, Kill(owned_s, [at - killed_at for at in report.resumed_at if at > killed_at])


def main() -> int:
    """Parse, run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rooms", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rate", type=float, default=0.5, help="messages of each player a second")
    parser.add_argument("--folder", type=Path, help="where NATS keeps its files: a disk, not a tmpfs")
    parser.add_argument("--samples", type=Path, help="add to what this file has, as several runs of one measurement")
    options = parser.parse_args()
    return asyncio.run(measure(options, Console(highlight=False)))


if __name__ == "__main__":
    sys.exit(main())
