"""A mirror has the state after every patch, whatever the game does to it; and a wrong differ would be found."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.state import SharedPlan, apply, columns, containers, encode_json, encode_msgpack, shapes
from holdfast.state.splitting import split_whole
from tests.state.follow import PLAN, VIEWS, Follower, WrongMirrorError, follow, must_be, over_json, over_msgpack, seen
from tests.state.worlds import Box


@settings(max_examples=25)
@given(st.randoms(use_true_random=False))
def test_every_mirror_has_the_state_after_every_patch(random: Random) -> None:
    follower = Follower(random)

    for _ in range(12):
        follower.sync()


@pytest.mark.parametrize("view", range(len(VIEWS)), ids=["everybody", "owner", "recording"])
def test_everybody_their_owner_and_recordings_see_what_is_theirs_and_nothing_else(view: int) -> None:
    for seed in range(8):
        follower = Follower(Random(seed), *VIEWS[view])
        for _ in range(30):
            follower.sync()


def test_many_patches_later_mirrors_still_have_the_state() -> None:
    follow_many(20, PLAN)


@settings(max_examples=20)
@given(st.randoms(use_true_random=False), st.sampled_from([256, 1000, 5000]))
def test_a_view_in_parts_is_the_same_view(random: Random, bytes_max: int) -> None:
    follower = Follower(random)

    for encode, over in ((encode_msgpack, over_msgpack), (encode_json, over_json)):
        parts = split_whole(follower.tracker.whole(), bytes_max, encode)
        mirror: dict[str, Any] = {}
        for part in parts:
            assert len(encode(part)) <= bytes_max
            apply(mirror, over(part))
        must_be(mirror, {"state": seen(follower.world.box)}, f"in {len(parts)} parts")


# Planted bugs: each is what an implementation could really get wrong.


def equal_places_cut_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """`[5]`, then `unshift(5)`: the value is counted as part of what is kept at both ends."""
    right = containers._common  # noqa: SLF001 - where the bug is planted

    def common(old: Any, new: Any, most: int, *how: Any) -> int:
        return right(old, new, most + 1 if most else most, *how)

    monkeypatch.setattr(containers, "_common", common)


def keys_that_go_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    right = containers.node_of

    def node_of(sets: Any, into: Any = None, gone: Any = None, splice: Any = None, nth: Any = None) -> Any:
        return right(sets, into, None, splice, nth)

    monkeypatch.setattr(containers, "node_of", node_of)


def keys_are_counted_as_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    def numbers(self: containers.Keys, _: containers.Keys) -> list[int]:
        return list(range(len(self)))

    monkeypatch.setattr(containers.Keys, "numbers", numbers)


def who_moved_otherwise_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    right = columns.FloatChanges.__init__

    def init(self: Any, fields: Any, numbers: Any, values: Any, others: Any) -> None:
        right(self, fields, numbers, values, [])

    monkeypatch.setattr(columns.FloatChanges, "__init__", init)


def true_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    right = shapes.Union._take  # noqa: SLF001 - where the bug is planted

    def take(self: shapes.Union, value: Any) -> tuple[type, Any]:
        return right(self, int(value) if type(value) is bool else value)

    monkeypatch.setattr(shapes.Union, "_take", take)


def the_list_itself_is_the_shadow(monkeypatch: pytest.MonkeyPatch) -> None:
    right = containers.ListShape.__init__

    def init(self: containers.ListShape, item: shapes.Shape) -> None:
        right(self, item)
        if item.is_scalar:
            self.take = lambda value: value

    monkeypatch.setattr(containers.ListShape, "__init__", init)


def the_last_block_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    right = containers._blocks  # noqa: SLF001 - where the bug is planted

    def blocks(old: list[Any], new: list[Any], places: range, size: int) -> list[int]:
        found = right(old, new, places, size)
        return found[:-1] if len(found) > 1 else found

    monkeypatch.setattr(containers, "_blocks", blocks)


def moved_objects_are_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What moved is where it should be, but what has changed in it meanwhile is not sent."""
    right = containers.ListShape._change_at  # noqa: SLF001 - where the bug is planted

    def change_at(self: containers.ListShape, old: Any, new: Any, places: Any, splice: list[Any]) -> Any:
        return right(self, old, new, [] if splice else places, splice)

    monkeypatch.setattr(containers.ListShape, "_change_at", change_at)


def follow_many(seeds: int, plan: SharedPlan) -> None:
    for seed in range(seeds):
        follow(seed, 40, plan)


@pytest.mark.parametrize(
    "plant",
    [
        equal_places_cut_twice,
        keys_that_go_are_forgotten,
        keys_are_counted_as_they_came,
        who_moved_otherwise_is_forgotten,
        true_is_one,
        the_list_itself_is_the_shadow,
        the_last_block_is_not_compared,
        moved_objects_are_not_looked_at_again,
    ],
)
def test_a_bug_in_the_differ_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    plan = SharedPlan({"state": Box})

    with pytest.raises((WrongMirrorError, ValueError)):
        follow_many(400, plan)
