"""The settings of a kind of rooms: what cannot be meant is an error at the start, in words."""

from typing import Any

import pytest

from holdfast.server.rooms.kinds import check_room_type
from tests.cases import every_case
from tests.server.world import chat


@every_case(
    ("setting", "value", "says"),
    [
        ("max_players", 0, "a whole number of at least 1; got 0"),
        ("max_players", 2.5, "a whole number of at least 1; got 2.5"),
        ("max_players", True, "a whole number"),
        ("max_players", "many", "a whole number"),
        ("waiting_max", -1, "a whole number of at least 0"),
        ("waiting_max", 1.5, "a whole number of at least 0"),
        ("reservation_s", 0, "a number of at least 1; got 0"),
        ("reservation_s", float("inf"), "a number of at least 1; got inf"),
        ("empty_ttl_s", float("nan"), "a number of at least 0; got nan"),
        ("election", "random", "one of none, oldest, latency; got 'random'"),
        ("unique_names", "yes", "True or False; got 'yes'"),
        ("keep_before_start", 1, "True or False; got 1"),
        ("create_role", None, 'the name of a role, or ""; got None'),
        ("join_role", ["gm"], 'the name of a role, or ""; got'),
        ("kind", "", "1 to 64 characters; got ''"),
        ("kind", "k" * 65, "1 to 64 characters"),
        ("kind", 5, "1 to 64 characters; got 5"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused(setting: str, value: Any, says: str) -> None:
    kind = chat(**{setting: value})

    with pytest.raises(ValueError, match=f"{setting} must be") as refused:
        check_room_type(kind, has_store=False)

    assert says in str(refused.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"max_players": 1, "waiting_max": 0, "reservation_s": 1, "empty_ttl_s": 0, "tick_hz": 0},
        {"max_players": 100_000, "waiting_max": 10_000, "grace_s": 0.5, "tick_hz": 12.5},
        {"election": "latency", "unique_names": True, "keep_before_start": False, "kind": "k" * 64},
    ],
    ids=["least", "most", "words"],
)
def test_what_can_be_meant_is_taken(settings: dict[str, Any]) -> None:
    check_room_type(chat(**settings), has_store=False)
