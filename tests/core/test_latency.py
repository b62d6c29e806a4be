from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.latency import Latency

SAMPLES_MS = st.lists(st.floats(0.0, 60_000.0), min_size=1, max_size=50)


def fed(*samples_ms: float) -> Latency:
    latency = Latency()
    for sample_ms in samples_ms:
        latency.add(sample_ms)
    return latency


def test_before_the_first_sample_everything_is_zero() -> None:
    latency = Latency()

    assert (latency.last_ms, latency.smoothed_ms, latency.jitter_ms, latency.samples) == (0.0, 0.0, 0.0, 0)


def test_the_first_sample_is_believed_whole() -> None:
    latency = fed(80.0)

    assert (latency.last_ms, latency.smoothed_ms, latency.jitter_ms, latency.samples) == (80.0, 80.0, 40.0, 1)


def test_further_samples_move_the_values_as_rfc_6298_says() -> None:
    latency = fed(80.0, 160.0)

    assert latency.last_ms == 160.0
    assert latency.jitter_ms == 40.0 * 3 / 4 + 80.0 / 4
    assert latency.smoothed_ms == 80.0 * 7 / 8 + 160.0 / 8
    assert latency.samples == 2


def test_one_spike_hardly_moves_the_smoothed_value() -> None:
    latency = fed(*[20.0] * 50, 1000.0)

    assert latency.last_ms == 1000.0
    assert latency.smoothed_ms < 150.0


def test_a_steady_link_has_no_jitter_in_the_end() -> None:
    latency = fed(*[50.0] * 100)

    assert latency.smoothed_ms == 50.0
    assert latency.jitter_ms < 0.001


@given(SAMPLES_MS)
def test_the_smoothed_value_stays_between_the_smallest_and_the_largest_sample(samples_ms: list[float]) -> None:
    latency = fed(*samples_ms)

    assert min(samples_ms) - 1e-6 <= latency.smoothed_ms <= max(samples_ms) + 1e-6
    assert 0.0 <= latency.jitter_ms <= max(samples_ms) + 1e-6
    assert latency.samples == len(samples_ms)
