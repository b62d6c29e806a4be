"""Many bodies move: the change is that of each of them, however it was found and packed."""

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from holdfast.state import F32, Audience, SharedPlan, Tracker, Unshareable, apply, encode_msgpack
from holdfast.state.columns import FloatChanges
from tests.cases import every_case
from tests.state.follow import over_json, over_msgpack


class Body(msgspec.Struct):
    x: F32 = 0.0
    y: F32 = 0.0
    turned: float = 0.0
    hp: int = 100
    name: str = ""


PLANS = [SharedPlan({"bodies": dict[str, Body]}, audience) for audience in (Audience.EVERYBODY, Audience.RECORDING)]


def bodies(count: int) -> dict[str, Body]:
    return {f"body {number * 7919 % 10_000}": Body(number * 0.1, -number * 0.3) for number in range(count)}


def all_move(each: Body, _: Random) -> None:
    each.x += 0.37
    each.y -= 1e-3


def some_rest(each: Body, random: Random) -> None:
    if random.random() < 0.7:
        all_move(each, random)


def some_only_in_one_way(each: Body, random: Random) -> None:
    each.x += 0.37
    each.turned += random.choice([0.0, 0.5, 0.5, 0.5])


def some_are_hit(each: Body, random: Random) -> None:
    all_move(each, random)
    if random.random() < 0.1:
        each.hp -= 1
        each.name += "!"


def some_are_whole(each: Body, random: Random) -> None:
    each.x = random.choice([0.5, 1.5, 2.5, 3])
    each.turned = random.random()


@every_case("move", [all_move, some_rest, some_only_in_one_way, some_are_hit, some_are_whole])
def test_a_mirror_has_every_body_where_it_is(move: Callable[[Body, Random], None]) -> None:
    for count in (4, 7, 50, 127, 129, 300):
        for plan in PLANS:
            random, world = Random(count), bodies(count)
            tracker = Tracker(plan, world)
            mirrors: list[dict[str, Any]] = [{}, {}]
            for _ in range(4):
                for mirror, over in zip(mirrors, (over_msgpack, over_json), strict=True):
                    whole: dict[str, Any] = {}
                    apply(whole, over(tracker.whole()))
                    assert (mirror or whole) == whole
                    mirror.update(whole)
                for each in world.values():
                    move(each, random)
                if (node := tracker.diff(world)) is not None:
                    apply(mirrors[0], over_msgpack(node))
                    apply(mirrors[1], over_json(node))


def test_bodies_that_move_are_packed_column_by_column() -> None:
    """What the tests above are about; and it is the same as one by one."""
    world, random = bodies(50), Random(1)
    tracker = Tracker(PLANS[0], world)
    for each in world.values():
        all_move(each, random)
    next(iter(world.values())).hp = 3
    node = tracker.diff(world)
    assert node is not None
    changes = node[1][1][4]

    assert type(changes) is FloatChanges
    assert len(changes) == len(changes.plain()) == 100
    assert over_msgpack(node) == over_json(node)


@pytest.mark.parametrize(("value", "says"), [(float("nan"), "JSON has no such number"), (1e300, "too large")])
def test_a_body_that_cannot_be_shared_is_named(value: float, says: str) -> None:
    world = bodies(20)
    tracker = Tracker(PLANS[0], world)
    for each in world.values():
        each.x += 1.0
    world["body 0"].x = value

    with pytest.raises(Unshareable, match=says) as refused:
        encode_msgpack(tracker.diff(world))

    assert ".x: " in str(refused.value)
