"""A backlog gets through any link that carries something: seeded worlds, and the planted bugs that they catch."""

import pytest

from tests.compiled import replaces_methods
from tests.simulation.bad_links import BadLink, violations
from tests.simulation.mutants import LINK_MUTANTS, Mutant

SEEDS = 12
# As in `test_mutants`: far more than any of them needs.
SEEDS_MAX = 40


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_backlog_gets_through_a_slow_link_without_a_drop(seed: int) -> None:
    assert violations(BadLink.slow(seed), seed) == []


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_backlog_gets_through_links_that_break_again_and_again(seed: int) -> None:
    assert violations(BadLink.breaking(seed), seed) == []


def first_found(mutant: Mutant) -> str | None:
    with mutant():
        for seed in range(SEEDS_MAX):
            for world in (BadLink.slow(seed), BadLink.breaking(seed)):
                if found := violations(world, seed):
                    return f"{seed}: {found[0]}"
    return None


@replaces_methods
@pytest.mark.parametrize("name", LINK_MUTANTS)
def test_a_planted_bug_of_bad_links_is_caught(name: str) -> None:
    assert first_found(LINK_MUTANTS[name]), f"{name} survived {SEEDS_MAX} seeds"
