"""Wrong passwords cost time; nobody is kept out for long, and the owner at home not at all."""

from dataclasses import replace

import pytest

from holdfast.core.limits import Limits
from holdfast.identity.password import Lockouts
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


@pytest.mark.parametrize("addresses", [1, 2])
def test_who_guesses_from_an_address_or_two_keeps_the_owner_out_nowhere_else(clock: Clock, addresses: int) -> None:
    """Though it never stops, and guesses again as soon as a pause is over."""
    lockouts = Lockouts(LIMITS, clock)
    ends_at = clock.now + 2 * 86_400
    kept_out = 0
    while clock.now < ends_at:
        for number in range(addresses):
            lockouts.guess("ada", f"198.51.100.{number}")
        kept_out += not lockouts.guess("ada", "203.0.113.7")
        lockouts.take_back("ada", "203.0.113.7")
        clock.now += LIMITS.lockout_max_s

    assert not kept_out


def test_very_many_addresses_are_no_way_to_guess_without_end(clock: Clock) -> None:
    lockouts = Lockouts(LIMITS, clock)
    tried, seconds = 0, 10_000
    for number in range(seconds):
        tried += lockouts.guess("ada", f"2001:db8:{number >> 16:x}:{number & 0xFFFF:x}::1")
        clock.now += 1.0

    # The first ones, and then one in each pause.
    assert tried < LIMITS.wrong_passwords_elsewhere_max + 10 + seconds / LIMITS.lockout_max_s


def test_what_was_wrong_is_forgiven_with_time(clock: Clock) -> None:
    lockouts = Lockouts(LIMITS, clock)
    for _ in range(FREE - 1):
        lockouts.guess("ada", "")

    clock.now += LIMITS.lockout_max_s * FREE

    assert sum(lockouts.guess("ada", "") for _ in range(100)) == FREE


def test_guesses_at_home_are_not_free_either(clock: Clock) -> None:
    lockouts = Lockouts(LIMITS, clock)
    lockouts.was_right("ada", "home")

    assert sum(lockouts.guess("ada", "home") for _ in range(100)) == FREE


def test_no_more_accounts_are_remembered_than_may_be(clock: Clock) -> None:
    # Each is remembered twice: by its address, and by all together.
    lockouts = Lockouts(replace(LIMITS, lockouts_max=6), clock)
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
