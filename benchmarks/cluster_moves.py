"""How long does a durable room stand still when it moves to another node in the middle of a match?

Three nodes; in each room two players, one of whom is relayed from another node, who say ten numbers a second each.
First the rooms move one after the other, as an operator moves one; then a node is drained, which hands all its rooms
over. The pause is that of the room: from the moment at which its connections stand still until the other node has it.
Beside it, what the players notice: the time from `send` to the answer, with and without moves.

    python -m benchmarks.cluster_moves [--rooms 60] [--moves 200] [--drains 3] [--rate 10] [--folder on/a/disk]
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

from rich.console import Console
from rich.table import Table

from benchmarks.cluster_players import Players
from benchmarks.cluster_rig import Rig
from benchmarks.directory import percentile

WITHIN_S = 0.5
_REST_S = 2.0
# An operator does not move the next one in the same moment.
_BETWEEN_S = 0.05


async def _pauses(rig: Rig) -> list[float]:
    """Of the rooms that the nodes have handed over, as far as they remember."""
    found: list[float] = []
    for node in rig.nodes.values():
        node.ask("pauses")
        [pauses] = await node.heard("pauses")
        found += pauses
    return found


async def _move(rig: Rig, rooms: Sequence[str], count: int, random: Random) -> int:
    """So many moves; how many rooms stayed where they were."""
    stayed = 0
    names = list(rig.nodes)
    for n in range(count):
        room = rooms[n % len(rooms)]
        owner = rig.owners[room][0]
        rig.nodes[owner].ask(f"move {room} {random.choice([name for name in names if name != owner])}")
        [_, why] = await rig.nodes[owner].heard("moved")
        stayed += bool(why)
        await asyncio.sleep(_BETWEEN_S)
    return stayed


async def measure(options: argparse.Namespace, console: Console) -> int:
    """Move, drain; then the table."""
    random = Random(1)
    table = Table("", "p50", "p99", "max", "of")

    def add(title: str, values: list[float]) -> None:
        figures = (percentile(values, 0.5), percentile(values, 0.99), max(values))
        table.add_row(title, *(f"{value * 1e3:.0f} ms" for value in figures), f"{len(values):,}")

    drained: list[str] = []
    async with Rig(folder=options.folder) as rig:
        async with Players(rig.urls, rooms=options.rooms, seats=2, per_s=options.rate) as players:
            await rig.until(lambda: len(rig.owners) >= options.rooms)
            await asyncio.sleep(_REST_S)
            await players.report()
            await asyncio.sleep(2 * _REST_S)
            add("from `send` to the answer, without moves", (await players.report()).latencies_s)
            stayed = await _move(rig, players.rooms, options.moves, random)
            moving = await _pauses(rig)
            report = await players.report()
            add("the same, while rooms move", report.latencies_s)
            drops = len(report.resumed_at)
            draining: list[float] = []
            for n in range(options.drains):
                node = rig.nodes[f"node{n % len(rig.nodes)}"]
                count = sum(owner == node.name for owner, _ in rig.owners.values())
                node.ask("pauses")
                [before] = await node.heard("pauses")
                node.ask("drain")
                [seconds] = await node.heard("drained")
                node.ask("pauses")
                [after] = await node.heard("pauses")
                draining += after[len(before) :]
                drained.append(f"{count} rooms in {seconds:.2f} s")
                await node.kill()
                await rig.start(node.name)
            add("the same, while nodes drain", (await players.report()).latencies_s)
            final = await players.report("end")
        errors = rig.errors()
    add("pause of a room that moves alone", moving)
    add("pause of a room of a node that drains", draining)
    table.title = f"{options.rooms} durable rooms of 2 players on three nodes, {os.cpu_count()} cores"
    console.print(table)
    console.print(
        f"Nodes that were drained: {', '.join(drained)}.",
        f"{stayed} of {options.moves} rooms stayed where they were; {drops} drops while rooms moved.",
        f"{final.sent:,} messages: " + ", ".join(f"{count} {name}" for name, count in final.wrong.items()) + ".",
        sep="\n",
    )
    if errors:
        console.print(errors, markup=False)
    is_late = percentile([*moving, *draining], 0.99) > WITHIN_S
    return 1 if any(final.wrong.values()) or is_late else 0


def main() -> int:
    """Parse, run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rooms", type=int, default=60)
    parser.add_argument("--moves", type=int, default=200)
    parser.add_argument("--drains", type=int, default=3)
    parser.add_argument("--rate", type=float, default=10.0, help="messages of each player a second")
    parser.add_argument("--folder", type=Path, help="where NATS keeps its files: a disk, not a tmpfs")
    options = parser.parse_args()
    return asyncio.run(measure(options, Console(highlight=False)))


if __name__ == "__main__":
    sys.exit(main())
