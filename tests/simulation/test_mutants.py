"""Every planted bug must be caught by what an application can see: the library's own log does not count."""

import pytest

from tests.compiled import replaces_methods
from tests.simulation.hunt import CLUSTER, DURABLE, PLAIN, ROBBERIES, ROLLBACKS, SEEDS_MAX, first_found

pytestmark = replaces_methods


@pytest.mark.parametrize("name", PLAIN.mutants)
def test_a_planted_bug_is_caught(name: str) -> None:
    assert first_found(PLAIN, name), f"{name} survived {SEEDS_MAX} seeds"


@pytest.mark.parametrize("name", DURABLE.mutants)
def test_a_planted_bug_of_what_is_saved_is_caught(name: str) -> None:
    assert first_found(DURABLE, name), f"{name} survived {SEEDS_MAX} seeds"


@pytest.mark.parametrize("name", ROLLBACKS.mutants)
def test_a_planted_bug_of_a_store_that_went_back_in_time_is_caught(name: str) -> None:
    assert first_found(ROLLBACKS, name), f"{name} survived {SEEDS_MAX} seeds"


@pytest.mark.parametrize("name", ROBBERIES.mutants)
def test_a_planted_bug_of_used_tokens_is_caught(name: str) -> None:
    assert first_found(ROBBERIES, name), f"{name} survived {SEEDS_MAX} seeds"


@pytest.mark.parametrize("name", CLUSTER.mutants)
def test_a_planted_bug_of_nodes_is_caught(name: str) -> None:
    assert first_found(CLUSTER, name), f"{name} survived {SEEDS_MAX} seeds"


def test_there_are_enough_planted_bugs() -> None:
    assert len(PLAIN.mutants) >= 20
    assert len(DURABLE.mutants) >= 20
