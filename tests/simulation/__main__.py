"""`python -m tests.simulation --seeds 200`: run many worlds; a failure prints the line that repeats it.

Each seed has a world of sessions and rooms (`world.py`), and worlds of UDP packets (`packet_worlds.py`).
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence

from tests.simulation.cluster_world import ClusterWorld, clustered
from tests.simulation.options import STEPS, Options
from tests.simulation.packet_worlds import Report, simulate_packets, summary
from tests.simulation.world import Result, simulate


def main(words: Sequence[str] | None = None) -> int:
    """Run the seeds that were asked for; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds to try (200)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--seed", type=int, help="repeat this one seed")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"what each player does ({STEPS})")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    parser.add_argument("--cluster", action="store_true", help="worlds of three nodes")
    parser.add_argument("--trace", action="store_true", help="print everything that happened")
    arguments = parser.parse_args(words)
    is_one = arguments.seed is not None
    seeds = [arguments.seed] if is_one else range(arguments.first, arguments.first + arguments.seeds)
    began = time.perf_counter()
    results: list[Result] = []
    failures: list[Result] = []
    packets: list[Report] = []
    for seed in seeds:
        result = run_seed(seed, arguments.steps, is_clustered=arguments.cluster)
        results.append(result)
        if result.violations:
            failures.append(result)
            print_failure(result, " --cluster" if arguments.cluster else "")
        # Worlds of packets have no other nodes.
        packets.append(Report(seed) if arguments.cluster else simulate_packets(seed))
        if packets[-1].violations:
            print_packet_failure(packets[-1])
        if is_one:
            print(f"{result.options}\ndigest {result.digest}")
        if arguments.trace:
            print("\n".join(result.history))
        if (result.violations or packets[-1].violations) and not arguments.keep_going:
            break
        print_progress(len(results), len(seeds), time.perf_counter() - began)
    print_summary(results, failures, time.perf_counter() - began)
    print("  packets:   " + ", ".join(f"{name} {times:,}" for name, times in summary(packets).items()))
    return 1 if failures or any(each.violations for each in packets) else 0


def print_packet_failure(report: Report) -> None:
    """What was broken over UDP, and how to see it again."""
    print(f"\nseed {report.seed} FAILED in its worlds of packets")
    for violation in report.violations[:5]:
        print(f"  {violation}")
    print(f"  repeat: python -m tests.simulation --seed {report.seed}")


def run_seed(seed: int, steps: int, *, is_clustered: bool) -> Result:
    """One world."""
    if is_clustered:
        return simulate(clustered(seed, steps), world_type=ClusterWorld)
    return simulate(Options.drawn(seed, steps))


def print_failure(result: Result, kind: str) -> None:
    """What was broken, what led to it, and how to see it again."""
    print(f"\nseed {result.options.seed} FAILED: {result.options}")
    for violation in result.violations[:5]:
        print(f"  {violation.invariant} at {violation.at_s:.3f} s: {violation.what}")
    options = result.options
    print(f"  repeat: python -m tests.simulation{kind} --seed {options.seed} --steps {options.steps} --trace")


def print_progress(done: int, of: int, elapsed_s: float) -> None:
    """One line that is written over."""
    end = "\n" if done == of else ""
    print(f"\r{done}/{of} seeds, {elapsed_s:.0f} s", end=end, flush=True)


def print_summary(results: list[Result], failures: list[Result], elapsed_s: float) -> None:
    """What was tried and what came of it."""
    counts: Counter[str] = Counter()
    for result in results:
        counts += result.counts
    virtual_s = sum(result.virtual_s for result in results)
    print(f"\n{len(results)} seeds, {virtual_s:,.0f} virtual seconds in {elapsed_s:.1f} s, {len(failures)} failed")
    for title, names in (
        ("checked", ("messages up", "messages down", "samples", "asks answered", "asks refused", "asks reset")),
        ("to sessions", ("cries", "messages to sessions", "gaps in messages to sessions")),
        ("sessions", ("drops", "resumed", "resynced", "reset", "replayed", "doubles ignored", "streams overflowed")),
        ("takeovers", ("takeovers", "takeovers: clone", "takeovers: second session")),
        ("programs", ("crashes", "suspends", "byes", "slow readers", "retired tokens presented", "robberies")),
        ("servers", ("lives", "crashes at the start", "rooms recovered", "rooms fenced", "rewound clients")),
        (
            "nodes",
            ("rooms taken over", "rooms moved", "moves refused", "sessions handed over", "clients relayed", "hops"),
        ),
        (
            "store",
            (
                "batches saved",
                "commits",
                "commits refused",
                "timers rung",
                "bells chimed",
                "payments",
                "payments refused",
            ),
        ),
    ):
        print(f"  {title + ':':11}" + ", ".join(f"{name} {counts[name]:,}" for name in names))
    for prefix, title in (("fault: ", "faults"), ("ended: ", "ends"), ("on_", "hooks")):
        found = {name.removeprefix(prefix): times for name, times in sorted(counts.items()) if name.startswith(prefix)}
        total = sum(found.values())
        print(f"  {title + ':':11}{total:,}: " + ", ".join(f"{name} {times:,}" for name, times in found.items()))


if __name__ == "__main__":
    sys.exit(main())
