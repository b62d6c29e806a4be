"""Parts in the place of other parts: what the store has of the former ones must not come back."""

from typing import Any

import msgspec
import pytest

from holdfast import Parts, Player
from tests.server.durability.bench import Bench, in_virtual_time
from tests.server.durability.rooms import Do, Hero, Table, table


class Map(msgspec.Struct):
    north: Parts[list[int]] = msgspec.field(default_factory=Parts)
    south: Parts[list[int]] = msgspec.field(default_factory=Parts)


class World(Table):
    state: Map  # type: ignore[assignment]  # another state than its base's

    def on_create(self, config: dict[str, Any]) -> Any:
        self.state = Map(Parts({"a": [1], "b": [2]}), Parts({"c": [3]}))

    def begin_anew(self, player: Player[Hero]) -> None:
        self.state = Map()

    def replace(self, player: Player[Hero]) -> None:
        self.state.north = Parts({"b": [2], "d": [4]})

    def swap(self, player: Player[Hero]) -> None:
        self.state.north, self.state.south = self.state.south, self.state.north

    def grow(self, player: Player[Hero]) -> None:
        self.state.north["b"].append(9)

    def on_leave(self, player: Player[Hero], reason: object) -> Any:
        pass


STORIES: dict[str, tuple[list[str], dict[str, list[int]], dict[str, list[int]]]] = {
    "a new state": (["begin_anew"], {}, {}),
    "a new mapping": (["replace"], {"b": [2], "d": [4]}, {"c": [3]}),
    "changed after it was new": (["replace", "grow"], {"b": [2, 9], "d": [4]}, {"c": [3]}),
    "one for the other": (["swap"], {"c": [3]}, {"a": [1], "b": [2]}),
    "back again": (["swap", "swap", "grow"], {"a": [1], "b": [2, 9]}, {"c": [3]}),
}


@pytest.mark.parametrize("has_crashed_before", [False, True], ids=["at first", "after a crash"])
@pytest.mark.parametrize(("story", "north", "south"), STORIES.values(), ids=STORIES)
@in_virtual_time
async def test_a_room_comes_back_with_the_parts_it_had_and_no_others(
    story: list[str], north: dict[str, Any], south: dict[str, Any], *, has_crashed_before: bool
) -> None:
    async with Bench(table(World)) as bench:
        ada = await bench.sit("ada")
        await ada.room.flush()
        if has_crashed_before:
            await bench.restart()
            await ada.back()

        for what in story:
            await ada.send(Do(what))
            await ada.room.flush()
        await bench.restart()
        await ada.back(1 + has_crashed_before)

        assert (bench.room(ada).state.north, bench.room(ada).state.south) == (north, south)
