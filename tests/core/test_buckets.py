import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.rates import Bucket, Rate, Slots

# Sums of floats are not exact: a bucket forgives a hair of what it gives.
HAIR = 0.02
CLOSE_S = 1e-6

pauses = st.lists(st.floats(0, 5), min_size=1, max_size=50)
bursts = st.integers(1, 50)
rates = st.floats(0.1, 1000)


def times_of(pauses: list[float]) -> list[float]:
    now = 1000.0
    return [now := now + pause for pause in pauses]


def a_bucket(burst: float, per_s: float) -> Bucket:
    return Bucket(Rate(burst, per_s))


def test_a_full_bucket_gives_its_burst_at_once_and_no_more() -> None:
    bucket = a_bucket(3, per_s=1)

    assert [bucket.take(10.0) for _ in range(4)] == [True, True, True, False]


def test_it_earns_its_rate_back() -> None:
    bucket = a_bucket(3, per_s=2)
    for _ in range(3):
        bucket.take(10.0)

    assert not bucket.take(10.4)
    assert bucket.take(10.5)
    assert not bucket.take(10.5)


def test_it_never_holds_more_than_its_burst() -> None:
    bucket = a_bucket(3, per_s=1)
    bucket.take(0.0)

    assert [bucket.take(1e6) for _ in range(4)] == [True, True, True, False]


def test_what_is_refused_costs_nothing() -> None:
    bucket = a_bucket(1, per_s=1)
    bucket.take(10.0)
    for _ in range(100):
        bucket.take(10.5)

    assert bucket.take(11.0)


def test_one_that_is_full_gives_more_than_it_holds_on_credit() -> None:
    bucket = a_bucket(10, per_s=1)

    assert bucket.take(0.0, 25)
    assert not bucket.take(15.5)
    assert bucket.take(16.0)


def test_another_rate_holds_at_once_and_what_was_taken_stays_taken() -> None:
    bucket = a_bucket(10, per_s=1)
    for _ in range(8):
        bucket.take(10.0)

    bucket.agree(Rate(12, 2), 10.0)
    assert [bucket.take(10.0) for _ in range(5)] == [True, True, True, True, False]
    assert bucket.take(10.5)

    # With a smaller burst it is empty, and no emptier than that.
    bucket.agree(Rate(3, 1), 10.5)
    assert not bucket.take(10.5)
    assert bucket.take(11.5)
    assert [bucket.take(20.0) for _ in range(4)] == [True, True, True, False]


def test_a_rate_without_end_and_back() -> None:
    bucket = a_bucket(2, per_s=1)
    bucket.take(10.0)
    bucket.take(10.0)

    bucket.agree(Rate(1, float("inf")), 10.0)
    assert all(bucket.take(10.0) for _ in range(1000))
    bucket.agree(Rate(2, 1), 10.0)

    assert [bucket.take(10.0) for _ in range(3)] == [True, True, False]


def test_what_is_given_back_can_be_taken_again() -> None:
    bucket = a_bucket(2, per_s=1)
    bucket.take(0.0)
    bucket.take(0.0)

    bucket.give_back()

    assert [bucket.take(0.0), bucket.take(0.0)] == [True, False]


def test_what_is_given_back_to_a_full_one_is_lost() -> None:
    bucket = a_bucket(2, per_s=1)
    bucket.take(0.0)
    for _ in range(10):
        bucket.give_back()

    assert [bucket.take(0.0) for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(("burst", "per_s"), [(0, 1), (1, 0), (-1, 1), (1, -1)])
def test_an_allowance_of_nothing_is_refused(burst: float, per_s: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Rate(burst, per_s)


@given(burst=bursts, per_s=rates, pauses=pauses)
def test_in_any_stretch_of_time_it_admits_at_most_its_burst_and_its_rate(
    burst: int, per_s: float, pauses: list[float]
) -> None:
    bucket = a_bucket(burst, per_s)

    admitted = [now for now in times_of(pauses) for _ in range(3) if bucket.take(now)]

    for first in range(len(admitted)):
        for last in range(first, len(admitted)):
            allowed = burst + per_s * (admitted[last] - admitted[first])
            assert last - first + 1 <= allowed + HAIR


@given(burst=bursts, per_s=rates, pauses=pauses)
def test_who_keeps_to_the_rate_is_never_refused(burst: int, per_s: float, pauses: list[float]) -> None:
    bucket = a_bucket(burst, per_s)

    now = 1000.0
    for pause in pauses:
        now += max(pause, 1 / per_s)
        assert bucket.take(now)


@given(burst=bursts, per_s=rates, pauses=pauses, amount=st.integers(1, 50))
def test_after_the_wait_it_names_there_is_enough(burst: int, per_s: float, pauses: list[float], amount: int) -> None:
    bucket = a_bucket(burst, per_s)
    now = 1000.0
    for now in times_of(pauses):
        bucket.take(now)

    wait_s = bucket.wait_s(now, amount)

    assert wait_s >= 0
    if wait_s > 2 * CLOSE_S:
        assert not bucket.take(now + wait_s - CLOSE_S, amount)
    assert bucket.take(now + wait_s + CLOSE_S, amount)


# Slots


def test_each_is_told_a_later_place() -> None:
    slots = Slots(per_s=4, wait_max_s=10)

    assert [slots.next_s(100.0) for _ in range(4)] == [0.25, 0.5, 0.75, 1.0]


def test_places_that_are_past_are_not_given_out() -> None:
    slots = Slots(per_s=4, wait_max_s=10)
    slots.next_s(100.0)

    assert slots.next_s(200.0) == 0.25


def test_no_place_is_before_the_one_to_wait_for() -> None:
    slots = Slots(per_s=4, wait_max_s=10)

    assert slots.next_s(100.0, after=103.0) == 3.25
    assert slots.last_at == 103.25


def test_when_all_places_are_given_out_the_later_half_is_given_out_again() -> None:
    slots = Slots(per_s=2, wait_max_s=2)

    waits = [slots.next_s(0.0) for _ in range(8)]

    assert waits == [0.5, 1.0, 1.5, 2.0, 1.5, 2.0, 1.5, 2.0]


@given(per_s=rates, wait_max_s=st.floats(0.1, 60), pauses=pauses)
def test_a_wait_is_never_nothing_and_never_longer_than_the_longest(
    per_s: float, wait_max_s: float, pauses: list[float]
) -> None:
    slots = Slots(per_s, wait_max_s)

    for now in times_of(pauses):
        for _ in range(3):
            assert 0 < slots.next_s(now) <= wait_max_s
