"""Every planted bug must be caught by what an application can see: the library's own log does not count."""

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.options import Options
from tests.simulation.world import simulate

# Far more than any of them needs today; a mutant that needs more shows that the simulation has grown blind.
SEEDS_MAX = 40


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_caught(name: str) -> None:
    with MUTANTS[name]():
        found = next(
            (
                result.violations[0]
                for seed in range(SEEDS_MAX)
                if (result := simulate(Options.drawn(seed), ignored=frozenset({"BUG"}))).violations
            ),
            None,
        )

    assert found is not None, f"{name} survived {SEEDS_MAX} seeds"


def test_there_are_enough_planted_bugs() -> None:
    assert len(MUTANTS) >= 20
