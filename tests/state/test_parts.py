"""`Parts` in a state: clients have a dict, and only what was accessed is compared."""

from random import Random
from typing import Any

import msgspec
import pytest

from holdfast.state import Hidden, Mirror, Parts, SharedPlan, Tracker, Unshareable, apply, encode_msgpack, has_secrets


class Tile(msgspec.Struct):
    height: int = 0
    things: list[str] = []
    secret: Hidden[str] = "known to nobody"


class Land(msgspec.Struct):
    name: str = ""
    tiles: Parts[Tile] = msgspec.field(default_factory=Parts)
    deep: Hidden[Parts[int]] = msgspec.field(default_factory=Parts)


class Grove(msgspec.Struct):
    """A type that contains itself in parts."""

    trees: Parts["Grove"] = msgspec.field(default_factory=Parts)


def seen(land: Land) -> Any:
    tiles = {key: land.tiles.peek(key) for key in land.tiles}
    return {
        "name": land.name,
        "tiles": {key: {"height": tile.height, "things": tile.things} for key, tile in tiles.items() if tile},
    }


def plain(node: Any) -> Any:
    return msgspec.msgpack.decode(encode_msgpack(node))


def change(land: Land, random: Random) -> None:
    key = str(random.randrange(12))
    match random.randrange(6):
        case 0:
            land.tiles[key] = Tile(random.randrange(3))
        case 1:
            land.tiles.pop(key, None)
        case 2 if key in land.tiles:
            land.tiles[key].things.append(str(random.randrange(9)))
        case 3 if key in land.tiles:
            land.tiles[key].height = random.randrange(3)
        case 4 if not random.randrange(8):
            land.tiles = Parts({key: Tile(7)})
        case _:
            land.name = key


@pytest.mark.parametrize("seed", range(8))
def test_whoever_follows_has_the_same_entries_from_wherever_they_catch_up(seed: int) -> None:
    random, land = Random(seed), Land(tiles=Parts({"1": Tile()}))
    plan = SharedPlan({"state": Land})
    tracker, recorded = Tracker(plan, land), Tracker(SharedPlan({"state": Land}), land)
    root: dict[str, Any] = {}
    apply(root, plain(tracker.whole()))
    slow, slow_at = msgspec.msgpack.decode(msgspec.msgpack.encode(root)), tracker.shadow

    for _ in range(200):
        for _ in range(random.randrange(4)):
            change(land, random)
        if (node := tracker.diff(land)) is not None:
            apply(root, plain(node))
        assert root["state"] == seen(land)
        if not random.randrange(9):
            node, slow_at = plan.diff(slow_at, tracker.shadow), tracker.shadow
            if node is not None:
                apply(slow, plain(node))
            assert slow == root
        if not random.randrange(9):
            recorded.diff(land)
            assert plain(recorded.whole()) == plain(tracker.whole())


def test_only_what_was_accessed_is_compared_and_a_failed_look_loses_nothing() -> None:
    land = Land(tiles=Parts({"a": Tile(), "b": Tile()}))
    tracker = Tracker(SharedPlan({"state": Land}), land)

    tile = land.tiles.peek("a")
    assert tile is not None
    tile.height = 5
    assert tracker.diff(land) is None
    land.tiles["b"].height = 2
    land.tiles["a"].things = 3  # type: ignore[assignment]
    with pytest.raises(Unshareable, match=r"state\.tiles\.a\.things: an int is not a list"):
        tracker.diff(land)
    land.tiles["a"].things = []

    changed = {"a": [["height", 5]], "b": [["height", 2]]}
    (name, inner) = plain(tracker.diff(land))[1][1][1]
    assert name == "tiles"
    assert dict(zip(inner[1][::2], inner[1][1::2], strict=True)) == changed


def test_a_client_reads_them_as_their_type() -> None:
    mirror = Mirror()
    land = Land("Avalon", Parts({"a": Tile(3)}))

    mirror.receive([2, plain(SharedPlan({"state": Land}).whole(SharedPlan({"state": Land}).take(land)))])

    assert mirror.read("state", kind=Land) == Land("Avalon", Parts({"a": Tile(3, secret="known to nobody")}))


def test_secrets_in_parts_are_found_and_parts_may_contain_their_own_type() -> None:
    assert has_secrets(Land)
    assert not has_secrets(Grove)
    tracker = Tracker(SharedPlan({"state": Grove}), grove := Grove(Parts({"oak": Grove()})))
    grove.trees["oak"].trees["acorn"] = Grove()

    assert plain(tracker.diff(grove)) == [
        [],
        ["state", [[], ["trees", [[], ["oak", [[], ["trees", [["acorn", {"trees": {}}]]]]]]]]],
    ]


def test_parts_are_the_whole_type_of_a_field() -> None:
    kind = msgspec.defstruct("Odd", [("tiles", Parts[int] | None)])

    with pytest.raises(Unshareable, match="Parts must be the whole type"):
        SharedPlan({"state": kind})
