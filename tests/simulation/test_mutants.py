"""Every planted bug must be caught by what an application can see: the library's own log does not count."""

import pytest

from tests.simulation.mutants import DURABLE_MUTANTS, MUTANTS, Mutant
from tests.simulation.options import Options
from tests.simulation.world import simulate

# Far more than any of them needs today; a mutant that needs more shows that the simulation has grown blind.
SEEDS_MAX = 40


def first_found(mutant: Mutant, seeds: range) -> str | None:
    with mutant():
        for seed in seeds:
            violations = simulate(Options.drawn(seed), ignored=frozenset({"BUG"})).violations
            if violations:
                return f"{seed}: {violations[0]}"
    return None


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_caught(name: str) -> None:
    assert first_found(MUTANTS[name], range(0, 2 * SEEDS_MAX, 2)), f"{name} survived {SEEDS_MAX} seeds"


@pytest.mark.parametrize("name", DURABLE_MUTANTS)
def test_a_planted_bug_of_what_is_saved_is_caught(name: str) -> None:
    assert first_found(DURABLE_MUTANTS[name], range(1, 2 * SEEDS_MAX, 2)), f"{name} survived {SEEDS_MAX} seeds"


def test_there_are_enough_planted_bugs() -> None:
    assert len(MUTANTS) >= 20
    assert len(DURABLE_MUTANTS) >= 20
