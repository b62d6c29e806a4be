"""A handful of worlds of three nodes keep every promise, and meet what they claim to test."""

from collections import Counter

from tests.simulation.cluster_world import ClusterWorld, clustered
from tests.simulation.world import Result, simulate

SEEDS = (0, 1, 5)
MET = (
    *("messages up", "messages down", "resumed", "resynced", "reset", "takeovers", "rooms taken over", "rooms moved"),
    *("sessions handed over", "clients relayed", "hops", "visits", "payments", "timers rung"),
    *("fault: node crash in a commit", "fault: node crash in a move", "fault: node pause", "fault: node drain"),
    *("fault: room moved", "fault: bus cut", "fault: bus bad", "fault: commit unknown"),
)


def of_nodes(seed: int, steps: int = 30) -> Result:
    return simulate(clustered(seed, steps), world_type=ClusterWorld)


def test_no_world_of_nodes_breaks_a_promise_and_together_they_meet_everything() -> None:
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        result = of_nodes(seed)
        counts += result.counts

        assert result.violations == [], f"repeat: python -m tests.simulation --cluster --seed {seed} --trace"

    assert [name for name in MET if not counts[name]] == []


def test_the_same_seed_gives_the_same_history_on_nodes() -> None:
    first, second = (of_nodes(4, steps=6) for _ in range(2))

    assert first.history == second.history
