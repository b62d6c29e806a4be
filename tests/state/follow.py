"""Follows a world by its changes, in every way there is. What it compares with knows nothing of plans and shadows."""

from collections.abc import Callable
from random import Random
from struct import pack, unpack
from typing import Any

import msgspec

from holdfast.state import Audience, Node, SharedPlan, Tracker, apply, encode_json, encode_msgpack
from tests.state.worlds import Box, World

_strict = msgspec.msgpack.Encoder(order="deterministic").encode


class WrongMirrorError(AssertionError):
    """A client has another state than the server."""


def seen(value: Any) -> Any:
    """What everybody should see of a state: plain data, without what is called a secret or one's own."""
    return visible(plain(value), ("secret", "own"))


def owned(value: Any) -> Any:
    """What the owner should see: everything but what is called a secret."""
    return visible(plain(value), ("secret",))


def everything(value: Any) -> Any:
    """What a recording should have."""
    return visible(plain(value), ())


def plain(value: Any) -> Any:
    """As a mirror has it, with everything."""
    return msgspec.to_builtins(value, builtin_types=(bytes,), str_keys=True, order="deterministic")


def visible(value: Any, without: tuple[str, ...]) -> Any:
    """Without the fields whose names begin so."""
    if type(value) is list:
        return [visible(each, without) for each in value]
    if type(value) is not dict:
        return value
    shown = {key: visible(each, without) for key, each in value.items() if not key.lower().startswith(without)}
    # A recording is exact.
    if without and type(shown.get("f32")) is float:
        (shown["f32"],) = unpack("f", pack("f", shown["f32"]))
    if shown.get("type") == "shield":
        # Defaults are left out when it is saved; clients have them all.
        shown = {"type": "shield", "armour": 1, "worn": False} | shown
    return shown


def must_be(mirror: Any, expected: Any, how: str) -> None:
    """Equal to the last bit: True is not 1."""
    if _strict(mirror) != _strict(expected):
        raise WrongMirrorError(f"{how}: {mirror} is not {expected}")


def over_msgpack(node: Node) -> Node:
    decoded: Node = msgspec.msgpack.decode(encode_msgpack(node))
    return decoded


def over_json(node: Node) -> Node:
    decoded: Node = msgspec.json.decode(encode_json(node))
    return decoded


class Follower:
    """One world, one tracker, a mirror for each codec, and one that lags."""

    def __init__(self, random: Random, plan: SharedPlan | None = None, expected: Callable[[Any], Any] = seen) -> None:
        self.world = World(random)
        self.plan = plan or PLAN
        self._expected = expected
        self.tracker = Tracker(self.plan, self.world.box)
        self.binary: dict[str, Any] = {}
        self.text: dict[str, Any] = {}
        apply(self.binary, over_msgpack(self.tracker.whole()))
        apply(self.text, over_json(self.tracker.whole()))
        self._base = self.tracker.shadow
        self._lagging = over_msgpack(self.tracker.whole())
        self._random = random

    def sync(self) -> None:
        """Some changes, then one patch; every mirror must have the state."""
        for _ in range(self._random.choice([0, 1, 1, 1, 2, 5])):
            self.world.step()
        before = self.tracker.shadow
        node = self.tracker.diff(self.world.box)
        if node is not None:
            apply(self.binary, over_msgpack(node))
            apply(self.text, over_json(node))
        expected = {"state": self._expected(self.world.box)}
        must_be(self.binary, expected, "over MessagePack")
        must_be(self.text, expected, "over JSON")
        if node is None and self._random.random() < 0.9:
            return
        chance = self._random.random()
        if chance < 0.1:
            self._catch_up(expected)
        elif chance < 0.15:
            self._begin_anew(expected)
        elif chance < 0.2:
            self._go_back(before, expected)

    def _catch_up(self, expected: Any) -> None:
        """A client that was away gets one patch for all it has missed."""
        mirror: dict[str, Any] = {}
        apply(mirror, self._lagging)
        missed = self.plan.diff(self._base, self.tracker.shadow)
        if missed is not None:
            apply(mirror, over_msgpack(missed))
        must_be(mirror, expected, "patches merged")
        self._base = self.tracker.shadow
        self._lagging = over_msgpack(self.tracker.whole())

    def _begin_anew(self, expected: Any) -> None:
        """The first state is the sum of all patches; and what was saved and read again is the same state."""
        mirror: dict[str, Any] = {}
        apply(mirror, over_json(self.tracker.whole()))
        must_be(mirror, expected, "the first state")
        read_again = msgspec.convert(expected["state"], Box, str_keys=True)
        rebuilt = self.plan.take(read_again)
        must_be(over_msgpack(self.plan.whole(rebuilt)), over_msgpack(self.tracker.whole()), "read again")
        # A float that is not rounded yet differs from the rounded one, though no client sees it.
        node = self.plan.diff(rebuilt, self.tracker.shadow)
        if node is not None:
            apply(mirror, over_msgpack(node))
            must_be(mirror, expected, "from what was read again")
        self.tracker.shadow = rebuilt

    def _go_back(self, before: Any, expected: Any) -> None:
        """There and back again is where it was."""
        mirror: dict[str, Any] = {}
        apply(mirror, over_msgpack(self.tracker.whole()))
        back, forth = self.plan.diff(self.tracker.shadow, before), self.plan.diff(before, self.tracker.shadow)
        for node in (back, forth):
            if node is not None:
                apply(mirror, over_msgpack(node))
        must_be(mirror, expected, "there and back again")


PLAN = SharedPlan({"state": Box})
VIEWS: list[tuple[SharedPlan, Callable[[Any], Any]]] = [
    (PLAN, seen),
    (SharedPlan({"state": Box}, Audience.OWNER), owned),
    (SharedPlan({"state": Box}, Audience.RECORDING), everything),
]


def follow(seed: int, syncs: int, plan: SharedPlan | None = None) -> None:
    """So many patches of the world with this seed: mostly what everybody sees, unless a plan is given."""
    random = Random(seed)
    shown, expected = VIEWS[0] if plan is not None else random.choices(VIEWS, [8, 1, 1])[0]
    follower = Follower(random, plan or shown, expected)
    for _ in range(syncs):
        follower.sync()
