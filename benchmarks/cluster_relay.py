"""What does it cost to be connected to another node than the one that has the room? CPU, and time.

Two nodes; the room is in the memory of the first. The same load, as in `benchmarks.echo`, once from clients connected
to that node, and once from clients connected to the other one, which relays them. The CPU time is that of both nodes;
that of the NATS servers, through which relayed payloads go, stands beside it.

    python -m benchmarks.cluster_relay [--clients 100] [--messages 20000] [--rate 2000] [--seconds 3] [--rounds 5]
"""

import argparse
import asyncio
import statistics
from collections import defaultdict
from typing import Self

import uvloop
from msgspec import Raw
from rich.console import Console
from rich.table import Table

from benchmarks.clients import HoldfastClient
from benchmarks.cluster_rig import Rig
from benchmarks.contest import AT_ONCE, Contestant
from holdfast.core.codec import MSGPACK
from holdfast.schemas.frames import Request


class Joining(HoldfastClient):
    """Takes a seat in this room, wherever that is."""

    def __init__(self, joined: str) -> None:
        super().__init__()
        self._request = Request(1, "join", Raw(MSGPACK.encode({"room": joined})))


class ClusterLoad(Contestant):
    """Clients of all nodes of a cluster, and the CPU time of all nodes."""

    def __init__(self, rig: Rig) -> None:
        self.server = rig  # type: ignore[assignment]  # what a load asks of a server: its CPU time
        self.clients = []

    async def take_seats(self, port: int, room: str, count: int) -> None:
        """So many clients, who are connected here and have a seat there."""
        while count > 0:
            opening = (Joining.open(port, joined=room) for _ in range(min(AT_ONCE, count)))
            self.clients += await asyncio.gather(*opening)
            count -= AT_ONCE

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self.clients:
            client.cut()


async def measure(options: argparse.Namespace, console: Console) -> None:
    """Rounds of both, and their medians."""
    figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    async with Rig(2) as rig:
        home, other = rig.nodes.values()
        for _ in range(options.rounds):
            for name, node in (("direct", home), ("relayed", other)):
                async with ClusterLoad(rig) as load:
                    await load.take_seats(node.port, home.arena, options.clients)
                    await load.flat_out(options.messages // 10)
                    nats_s = rig.nats_cpu_s()
                    figures["flat out, CPU of the nodes, µs"][name].append(await load.flat_out(options.messages))
                    per_message_us = (rig.nats_cpu_s() - nats_s) / options.messages * 1e6
                    figures["flat out, CPU of NATS, µs"][name].append(per_message_us)
                    nats_s = rig.nats_cpu_s()
                    paced = await load.paced(options.rate, options.seconds)
                    sent = options.rate * options.seconds
                    figures[f"{options.rate} a second, CPU of the nodes, µs"][name].append(paced.cpu_us)
                    per_message_us = (rig.nats_cpu_s() - nats_s) / sent * 1e6
                    figures[f"{options.rate} a second, CPU of NATS, µs"][name].append(per_message_us)
                    figures[f"{options.rate} a second, answer, p50, ms"][name].append(paced.p50_ms)
                    figures[f"{options.rate} a second, answer, p99, ms"][name].append(paced.p99_ms)
        errors = rig.errors()
    table = Table("for each message and its answer", "direct", "relayed", "added")
    for title, names in figures.items():
        direct, relayed = (statistics.median(names[name]) for name in ("direct", "relayed"))
        table.add_row(title, f"{direct:.2f}", f"{relayed:.2f}", f"{relayed - direct:.2f}")
    table.title = f"{options.clients} clients, medians of {options.rounds} rounds"
    console.print(table)
    if errors:
        console.print(errors, markup=False)


def main() -> None:
    """Parse, run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--rate", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5)
    uvloop.run(measure(parser.parse_args(), Console(highlight=False)))


if __name__ == "__main__":
    main()
