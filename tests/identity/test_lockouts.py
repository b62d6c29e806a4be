"""Wrong passwords cost time; nobody is kept out for long, and the owner at home not at all."""

from dataclasses import replace

import pytest

from holdfast.core.limits import Limits
from holdfast.identity.lockouts import Lockouts
from tests.identity.plain import Clock

LIMITS = Limits()
FREE = LIMITS.wrong_passwords_max


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_the_first_wrong_ones_are_free_then_there_is_a_pause(clock: Clock) -> None:
    lockouts = Lockouts(LIMITS, clock)

    tried = [lockouts.guess("ada", "") for _ in range(FREE + 3)]

    assert tried == [True] * FREE + [False] * 3


def test_each_pause_is_twice_as_long_as_the_one_before_up_to_the_longest(clock: Clock) -> None:
    lockouts = Lockouts(LIMITS, clock)
    for _ in range(FREE):
        lockouts.guess("ada", "")

    pauses = []
    for _ in range(12):
        began_at = clock.now
        while not lockouts.guess("ada", ""):
            clock.now += 0.5
        pauses.append(clock.now - began_at)

    assert pauses[:4] == [1.0, 2.0, 4.0, 8.0]
    assert pauses[-1] == LIMITS.lockout_max_s
    assert max(pauses) == LIMITS.lockout_max_s


def test_guesses_within_a_pause_do_not_make_it_longer(clock: Clock) -> None:
    lockouts = Lockouts(LIMITS, clock)
    for _ in range(FREE + 1000):
        lockouts.guess("ada", "")

    clock.now += LIMITS.lockout_s

    assert lockouts.guess("ada", "")


def test_guesses_that_are_made_at_once_all_count(clock: Clock) -> None:
    lockouts = Lockouts(LIMITS, clock)

    # None of them has been found wrong yet.
    assert sum(lockouts.guess("ada", "") for _ in range(100)) == FREE


def test_a_right_one_makes_the_wrong_ones_forgotten(clock: Clock) -> None:
    lockouts = Lockouts(LIMITS, clock)
    for _ in range(FREE - 1):
        lockouts.guess("ada", "")

    lockouts.guess("ada", "")
    lockouts.was_right("ada", "")

    assert all(lockouts.guess("ada", "") for _ in range(FREE))


def test_accounts_do_not_pay_for_each_other(clock: Clock) -> None:
    lockouts = Lockouts(LIMITS, clock)
    for _ in range(FREE):
        lockouts.guess("ada", "")

    assert not lockouts.guess("ada", "")
    assert lockouts.guess("bob", "")


def test_whoever_guesses_elsewhere_does_not_keep_the_owner_out_at_home(clock: Clock) -> None:
    lockouts = Lockouts(LIMITS, clock)
    lockouts.guess("ada", "home")
    lockouts.was_right("ada", "home")

    for number in range(10_000):
        lockouts.guess("ada", f"thief {number}")

    assert not lockouts.guess("ada", "thief")
    assert lockouts.guess("ada", "home")


def test_guesses_at_home_are_not_free_either(clock: Clock) -> None:
    lockouts = Lockouts(LIMITS, clock)
    lockouts.was_right("ada", "home")

    assert sum(lockouts.guess("ada", "home") for _ in range(100)) == FREE


def test_no_more_accounts_are_remembered_than_may_be(clock: Clock) -> None:
    lockouts = Lockouts(replace(LIMITS, lockouts_max=3), clock)
    for name in ("ada", "bob", "cleo"):
        for _ in range(FREE):
            lockouts.guess(name, "")
    lockouts.guess("ada", "")

    lockouts.guess("dan", "")

    assert [lockouts.guess(name, "") for name in ("ada", "cleo")] == [False, False]
    assert lockouts.guess("bob", "")


def test_another_password_begins_anew(clock: Clock) -> None:
    lockouts = Lockouts(LIMITS, clock)
    lockouts.was_right("ada", "home")
    for _ in range(FREE):
        lockouts.guess("ada", "")

    lockouts.forget("ada")

    assert lockouts.guess("ada", "")


def test_a_guess_that_came_to_nothing_does_not_count(clock: Clock) -> None:
    lockouts = Lockouts(LIMITS, clock)
    for _ in range(100):
        assert lockouts.guess("ada", "")
        lockouts.take_back("ada", "")

    assert sum(lockouts.guess("ada", "") for _ in range(100)) == FREE
