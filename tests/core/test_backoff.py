import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.backoff import LONG_OUTAGE_S, STRETCH_MAX, Backoff
from tests.cases import every_case

ALMOST_ONE = 1.0 - 2**-53
ATTEMPTS = st.integers(0, 10**6)
CHANCES = st.floats(0.0, 1.0, exclude_max=True)
USUAL = Backoff()


@every_case(("attempt", "ceiling_s"), [(0, 0.1), (1, 0.2), (2, 0.4), (3, 0.8), (4, 1.0), (5, 1.0), (100, 1.0)])
def test_the_ceiling_doubles_with_each_attempt_up_to_one_second(attempt: int, ceiling_s: float) -> None:
    assert USUAL.wait_s(attempt, 0.0) == 0.0
    assert USUAL.wait_s(attempt, 0.5) == ceiling_s / 2
    assert USUAL.wait_s(attempt, ALMOST_ONE) == pytest.approx(ceiling_s)


@every_case(
    ("lost_s", "ceiling_s"),
    [(0.0, 1.0), (29.0, 1.0), (30.0, 1.0), (60.0, 2.0), (120.0, 4.0), (450.0, 15.0), (1e9, 15.0)],
)
def test_a_server_that_stays_away_is_asked_less_often(lost_s: float, ceiling_s: float) -> None:
    assert USUAL.wait_s(100, 0.5, lost_s=lost_s) == ceiling_s / 2


def test_a_new_attempt_begins_small_however_long_the_outage_was() -> None:
    assert USUAL.wait_s(0, 0.5, lost_s=1e9) == USUAL.wait_s(0, 0.5)


@given(ATTEMPTS, CHANCES, st.floats(0.0, 1e9), st.floats(0.001, 10.0), st.floats(1.0, 100.0))
def test_full_jitter_never_goes_beyond_the_settings(
    attempt: int, entropy: float, lost_s: float, first_s: float, factor: float
) -> None:
    backoff = Backoff(first_s=first_s, longest_s=first_s * factor)

    wait_s = backoff.wait_s(attempt, entropy, lost_s=lost_s)

    assert 0.0 <= wait_s <= first_s * 2.0 ** min(attempt, 20)
    assert wait_s <= backoff.longest_s * (1.0 if lost_s <= LONG_OUTAGE_S else STRETCH_MAX)


@given(ATTEMPTS, CHANCES, st.floats(0.0, 3600.0))
def test_a_server_that_names_a_time_is_obeyed_with_the_jitter_on_top(
    attempt: int, entropy: float, retry_after_s: float
) -> None:
    wait_s = USUAL.wait_s(attempt, entropy, retry_after_s=retry_after_s)

    assert retry_after_s <= wait_s <= retry_after_s + USUAL.longest_s


def test_clients_told_the_same_time_do_not_return_at_the_same_time() -> None:
    waits_s = {USUAL.wait_s(0, entropy / 100, retry_after_s=5.0) for entropy in range(100)}

    assert len(waits_s) == 100


@pytest.mark.parametrize(
    ("first_s", "longest_s"), [(0.0, 1.0), (-1.0, 1.0), (2.0, 1.0), (float("nan"), 1.0), (0.1, float("inf"))]
)
def test_settings_that_make_no_sense_are_refused(first_s: float, longest_s: float) -> None:
    with pytest.raises(ValueError, match="longest"):
        Backoff(first_s=first_s, longest_s=longest_s)
