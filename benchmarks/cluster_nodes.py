"""How many messages does a second of server CPU carry, with one, two and three nodes? And beside a server alone?

The load is that of `benchmarks.echo`, flat out: every client is connected to the node that has its room, as with a
balancer and rooms made where their players are. With more nodes the same clients are spread over them. A cluster that
cost something for each node would show it here. The nodes share this machine's cores with NATS and the load, so CPU
time is counted, not time.

    python -m benchmarks.cluster_nodes [--clients 120] [--messages 40000] [--rounds 5]
"""

import argparse
import statistics

import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.cluster_relay import ClusterLoad
from benchmarks.cluster_rig import Rig

NODES = (1, 2, 3)


async def _round(rig: Rig, clients: int, messages: int) -> tuple[float, float]:
    """Messages for each second of the nodes' CPU, and the same with that of NATS."""
    async with ClusterLoad(rig) as load:
        for node in rig.nodes.values():
            await load.take_seats(node.port, node.arena, clients // len(rig.nodes))
        await load.flat_out(messages // 10)
        nats_s = rig.nats_cpu_s()
        cpu_us = await load.flat_out(messages)
        nats_us = (rig.nats_cpu_s() - nats_s) / messages * 1e6
    return 1e6 / cpu_us, 1e6 / (cpu_us + nats_us)


async def measure(options: argparse.Namespace, console: Console) -> None:
    """Rounds of each, and their medians."""
    figures: dict[str, list[tuple[float, float]]] = {}
    for _ in range(options.rounds):
        for nodes in (0, *NODES):
            name = f"{nodes} node{'s' if nodes > 1 else ''} of a cluster" if nodes else "a server alone"
            async with Rig(max(1, nodes), is_clustered=nodes > 0) as rig:
                figures.setdefault(name, []).append(await _round(rig, options.clients, options.messages))
                if errors := rig.errors():
                    console.print(errors, markup=False)
    alone = statistics.median(each for each, _ in figures["a server alone"])
    table = Table("messages and answers", "per second of the nodes' CPU", "of a server alone", "with the CPU of NATS")
    for name, rounds in figures.items():
        nodes, with_nats = (statistics.median(values) for values in zip(*rounds, strict=True))
        table.add_row(name, f"{nodes:,.0f}", f"{nodes / alone:.2f} ×", f"{with_nats:,.0f}")
    table.title = f"{options.clients} clients, medians of {options.rounds} rounds"
    console.print(table)


def main() -> None:
    """Parse, run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, default=120)
    parser.add_argument("--messages", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=5)
    uvloop.run(measure(parser.parse_args(), Console(highlight=False)))


if __name__ == "__main__":
    main()
