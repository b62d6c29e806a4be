from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
import pytest

from holdfast import PlayerData, Room
from holdfast.core.errors import Invalid
from holdfast.core.join_options import checked_options, needs_options, packed_options, unpacked_options
from tests.cases import every_case


class Loadout(msgspec.Struct):
    weapon: Literal["sword", "bow"] = "sword"
    level: int = 1
    born: datetime | None = None
    runes: dict[int, bytes] = {}


class Ticket(msgspec.Struct):
    number: int
    note: str = ""


class Arena(Room[PlayerData]):
    kind = "arena"
    join_options = Loadout


class Theatre(Room[PlayerData]):
    kind = "theatre"
    join_options = Ticket


class Park(Room[PlayerData]):
    kind = "park"


@every_case(
    "given",
    [
        {"weapon": "bow", "level": 3},
        Loadout("bow", 3),
        # As they come from JSON, and as they come from MessagePack.
        {"weapon": "bow", "level": 3, "born": "2030-01-31T00:00:00Z", "runes": {"5": "AAE="}},
        {"weapon": "bow", "level": 3, "born": datetime(2030, 1, 31, tzinfo=UTC), "runes": {5: b"\x00\x01"}},
    ],
)
def test_options_are_what_the_room_declares_however_they_were_encoded(given: Any) -> None:
    options = checked_options(Arena, given, 4096)

    assert isinstance(options, Loadout)
    assert options is not given
    assert (options.weapon, options.level) == ("bow", 3)
    assert options.born in {None, datetime(2030, 1, 31, tzinfo=UTC)}
    assert options.runes in ({}, {5: b"\x00\x01"})


@every_case(
    ("given", "said"),
    [
        ({"level": "high"}, r"options: Expected `int`, got `str` - at `\$\.level`"),
        ({"weapon": "club"}, r"options: Invalid enum value 'club' - at `\$\.weapon`"),
        (["bow"], "options: Expected `object`, got `array`"),
        ({"weapon": "x" * 5000}, "options: 50.. bytes are more than the 4096"),
        ({"weapon": object()}, "options: use plain data, or a Loadout"),
    ],
)
def test_other_options_are_refused_with_the_field_and_what_was_expected(given: Any, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        checked_options(Arena, given, 4096)


def test_without_options_a_player_has_the_defaults_if_there_are_any() -> None:
    assert checked_options(Arena, None, 4096) == Loadout()
    assert checked_options(Park, None, 4096) is None
    with pytest.raises(
        Invalid, match=r"rooms of the kind 'theatre' need some to join with: .* missing required field `number`"
    ):
        checked_options(Theatre, None, 4096)
    with pytest.raises(Invalid, match="rooms of the kind 'park' take none"):
        checked_options(Park, {}, 4096)
    assert [needs_options(kind) for kind in (Arena, Theatre, Park)] == [False, True, False]


def test_two_players_never_share_an_object() -> None:
    one, other = checked_options(Arena, None, 4096), checked_options(Arena, None, 4096)

    one.runes[1] = b""

    assert other.runes == {}


def test_options_are_packed_for_a_reservation_and_checked_before() -> None:
    packed = packed_options(Theatre, {"number": 7}, 4096)

    assert packed is not None
    assert checked_options(Theatre, unpacked_options(packed), 4096) == Ticket(7)
    assert packed_options(Theatre, None, 4096) is unpacked_options(None) is None
    with pytest.raises(Invalid):
        packed_options(Theatre, {}, 4096)
