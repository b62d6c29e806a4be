"""What a new room is told in `on_create`, and nobody else."""

from typing import Any, ClassVar

import msgspec
import pytest

from holdfast import Conflict, Limits, PlayerData, Queue, Room
from holdfast.core.errors import Invalid
from holdfast.schemas.requests import Create
from holdfast.testing import MemoryServer
from tests.server.directory.seats import PATIENT
from tests.server.durability.bench import in_virtual_time

SECRET = {"seed": 42, "rules": {"lives": [3, 2, 1]}, "note": None}


class Told(Room[PlayerData]):
    kind = "told"
    heard: ClassVar[list[Any]]

    def on_create(self, config: dict[str, Any]) -> None:
        self.heard.append((config, dict(self.properties)))


def told(**settings: Any) -> type[Told]:
    return type("Told", (Told,), {"heard": [], **settings})


def serving(kind: type[Told], **options: Any) -> MemoryServer:
    return MemoryServer([kind], **{"limits": PATIENT, "queues": [Queue("anywhere", ("*",))], **options})


@in_virtual_time
async def test_a_config_reaches_on_create_whoever_makes_the_room() -> None:
    kind = told()
    wish: dict[str, Any] = {"properties": {"map": "moon"}, "config": SECRET}
    async with serving(kind) as server:
        ada = await server.connect("ada")
        await ada.create("told", **wish)
        await ada.join_or_create("told", where="players > 5", **wish)
        await (await ada.place("anywhere", "told", **wish)).done()
        await server.create_room("told", **wish)
        npc = server.open_agent("npc")
        await npc.create("told", **wish)
        await server.operate.rooms.create(Create("told", {"map": "moon"}, config=SECRET))

    assert kind.heard == [(SECRET, {"map": "moon"})] * 6


@in_virtual_time
async def test_a_room_without_a_config_is_told_nothing() -> None:
    kind = told()
    async with serving(kind) as server:
        ada = await server.connect("ada")
        await ada.create("told", properties={"map": "moon"})

    assert kind.heard == [({}, {"map": "moon"})]


@in_virtual_time
async def test_nobody_but_the_room_sees_a_config() -> None:
    async with serving(told()) as server:
        ada = await server.connect("ada")
        made = await ada.create("told", config={"word": "xyzzy"})
        room = await ada.join(made.id)
        shown = [made, *await ada.search("told"), room.info, *await ada.my_rooms(), server.operate.rooms.get(made.id)]

    assert len(shown) == 5
    assert b"xyzzy" not in msgspec.json.encode(shown)
    assert "xyzzy" not in repr(Create("told", config={"word": "xyzzy"}))


@in_virtual_time
async def test_a_game_may_change_its_config_and_a_repeated_request_is_still_the_same() -> None:
    class Greedy(Told):
        kind = "told"

        def on_create(self, config: dict[str, Any]) -> None:
            config.clear()

    async with serving(Greedy) as server:
        ada = await server.connect("ada")
        config = {"seed": {"of": 1}}
        first = await ada.create("told", config=config, idempotency_key="k")
        again = await ada.create("told", config={"seed": {"of": 1}}, idempotency_key="k")
        with pytest.raises(Conflict):
            await ada.create("told", config={"seed": {"of": 2}}, idempotency_key="k")

    assert first.id == again.id
    assert config == {"seed": {"of": 1}}


@in_virtual_time
async def test_a_config_that_is_too_large_or_no_data_makes_no_room() -> None:
    kind = told()
    async with serving(kind, limits=Limits(config_bytes_max=64)) as server:
        ada = await server.connect("ada")
        for making in (ada.create, ada.join_or_create, server.create_room):
            with pytest.raises(Invalid, match=r"config: 7. bytes are more than the 64"):
                await making("told", config={"word": "x" * 64})
        with pytest.raises(Invalid):
            await server.create_room("told", config={"room": object()})
        with pytest.raises(Invalid):
            await server.create_room("told", config={5: "five"})  # type: ignore[dict-item]
        placement = await ada.place("anywhere", "told", config={"word": "x" * 64})

        assert (await placement.done()).status == "failed"
        assert kind.heard == []
        assert len(server.rooms) == 0
