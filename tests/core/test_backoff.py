import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.backoff import FIRST_S, LONGEST_S, backoff_s

ALMOST_ONE = 1.0 - 2**-53
ATTEMPTS = st.integers(0, 10**6)
CHANCES = st.floats(0.0, 1.0, exclude_max=True)


@pytest.mark.parametrize(
    ("attempt", "ceiling_s"),
    [(0, 0.25), (1, 0.5), (2, 1.0), (3, 2.0), (4, 4.0), (5, 8.0), (6, 15.0), (7, 15.0), (100, 15.0)],
)
def test_the_ceiling_doubles_with_each_attempt_up_to_fifteen_seconds(attempt: int, ceiling_s: float) -> None:
    assert backoff_s(attempt, 0.0) == 0.0
    assert backoff_s(attempt, 0.5) == ceiling_s / 2
    assert backoff_s(attempt, ALMOST_ONE) == pytest.approx(ceiling_s)


@given(ATTEMPTS, CHANCES)
def test_full_jitter_spreads_over_the_whole_range_and_never_beyond(attempt: int, chance: float) -> None:
    wait_s = backoff_s(attempt, chance)

    assert 0.0 <= wait_s <= LONGEST_S
    assert wait_s <= FIRST_S * 2.0 ** min(attempt, 20)


@given(ATTEMPTS, CHANCES, st.floats(0.0, 3600.0))
def test_a_server_that_names_a_time_is_obeyed_with_the_jitter_on_top(
    attempt: int, chance: float, retry_after_s: float
) -> None:
    wait_s = backoff_s(attempt, chance, retry_after_s=retry_after_s)

    assert retry_after_s <= wait_s <= retry_after_s + LONGEST_S


def test_clients_told_the_same_time_do_not_return_at_the_same_time() -> None:
    waits_s = {backoff_s(0, chance / 100, retry_after_s=5.0) for chance in range(100)}

    assert len(waits_s) == 100


def test_the_millionth_attempt_waits_no_longer_than_any_other() -> None:
    assert backoff_s(10**6, ALMOST_ONE) == pytest.approx(LONGEST_S)
