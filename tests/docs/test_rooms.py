"""The guide of rooms names everything that a game finds on a room and on a player, and nothing else is there."""

import re
from pathlib import Path
from typing import Any

from holdfast import Player, Room

GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "rooms.md").read_text("utf-8")
NAME = re.compile(r"`(\w+)[^`]*`")


def section(title: str) -> str:
    return GUIDE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def first_column(text: str) -> set[str]:
    """The names in the first column of a section's table."""
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in NAME.findall(row)}


def public_names(kind: type[Any]) -> set[str]:
    annotated = {name for each in kind.__mro__ for name in getattr(each, "__annotations__", ())}
    return {name for name in {*dir(kind), *annotated} if not name.startswith("_")} - set(dir(object))


def test_a_room_has_the_settings_hooks_and_methods_of_the_guide_and_nothing_else() -> None:
    methods, _, _ = section("Methods and attributes").partition("A `player` in a room has")
    said = {*NAME.findall(methods), *first_column(section("Settings")), *first_column(section("Hooks"))}

    assert said == public_names(Room)


def test_a_player_has_what_the_guide_says_and_nothing_else() -> None:
    _, _, players = section("Methods and attributes").partition("A `player` in a room has")
    said = set(NAME.findall(players.partition("\n\n")[0]))

    assert said == {*public_names(Player), "id", "data"}


def test_the_engine_has_one_attribute_on_a_room_and_one_on_a_player() -> None:
    assert {name for name in vars(Room) if name.startswith("_holdfast")} == {
        "_holdfast_handlers",
        "_holdfast_data_type",
    }
