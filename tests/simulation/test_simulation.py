"""A modest number of worlds, for `make test`; `make sim` runs many more."""

import os
import re
import subprocess
import sys
from collections import Counter

import pytest

from tests.simulation.__main__ import main
from tests.simulation.mutants import MUTANTS
from tests.simulation.options import Options
from tests.simulation.world import simulate

SEEDS = 12
SEEDS_DURABLE = 6
# One test runs several, so that each can see that together they met everything.
PER_TEST = 6
# What a handful of worlds must have met, or the simulation has stopped testing what it claims to test. (Retired tokens
# are rare in so few: a world in which they are stolen is in `test_mutants`.)
MET = (
    *("messages up", "messages down", "drops", "resumed", "resynced", "resyncs seen", "reset", "replayed"),
    *("doubles ignored", "streams overflowed", "takeovers", "takeovers: clone", "takeovers: second session"),
    *("crashes", "suspends", "byes", "slow readers", "on_leave", "on_resync"),
    *("fault: cut", "fault: cut mid-payload", "fault: half-open", "fault: stall", "fault: slow reader"),
    *(
        "fault: slow link",
        "fault: thin link",
        "fault: brittle link",
        "fault: unreachable",
        "fault: late dial",
        "fault: late hello",
        "fault: room closed",
    ),
)
# And those with a store. (Robberies are rare in these: they have a world of their own, in `test_mutants`.)
MET_DURABLE = (
    *("lives", "batches saved", "commits refused", "rooms recovered", "rooms fenced", "rewound clients", "timers rung"),
    *(
        "bells chimed",
        "payments",
        "payments refused",
        "fault: server crash",
        "fault: server crash in a commit",
    ),
    *("fault: server crash after a commit", "fault: server stop", "fault: server pause", "fault: disk full"),
    *("fault: disk broken", "fault: commit refused", "fault: commit unknown", "fault: commit slow"),
)


def counts_of(seeds: range) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in seeds:
        result = simulate(Options.drawn(seed))
        counts += result.counts

        assert result.violations == [], f"repeat: python -m tests.simulation --seed {seed} --trace"
    return counts


@pytest.mark.parametrize("first", range(0, 2 * SEEDS, 2 * PER_TEST))
def test_no_world_breaks_a_promise_and_together_they_meet_everything(first: int) -> None:
    counts = counts_of(range(first, first + 2 * PER_TEST, 2))

    assert [name for name in MET if not counts[name]] == []


@pytest.mark.parametrize("first", range(1, 2 * SEEDS_DURABLE, 2 * PER_TEST))
def test_no_world_whose_server_falls_breaks_a_promise_and_together_they_meet_everything(first: int) -> None:
    counts = counts_of(range(first, first + 2 * PER_TEST, 2))

    assert [name for name in MET_DURABLE if not counts[name]] == []


def test_a_world_whose_server_reads_slowly_settles() -> None:
    """Rooms that tick say more than such a server hears acknowledgements for."""
    options = Options.drawn(426, steps=0)

    assert options.reads_slowly
    assert simulate(options).violations == []


@pytest.mark.parametrize("seed", [3, 4])
def test_the_same_seed_gives_the_same_history(seed: int) -> None:
    first, second = (simulate(Options.drawn(seed, steps=10)) for _ in range(2))

    assert first.history == second.history
    assert first.digest == second.digest


def test_another_seed_gives_another_history() -> None:
    assert simulate(Options.drawn(1, steps=3)).digest != simulate(Options.drawn(2, steps=3)).digest


def test_the_program_succeeds_and_says_what_it_has_seen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--steps", "3"]) == 0
    assert "2 seeds" in capsys.readouterr().out


def test_the_program_fails_and_prints_the_command_that_repeats_it(capsys: pytest.CaptureFixture[str]) -> None:
    with MUTANTS["a_soft_room_forgets_who_drops"]():
        assert main(["--seeds", "5", "--steps", "20"]) == 1

    printed = capsys.readouterr().out
    command = re.search(r"repeat: python -m tests\.simulation (--seed \d+ --steps 20) --trace", printed)
    assert command is not None
    with MUTANTS["a_soft_room_forgets_who_drops"]():
        assert main(command[1].split()) == 1
    assert main(command[1].split()) == 0


def test_the_program_repeats_a_seed_in_another_process_and_prints_what_it_did() -> None:
    """Python's hashes differ from process to process; the history must not. One world has a store, one has none."""
    program = "from tests.simulation.__main__ import main; [main(['--seed', seed, '--steps', '10']) for seed in '56']"
    first, second = (
        re.findall(
            r"digest (\S+)",
            subprocess.run(
                [sys.executable, "-c", program],
                env={**os.environ, "PYTHONHASHSEED": hash_seed},
                capture_output=True,
                text=True,
                check=True,
            ).stdout,
        )
        for hash_seed in ("1", "2")
    )

    assert first == second
    assert len(set(first)) == 2
