"""Whole views that are encoded from the game's own values: the same bytes as from what was noted, and never more."""

from enum import Enum
from types import GenericAlias
from typing import Any

import msgspec
import pytest

from holdfast.state import F32, Audience, Hidden, Private, SharedPlan, Unshareable, encode_json, encode_msgpack
from tests.cases import every_case


class Item(msgspec.Struct, rename="camel"):
    item_name: str = "rope"
    weight: float = 0.5
    tag: bytes = b"\x00"


class House(msgspec.Struct, tag="house"):
    items: list[Item] = []
    doors: dict[str, list[int]] = {}
    inner: "list[House]" = []


class Town(msgspec.Struct):
    houses: dict[str, House] = {}
    names: list[str] = []
    age: int = 3


class Level(Enum):
    LOW = 1


class Rounded(msgspec.Struct):
    x: F32 = 0.1


class Short(msgspec.Struct, omit_defaults=True):
    x: int = 1


class Numbered(msgspec.Struct):
    by_number: dict[int, int] = {}


class Levelled(msgspec.Struct):
    by_level: dict[Level, int] = {}


class Keeping(msgspec.Struct):
    shown: int = 1
    deck: Hidden[int] = 2
    hand: Private[int] = 3


class Maybe(msgspec.Struct):
    x: int | msgspec.UnsetType = msgspec.UNSET


def town() -> Town:
    small = House([Item("lamp", 2.5)], {"front": [1, 2]})
    return Town({"a": small, "b": House(inner=[House([Item()]), House()])}, ["x", "y"])


def encoded(kind: Any, value: Any, *values: Any) -> tuple[bytes, bytes]:
    plan = SharedPlan({"state": kind})
    whole = plan.whole(plan.take(value), *values)
    return encode_msgpack(whole), encode_json(whole)


def test_values_without_secrets_are_encoded_themselves() -> None:
    plan, value = SharedPlan({"state": Town}), town()

    whole = plan.whole(plan.take(value), value)

    assert whole[0][1] is value
    assert encoded(Town, value, value) == encoded(Town, value)


@every_case(
    "value", [Rounded(), Short(), Numbered({1: 2}), Levelled({Level.LOW: 2}), Keeping(), Maybe(), Keeping(hand=4)]
)
def test_values_that_leave_in_another_form_are_not(value: Any) -> None:
    kind = GenericAlias(list, (type(value),))
    plan = SharedPlan({"state": kind})

    whole = plan.whole(plan.take([value]), [value])

    assert whole[0][1] is not value
    assert encoded(kind, [value], [value]) == encoded(kind, [value])


def test_what_is_hidden_deep_inside_does_not_leave() -> None:
    class Holder(msgspec.Struct):
        inner: dict[str, list[Keeping]] = {}

    value = Holder({"a": [Keeping(deck=777, hand=888)]})

    for audience in (Audience.EVERYBODY, Audience.RECORDING):
        plan = SharedPlan({"state": Holder}, audience)
        text = encode_json(plan.whole(plan.take(value), value))
        assert (b"777" in text, b"888" in text) == ((audience is Audience.RECORDING),) * 2


def test_a_subclass_with_more_fields_is_refused_with_its_values_too() -> None:
    class Marked(Item):
        mark: str = "secret"

    value = Town({"a": House([Item(), Marked()])})
    plan = SharedPlan({"state": Town})

    with pytest.raises((Unshareable, TypeError)):
        plan.whole(plan.take(value), value)


def test_keys_that_are_not_text_are_refused_with_the_values_too() -> None:
    value: Any = Town({1: House()})  # type: ignore[dict-item]  # the mistake
    plan = SharedPlan({"state": Town})

    with pytest.raises(Unshareable, match="its key is an int, not text"):
        plan.whole(plan.take(value), value)
