"""Every planted bug must be caught by what an application can see: the library's own log does not count."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from tests.simulation.mutants import DURABLE_MUTANTS, MUTANTS, ROBBERY_MUTANTS, ROLLBACK_MUTANTS, Mutant
from tests.simulation.options import Options
from tests.simulation.world import simulate

# Far more than any of them needs today; a mutant that needs more shows that the simulation has grown blind.
SEEDS_MAX = 40
# Seeds that catch a rare one: they are tried first, which saves the time of all before them. A change of the library
# changes what a seed does, so there are several.
KNOWN_SEEDS = {
    "a_held_seat_is_given_to_another_player": (6, 8),
    "what_is_said_to_one_overtakes_what_was_said_to_all": (1,),
    "others_speak_between_a_gap_and_the_state": (16,),
    "a_fenced_room_lets_out_what_waited": (1, 25),
    "an_answer_goes_to_whoever_asked_first": (32, 20),
    "a_message_to_a_session_is_not_saved_with_the_turn_that_sent_it": (47,),
    "a_restart_leaves_no_time_to_come_back": (3,),
    "a_rewound_room_is_resumed_as_if_nothing_was_lost": (11,),
    "a_client_keeps_the_channels_of_the_other_history": (3, 53, 41, 57),
    "forks_are_not_saved": (27, 41),
    "a_client_does_not_ask_for_what_it_has_lost": (16, 26, 14),
    "a_gap_is_forgotten_when_changes_after_it_are_applied": (28, 16),
    "a_view_in_parts_is_used_before_it_is_whole": (6,),
    **dict.fromkeys(("what_a_failed_turn_has_said_is_sent", "a_failed_turn_leaves_the_state_as_it_made_it"), (2,)),
}


def first_found(
    mutants: Mapping[str, Mutant], name: str, *, begin: int, world: Callable[[int], Options] = Options.drawn
) -> str | None:
    with mutants[name]():
        for seed in (*KNOWN_SEEDS.get(name, ()), *range(begin, 2 * SEEDS_MAX, 2)):
            violations = simulate(world(seed), ignored=frozenset({"BUG"})).violations
            if violations:
                return f"{seed}: {violations[0]}"
    return None


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_caught(name: str) -> None:
    assert first_found(MUTANTS, name, begin=0), f"{name} survived {SEEDS_MAX} seeds"


@pytest.mark.parametrize("name", DURABLE_MUTANTS)
def test_a_planted_bug_of_what_is_saved_is_caught(name: str) -> None:
    assert first_found(DURABLE_MUTANTS, name, begin=1), f"{name} survived {SEEDS_MAX} seeds"


def rolling_back(seed: int) -> Options:
    """The world of this seed, whose store goes back in time again and again."""
    options = Options.drawn(seed)
    assert options.store is not None
    return replace(options, store=replace(options.store, has_rollbacks=True, outage_s=1.5))


@pytest.mark.parametrize("name", ROLLBACK_MUTANTS)
def test_a_planted_bug_of_a_store_that_went_back_in_time_is_caught(name: str) -> None:
    found = first_found(ROLLBACK_MUTANTS, name, begin=1, world=rolling_back)

    assert found, f"{name} survived {SEEDS_MAX} seeds"


def robbed(seed: int) -> Options:
    """The world of this seed, in which all is saved and used tokens are stolen."""
    options = Options.drawn(seed)
    assert options.store is not None
    store = replace(options.store, has_rollbacks=False, has_robberies=True)
    return replace(options, durability=("commit",) * 4, store=store)


@pytest.mark.parametrize("name", ROBBERY_MUTANTS)
def test_a_planted_bug_of_used_tokens_is_caught(name: str) -> None:
    assert first_found(ROBBERY_MUTANTS, name, begin=1, world=robbed), f"{name} survived {SEEDS_MAX} seeds"


def test_there_are_enough_planted_bugs() -> None:
    assert len(MUTANTS) >= 20
    assert len(DURABLE_MUTANTS) >= 20
