"""What a room's class says of it: its kind, its players' data, its settings."""

from typing import Generic, TypeVar

from holdfast.core.messages import PlayerData
from holdfast.core.room import CHOICES, Room, player_data_type
from tests.core.room_samples import Arena
from tests.core.samples import Hero


def test_a_room_is_called_by_its_class_name_in_snake_case() -> None:
    class CaptureTheFlag(Room[Hero]):
        pass

    assert CaptureTheFlag.kind == "capture_the_flag"


def test_a_room_may_choose_its_kind_and_its_subclass_has_its_own() -> None:
    class Chess(Room[Hero], kind="chess-960"):
        pass

    class BlitzChess(Chess):
        pass

    assert Chess.kind == "chess-960"
    assert BlitzChess.kind == "blitz_chess"


def test_a_kind_may_also_be_an_attribute() -> None:
    class Chess(Room[Hero]):
        kind = "chess-960"

    assert Chess.kind == "chess-960"


def test_the_players_data_type_is_the_one_in_the_brackets() -> None:
    assert player_data_type(Arena) is Hero
    assert isinstance(player_data_type(Arena)(), Hero)


def test_a_room_without_brackets_has_plain_player_data() -> None:
    class Plain(Room):  # type: ignore[type-arg]  # users who do not type their game write this
        pass

    assert player_data_type(Plain) is PlayerData


def test_a_subclass_of_a_room_keeps_its_data_type() -> None:
    class BigArena(Arena):
        max_players = 64

    assert player_data_type(BigArena) is Hero


def test_a_base_class_of_the_game_may_leave_the_data_type_open() -> None:
    D = TypeVar("D", bound=PlayerData)

    class Villain(PlayerData):
        evil: int = 1

    class Round(Room[D], Generic[D]):
        pass

    class Heist(Round[Villain]):
        pass

    assert player_data_type(Heist) is Villain


def test_the_brackets_of_a_mixin_say_nothing_about_the_players() -> None:
    T = TypeVar("T")

    class Scored(Generic[T]):
        pass

    class Race(Room[Hero], Scored[int]):
        pass

    assert player_data_type(Race) is Hero


def test_every_setting_of_words_has_a_default_among_its_words() -> None:
    assert set(CHOICES) == {
        *("durability", "disconnect", "duplicate", "orphans", "election", "other_version", "record")
    }
    for setting, words in CHOICES.items():
        assert getattr(Room, setting) in words
