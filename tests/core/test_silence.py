"""What counts as life beside whole payloads: bytes, above a rate, in either direction."""

import pytest

from holdfast.core.connection import Look, Traffic

RATE = 1000.0
HEARD_AT = 100.0


def is_alive(before: Look | None, after: Look, heard_at: float = HEARD_AT) -> bool:
    return after.is_alive(before, heard_at, RATE)


def test_the_first_look_of_a_silence_proves_nothing() -> None:
    assert not is_alive(None, Look(105.0, Traffic(received=10**6)))


@pytest.mark.parametrize(("received", "is_enough"), [(5_000, True), (4_999, False), (0, False)])
def test_what_came_in_counts_from_the_rate_on(received: int, *, is_enough: bool) -> None:
    before, after = Look(105.0, Traffic(received=70)), Look(110.0, Traffic(received=70 + received))

    assert is_alive(before, after) == is_enough


@pytest.mark.parametrize(("taken", "is_enough"), [(5_000, True), (4_999, False)])
def test_what_waited_and_was_taken_counts_from_the_rate_on(taken: int, *, is_enough: bool) -> None:
    before, after = Look(105.0, Traffic(waiting=60_000)), Look(110.0, Traffic(taken=taken, waiting=60_000 - taken))

    assert is_alive(before, after) == is_enough


def test_both_directions_count_together() -> None:
    before, after = Look(105.0, Traffic(waiting=60_000)), Look(110.0, Traffic(received=2_500, taken=2_500))

    assert is_alive(before, after)


def test_what_is_taken_at_once_proves_nothing() -> None:
    """The system of a peer whose program hangs takes what comes, until its buffers are full."""
    before, after = Look(105.0, Traffic(waiting=200)), Look(110.0, Traffic(taken=50_000, waiting=200))

    assert not is_alive(before, after)


def test_a_look_from_before_the_last_payload_does_not_count() -> None:
    before, after = Look(99.0, Traffic()), Look(110.0, Traffic(received=10**6))

    assert not is_alive(before, after)


def test_no_time_is_not_enough_to_tell() -> None:
    look = Look(105.0, Traffic())

    assert not is_alive(look, look)
