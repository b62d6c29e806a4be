from dataclasses import FrozenInstanceError, asdict, fields, replace
from typing import get_args

import pytest

from holdfast.core.block import MESSAGE_OVERHEAD_BYTES
from holdfast.core.codec import MSGPACK, Codec
from holdfast.core.codecs import CODECS
from holdfast.core.errors import ProtocolError
from holdfast.core.limits import RENAMED, Limits, RoleLimits, most_generous
from holdfast.schemas.frames import NAME_CHARS_MAX, POSITIONS_MAX, Hello, Position, Purpose, Resume
from tests.cases import every_case

LIMITS = Limits()


def test_every_limit_is_a_positive_number_by_default() -> None:
    # A session may be as old as it likes, unless somebody says otherwise.
    numbers = {name: value for name, value in asdict(LIMITS).items() if isinstance(value, int | float)}
    assert [name for name, value in numbers.items() if value <= 0] == ["session_age_max_s"]


@every_case(
    ("name", "value", "why"),
    [
        ("rooms_max", -1, "rooms_max must be 0 or more; got -1"),
        ("idle_s", float("nan"), "idle_s must be 0 or more; got nan"),
        ("messages_per_s", 0.0, "messages_per_s must be above 0; got 0"),
        ("messages_burst", 0, "messages_burst must be above 0; got 0"),
        ("window_bytes_max", 0, "window_bytes_max must be above 0; got 0"),
        ("fair_queue_portion_max", 0, "fair_queue_portion_max must be above 0; got 0"),
        ("ping_s", 0.0, "ping_s must be above 0; got 0"),
        ("window_messages_max", float("inf"), "window_messages_max must be a whole number; got inf"),
        ("requests_in_flight_max", 2.5, "requests_in_flight_max must be a whole number; got 2.5"),
        ("fair_queue_pause_s", float("inf"), "fair_queue_pause_s must be finite; got inf"),
        ("timeline_max", 0x10000, "timeline_max must be at most 65535; got 65536"),
        ("sessions_policy", "allow", "sessions_policy must be one of replace, refuse; got allow"),
        ("flood_policy", "ban", "flood_policy must be one of warn, drop, disconnect; got ban"),
    ],
)
def test_a_limit_that_could_not_be_kept_to_is_refused(name: str, value: float | str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Limits(**{name: value})  # type: ignore[arg-type]  # the types are right, and mypy cannot see it


def test_a_limit_that_was_renamed_says_its_new_name() -> None:
    for old, new in RENAMED.items():
        assert hasattr(LIMITS, new)
        with pytest.raises(TypeError, match=f"`{old}` is now `{new}`"):
            Limits(**{old: 1})  # type: ignore[arg-type]  # that it is refused is the claim

    with pytest.raises(TypeError, match="now `fair_queue_pause_s`"):
        replace(LIMITS, lane_pause_s=1.0)  # type: ignore[call-arg]  # as above


def test_a_limit_that_was_removed_says_what_to_use_instead() -> None:
    with pytest.raises(TypeError, match="was removed: use address_share"):
        Limits(unopened_per_address_max=3)  # type: ignore[call-arg]  # that it is refused is the claim


def test_limits_cannot_be_changed_only_copied() -> None:
    with pytest.raises(FrozenInstanceError):
        LIMITS.rooms_max = 1  # type: ignore[misc]  # that it is refused is the claim

    assert replace(LIMITS, rooms_max=1).rooms_max == 1


def test_every_limit_says_its_unit_or_that_it_counts() -> None:
    for limit in fields(Limits):
        assert limit.name.endswith(("_max", "_s", "_messages", "_burst", "_policy", "_share", "_reserve", "_role"))


@every_case(
    ("name", "value", "why"),
    [
        ("messages_per_s", 0, "messages_per_s must be above 0; got 0"),
        ("idle_s", float("nan"), "idle_s must be 0 or more; got nan"),
        ("messages_burst", 0.5, "messages_burst must be a whole number; got 0.5"),
        ("messages_burst", float("inf"), "messages_burst must be a whole number; got inf"),
        ("latest_per_s", "fast", "latest_per_s must be a number; got 'fast'"),
        ("latest_per_s", True, "latest_per_s must be a number; got True"),
    ],
)
def test_a_limit_of_a_role_that_could_not_be_kept_to_is_refused(name: str, value: float, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        RoleLimits(**{name: value})  # type: ignore[arg-type]  # the types are right, and mypy cannot see it


def test_limits_of_roles_are_those_of_a_server_and_an_unknown_one_says_which_there_are() -> None:
    names = [each.name for each in fields(RoleLimits)]

    assert set(names) < {each.name for each in fields(Limits)}
    assert RoleLimits().values() == {}
    with pytest.raises(TypeError, match=f"`rooms_max` cannot be set .* these can: {', '.join(names)}"):
        RoleLimits(rooms_max=3)  # type: ignore[call-arg]  # that it is refused is the claim
    for wrong in ({"gm": {"idle_s": 3}}, {"": RoleLimits()}, {3: RoleLimits()}, [RoleLimits()]):
        with pytest.raises(TypeError, match="by_role maps roles to their limits"):
            Limits(by_role=wrong)  # type: ignore[arg-type]  # that it is refused is the claim


def test_of_several_roles_the_most_generous_value_counts_and_no_limit_is_more_than_any() -> None:
    one = RoleLimits(messages_per_s=5.0, idle_s=0.0, bytes_burst=7)
    two = RoleLimits(messages_per_s=9.0, idle_s=600.0, requests_burst=3)

    expected = RoleLimits(messages_per_s=9.0, idle_s=0.0, bytes_burst=7, requests_burst=3)
    assert most_generous([one, two]) == most_generous([two, one]) == expected
    assert most_generous([]) == RoleLimits()
    # 100 and 100.0 are the same whole number.
    assert RoleLimits(bytes_burst=7.0) == RoleLimits(bytes_burst=7)  # type: ignore[arg-type]  # as from JSON


def test_what_is_in_flight_is_always_kept_too() -> None:
    assert LIMITS.window_messages_max <= LIMITS.kept_messages_max
    # The window may be passed by the message that fills it.
    largest = LIMITS.payload_bytes_max + MESSAGE_OVERHEAD_BYTES
    assert LIMITS.window_bytes_max + largest <= LIMITS.kept_bytes_max


def test_an_acknowledgement_is_due_long_before_the_window_closes() -> None:
    assert LIMITS.ack_messages * 2 <= LIMITS.window_messages_max


def test_a_peer_may_lose_two_pings_before_it_counts_as_gone() -> None:
    assert LIMITS.silence_s > 3 * LIMITS.ping_s


@pytest.mark.parametrize("codec", CODECS.values(), ids=lambda codec: codec.name)
def test_a_hello_has_a_place_for_the_position_of_every_channel_a_session_can_have(codec: Codec) -> None:
    largest = 2**53 - 1
    channels_max = LIMITS.closing_channels_max + len(get_args(Purpose))
    positions = [Position(channel=largest, generation=largest, received=largest, acked=largest)] * channels_max
    hello = Hello(resume=Resume("s" * 64, "t" * 64, positions), client="c" * NAME_CHARS_MAX)

    payload = codec.payload(hello)

    assert len(payload) <= LIMITS.hello_bytes_max
    assert codec.from_client(payload) == [hello]


def test_a_hello_cannot_bring_more_positions_than_a_session_has_channels() -> None:
    positions = [Position(channel=number, generation=1, received=0) for number in range(POSITIONS_MAX + 1)]

    with pytest.raises(ProtocolError):
        MSGPACK.from_client(MSGPACK.payload(Hello(resume=Resume("s", "t", positions))))

    assert LIMITS.closing_channels_max + len(get_args(Purpose)) <= POSITIONS_MAX
