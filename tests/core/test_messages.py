from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.codec import JSON, MSGPACK, Codec
from holdfast.core.messages import RESERVED, Message, MessageRefused, PlayerData, SeatLeft, Untyped, snake_case
from tests.cases import every_case


class Move(Message):
    x: float
    y: float = 0.0


class ChatLine(Message):
    text: str


class Sprint(Move):
    speed: float = 2.0


class Renamed(Message):
    wire_name: ClassVar[str] = "m"

    x: int = 0


class AfterRenamed(Renamed):
    pass


@every_case(
    ("class_name", "wire_name"),
    [
        ("Move", "move"),
        ("ChatLine", "chat_line"),
        ("HTTPRequest", "http_request"),
        ("PlayerHP", "player_hp"),
        ("Vector2", "vector2"),
        ("Vector2Changed", "vector2_changed"),
        ("A", "a"),
        ("already_snake", "already_snake"),
    ],
)
def test_a_name_in_camel_case_becomes_snake_case(class_name: str, wire_name: str) -> None:
    assert snake_case(class_name) == wire_name


@given(st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,30}", fullmatch=True))
def test_the_wire_name_only_adds_underscores_and_lowers_letters(class_name: str) -> None:
    wire_name = snake_case(class_name)

    assert wire_name.replace("_", "") == class_name.lower()
    assert snake_case(wire_name) == wire_name


def test_a_message_is_called_on_the_wire_as_its_class_in_snake_case() -> None:
    assert Move.wire_name == "move"
    assert ChatLine("hi").wire_name == "chat_line"


def test_a_message_may_choose_its_wire_name() -> None:
    assert Renamed.wire_name == "m"


def test_a_subclass_has_a_wire_name_of_its_own() -> None:
    assert Sprint.wire_name == "sprint"
    assert AfterRenamed.wire_name == "after_renamed"
    assert Move.wire_name == "move"


def test_holdfast_keeps_its_own_messages_under_its_own_prefix() -> None:
    assert MessageRefused.wire_name == "holdfast.refused"
    assert SeatLeft.wire_name == "holdfast.left"
    assert RESERVED == "holdfast."


def test_no_class_name_leads_into_the_reserved_names() -> None:
    assert not snake_case("Holdfast").startswith(RESERVED)
    assert not Untyped.wire_name.startswith(RESERVED)


@pytest.mark.parametrize("codec", [MSGPACK, JSON], ids=lambda codec: codec.name)
def test_the_wire_name_is_no_field_and_is_not_sent_in_the_body(codec: Codec) -> None:
    body = codec.encode(Move(1.0, 2.0))

    assert codec.body_decoder(dict[str, float]).decode(body) == {"x": 1.0, "y": 2.0}
    assert codec.body_decoder(Move).decode(body) == Move(1.0, 2.0)


def test_player_data_starts_from_its_defaults_and_resets_to_what_the_game_says() -> None:
    class Hero(PlayerData):
        hp: int = 100
        gold: int = 0

        def reset(self) -> None:
            self.hp = 100

    hero = Hero()
    hero.hp, hero.gold = 3, 7

    hero.reset()

    assert (hero.hp, hero.gold) == (100, 7)


def test_player_data_without_a_reset_keeps_everything() -> None:
    class Score(PlayerData):
        points: int = 0

    score = Score(points=5)

    score.reset()

    assert score.points == 5


def test_a_wire_name_that_no_frame_can_carry_is_an_error_where_the_class_is_written() -> None:
    with pytest.raises(TypeError, match="64"):
        type("A" * 65, (Message,), {})
