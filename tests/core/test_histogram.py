from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.histogram import Histogram

BOUNDS = (0.1, 1.0, 10.0)
VALUES = st.floats(min_value=0.0, max_value=100.0)


def histogram_of(*values: float) -> Histogram:
    histogram = Histogram(BOUNDS)
    for value in values:
        histogram.add(value)
    return histogram


def test_a_value_counts_up_to_every_bound_that_it_does_not_exceed() -> None:
    assert histogram_of(0.5).cumulative() == [0, 1, 1, 1]


def test_a_value_that_equals_a_bound_is_within_it() -> None:
    assert histogram_of(*BOUNDS).cumulative() == [1, 2, 3, 3]


def test_a_value_above_the_last_bound_is_counted_too() -> None:
    assert histogram_of(11.0).cumulative() == [0, 0, 0, 1]


def test_values_are_added_up() -> None:
    histogram = histogram_of(0.5, 2.0, 20.0)

    assert histogram.sum == 22.5
    assert histogram.count == 3


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("-inf")])
def test_what_no_clock_should_say_counts_as_zero(value: float) -> None:
    histogram = histogram_of(value)

    assert histogram.cumulative() == [1, 1, 1, 1]
    assert histogram.sum == 0.0


@pytest.mark.parametrize("bounds", [(), (1.0, 1.0), (2.0, 1.0)])
def test_bounds_that_do_not_grow_are_refused(bounds: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="must grow"):
        Histogram(bounds)


@given(st.lists(VALUES))
def test_nothing_in_it_ever_gets_smaller(values: list[float]) -> None:
    histogram = Histogram(BOUNDS)
    looks = [(histogram.sum, *histogram.cumulative())]

    for value in values:
        histogram.add(value)
        looks.append((histogram.sum, *histogram.cumulative()))

    for before, after in pairwise(looks):
        assert all(low <= high for low, high in zip(before, after, strict=True))


@given(st.lists(VALUES))
def test_each_count_is_of_the_values_up_to_its_bound(values: list[float]) -> None:
    expected = [sum(value <= bound for value in values) for bound in (*BOUNDS, float("inf"))]

    assert histogram_of(*values).cumulative() == expected
