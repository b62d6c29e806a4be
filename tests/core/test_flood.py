from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.limits import Limits
from holdfast.core.rates import PAYLOAD_OVERHEAD_BYTES, Flood, Rates, Step

LIMITS = Limits(violations_warned_max=2, violations_max=5, violations_per_s=1.0, retry_after_max_s=10.0)


def a_flood(limits: Limits = LIMITS) -> Flood:
    return Flood(Rates(limits))


def steps(flood: Flood, count: int, now: float = 100.0) -> list[Step]:
    return [flood.over(now) for _ in range(count)]


def test_first_it_is_told_then_refused_then_the_connection_ends() -> None:
    assert steps(a_flood(), 7) == ["warn", "warn", "drop", "drop", "drop", "disconnect", "disconnect"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("warn", ["warn"] * 7),
        ("drop", ["warn", "warn", *["drop"] * 5]),
        ("disconnect", ["warn", "warn", "drop", "drop", "drop", "disconnect", "disconnect"]),
    ],
)
def test_the_policy_says_how_far_it_goes(policy: str, expected: list[Step]) -> None:
    limits = replace(LIMITS, flood_policy=policy)  # type: ignore[arg-type]  # the parameters are policies

    assert steps(a_flood(limits), 7) == expected


def test_violations_are_forgiven_with_time() -> None:
    flood = a_flood()
    steps(flood, 5, now=100.0)

    assert flood.violations(102.0) == 3.0
    assert flood.over(104.0) == "warn"
    assert flood.violations(1e9) == 0.0


def test_one_violation_now_and_then_is_never_more_than_told() -> None:
    flood = a_flood()

    assert {flood.over(float(now)) for now in range(0, 100_000, 10)} == {"warn"}


def test_however_long_somebody_floods_no_more_is_held_against_them_than_the_most() -> None:
    flood = a_flood(replace(LIMITS, flood_policy="drop"))
    steps(flood, 10_000)

    assert flood.violations(100.0) == 5.0
    assert flood.over(105.0) == "warn"


def test_who_was_cut_off_is_not_welcome_for_a_while() -> None:
    flood = a_flood()
    assert flood.barred_until == 0.0

    flood.bar(100.0)

    assert flood.barred_until == 110.0


def test_each_class_has_its_own_allowance() -> None:
    limits = replace(LIMITS, messages_burst=1, latest_burst=2, requests_burst=3, bytes_burst=4)
    flood = a_flood(limits)

    taken = {
        name: sum(getattr(flood, name).take(0.0) for _ in range(10))
        for name in ("messages", "latest", "requests", "bytes")
    }

    assert taken == {"messages": 1, "latest": 2, "requests": 3, "bytes": 4}


def test_an_unauthenticated_client_may_say_a_hello_of_the_largest_size_and_hardly_more() -> None:
    flood_of_stranger = Rates(LIMITS).hello
    cost = LIMITS.hello_bytes_max + PAYLOAD_OVERHEAD_BYTES

    assert flood_of_stranger.span_s == pytest.approx(cost * flood_of_stranger.step_s, rel=0.001)


def test_a_game_at_60_hertz_with_bursts_stays_far_below_the_defaults() -> None:
    flood = a_flood(Limits())

    for frame in range(60 * 60):
        now = frame / 60
        burst = 100 if frame % 600 == 0 else 0
        for _ in range(2 + burst):
            assert flood.messages.take(now)
            assert flood.bytes.take(now, 100 + PAYLOAD_OVERHEAD_BYTES)
        assert flood.latest.take(now)


def test_a_window_that_is_sent_again_after_a_drop_fits_into_the_burst() -> None:
    limits = Limits()

    assert limits.window_messages_max <= limits.messages_burst
    assert limits.window_bytes_max + limits.payload_bytes_max <= limits.bytes_burst
    assert limits.requests_in_flight_max <= limits.requests_burst


def test_a_flood_of_thousands_a_second_does_not_pass() -> None:
    limits = Limits()
    flood = a_flood(limits)
    passed, seconds, per_s = 0, 0.0, 13_000

    while True:
        seconds += 1 / per_s
        step = "pass" if flood.messages.take(seconds) else flood.over(seconds)
        if step == "disconnect":
            break
        passed += step in {"pass", "warn"}

    assert seconds < 1.0
    assert passed <= limits.messages_burst + limits.messages_per_s + limits.violations_warned_max


@given(st.lists(st.floats(0, 2), max_size=300))
def test_violations_never_exceed_the_most_and_never_fall_below_none(pauses: list[float]) -> None:
    flood, now = a_flood(), 0.0

    for pause in pauses:
        now += pause
        before = flood.violations(now)
        step = flood.over(now)
        assert 0.0 <= flood.violations(now) <= LIMITS.violations_max
        assert (step == "warn") == (before + 1 <= LIMITS.violations_warned_max)
        assert (step == "disconnect") == (before + 1 > LIMITS.violations_max)


def test_a_flood_is_rested_when_every_allowance_is_full_and_nothing_is_held_against_it() -> None:
    said = a_flood()
    said.requests.take(100.0)
    guilty = a_flood()
    guilty.over(100.0)
    barred = a_flood()
    barred.bar(100.0)

    assert a_flood().is_rested(100.0)
    for flood in (said, guilty, barred):
        assert not flood.is_rested(100.0)
        assert flood.is_rested(200.0)
