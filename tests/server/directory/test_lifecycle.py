"""From creating through active and ending to ended or failed: hooks in order, reasons, and events for who watches."""

import asyncio
from typing import Any, ClassVar

import pytest

from holdfast import Failed, Limits, NotFound, Player, Reason, Refused, Room, Throttled
from holdfast.core.room import context_of
from holdfast.schemas.events import NodeReady
from holdfast.schemas.node import EventInfo
from holdfast.schemas.room import RoomInfo
from holdfast.server.compose import ServerParts
from tests.server.durability.bench import Bench, a_moment, in_virtual_time
from tests.server.durability.rooms import Hero, Table, table


class Life(Table):
    """Tells of every hook, and how its room is shown at that moment."""

    durability = "memory"  # type: ignore[assignment]  # a table that does not last

    def tell(self, hook: str) -> None:
        self.story.append(f"{hook} {context_of(self).listing.status.value}")

    def on_create(self, config: dict[str, Any]) -> Any:
        super().on_create(config)
        self.tell("on_create")

    def on_created(self) -> Any:
        self.tell("on_created")

    def on_update(self) -> Any:
        self.tell("on_update")

    def on_leave(self, player: Player[Hero], reason: Reason) -> Any:
        self.tell("on_leave")

    def on_destroy(self) -> Any:
        self.tell("on_destroy")

    def on_destroyed(self) -> Any:
        self.tell("on_destroyed")


async def events_of(node: ServerParts, *types: str) -> list[EventInfo]:
    """What happened on a node so far, of these types."""
    node.context.publish(NodeReady(node="now"))
    found: list[EventInfo] = []
    async for event in node.events.read(0):
        if event.body.get("node") == "now":
            break
        if event.type in types:
            found.append(event)
    return found


def ended(bench: Bench, room: Room[Any]) -> RoomInfo:
    """What is known of a room that is gone."""
    assert bench.server.rooms.get(room.id) is None
    return bench.server.operate.rooms.get(room.id)


def end_of(bench: Bench, room: Room[Any]) -> tuple[str, str]:
    info = ended(bench, room)
    return info.status, info.reason


# Hooks


@in_virtual_time
async def test_the_hooks_are_called_in_order_each_with_the_status_of_its_time() -> None:
    kind = table(Life)
    async with Bench(kind) as bench:
        ada = await bench.connect("ada")
        info = await ada.create("table")
        await ada.join(info.id)
        await ada.update_room(info.id, name="arena")
        room = bench.server.rooms.runner(info.id).room

        room.close()
        await a_moment()

        assert kind.story == [
            "on_create creating",
            "on_created creating",
            "join ada",
            "on_update active",
            "on_leave ending",
            "on_destroy ending",
            "on_destroyed ending",
        ]
        assert end_of(bench, room) == ("ended", "closed")


class Slow(Life):
    """Waits at its door in one of the hooks."""

    where = ""

    async def on_create(self, config: dict[str, Any]) -> None:
        super().on_create(config)
        await self.pause("on_create")

    async def on_created(self) -> None:
        super().on_created()
        await self.pause("on_created")

    async def on_destroy(self) -> None:
        super().on_destroy()
        await self.pause("on_destroy")

    async def on_destroyed(self) -> None:
        super().on_destroyed()
        await self.pause("on_destroyed")

    async def pause(self, hook: str) -> None:
        if hook == self.where:
            try:
                await self.door.wait()
            finally:
                self.story.append(f"{hook} goes on")


@pytest.mark.parametrize("hook", ["on_create", "on_created"])
@in_virtual_time
async def test_nobody_finds_a_room_before_its_game_has_agreed(hook: str) -> None:
    kind = table(Slow, where=hook, door=asyncio.Event())
    async with Bench(kind) as bench:
        ada, bob = await bench.connect("ada"), await bench.connect("bob")
        making = asyncio.create_task(ada.create("table"))
        await a_moment()

        assert kind.story[-1] == f"{hook} creating"
        assert await bob.search(where="") == []
        assert len(bench.server.rooms) == 0
        kind.door.set()
        info = await making
        assert [each.id for each in await bob.search()] == [info.id]
        assert info.status == "active"


@in_virtual_time
async def test_a_room_that_is_ending_is_shown_as_such_takes_nobody_and_cannot_be_changed() -> None:
    kind = table(Slow, where="on_destroy", door=asyncio.Event())
    async with Bench(kind) as bench:
        ada = await bench.connect("ada")
        info = await ada.create("table")
        room = bench.server.rooms.runner(info.id).room
        room.close()

        [shown] = await ada.search(where="")
        with pytest.raises(NotFound):
            await ada.join(info.id)
        changing = asyncio.create_task(ada.update_room(info.id, name="late"))
        await a_moment()
        kind.door.set()

        with pytest.raises(NotFound):
            await changing
        assert (shown.status, shown.reason, shown.open_seats) == ("ending", "closed", 0)
        assert (room.name, ended(bench, room).version) == ("", info.version)
        assert "on_update active" not in kind.story


@in_virtual_time
async def test_a_room_is_ended_once_and_keeps_its_first_reason() -> None:
    kind = table(Slow, where="on_destroy", door=asyncio.Event())
    async with Bench(kind) as bench:
        room = await bench.server.create_room("table")
        host = bench.server.rooms.runner(room.id)

        host.end("first")
        room.close()
        host.end("second")
        kind.door.set()
        await a_moment()

        assert end_of(bench, room) == ("ended", "first")
        assert kind.story.count("on_destroy ending") == kind.story.count("on_destroyed ending") == 1


# Vetoes and failures


class Picky(Life):
    where = ""
    error: Exception = Refused("no such map")

    def on_create(self, config: dict[str, Any]) -> Any:
        super().on_create(config)
        self.maybe("on_create")

    def on_created(self) -> Any:
        super().on_created()
        self.maybe("on_created")

    def maybe(self, hook: str) -> None:
        if self.where == hook:
            raise self.error


@pytest.mark.parametrize("hook", ["on_create", "on_created"])
@pytest.mark.parametrize("durability", ["memory", "commit"])
@pytest.mark.parametrize(
    ("error", "told"), [(Refused("no such map"), (Refused, "no such map")), (ValueError("a bug"), (Failed, "failed"))]
)
@in_virtual_time
async def test_a_game_that_does_not_want_a_room_says_why_and_nothing_is_left_of_it(
    hook: str, durability: str, error: Exception, told: tuple[type[Refused], str]
) -> None:
    kind = table(Picky, where=hook, error=error, durability=durability)
    async with Bench(kind) as bench:
        ada = await bench.connect("ada")

        with pytest.raises(told[0], match=told[1]) as refused:
            await ada.create("table")
        await a_moment()

        assert type(refused.value) is told[0]
        assert kind.story[-1] == f"{hook} creating"
        assert len(bench.server.rooms) == 0
        assert not [key for key in bench.data.entries if key.startswith("room/")]
        assert await events_of(bench.server.parts, "room.created", "room.updated", "room.ended") == []


@pytest.mark.parametrize("hook", ["on_create", "on_created"])
@pytest.mark.parametrize("durability", ["memory", "commit"])
@in_virtual_time
async def test_a_room_that_takes_too_long_to_begin_has_failed_and_is_gone(hook: str, durability: str) -> None:
    kind = table(Slow, where=hook, door=asyncio.Event(), durability=durability, unique_names=True)
    async with Bench(kind, limits=Limits(activation_s=3.0)) as bench:
        ada = await bench.connect("ada")
        began = asyncio.get_running_loop().time()

        with pytest.raises(Failed, match="3 s"):
            await ada.create("table", name="arena", idempotency_key="k")

        assert asyncio.get_running_loop().time() - began < 4.0
        await a_moment()
        # Cancelled, not forgotten; and nothing keeps the next one from being made.
        assert kind.story[-1] == f"{hook} goes on"
        assert len(bench.server.rooms) == 0
        kind.door.set()
        await ada.create("table", name="arena", idempotency_key="k")
        await bench.restart()
        assert len(bench.server.rooms) == (1 if durability == "commit" else 0)


# Reasons


@in_virtual_time
async def test_an_operator_ends_a_room_with_words_of_their_own() -> None:
    async with Bench(table(Life)) as bench:
        first, second = await bench.server.create_room("table"), await bench.server.create_room("table")
        operator = bench.server.operate

        await operator.rooms.end(first.id, "moving to another machine")
        await operator.rooms.end(second.id, "")
        await a_moment()

        assert end_of(bench, first) == ("ended", "moving to another machine")
        assert end_of(bench, second) == ("ended", "ended_by_operator")


class Sick(Life):
    def on_health_check(self) -> bool:
        return False


@in_virtual_time
async def test_a_room_ends_for_what_was_wrong_with_it() -> None:
    never, sick = table(Life), table(Sick, name="Sick")
    async with Bench(never, sick, limits=Limits(unjoined_s=20.0, health_s=10.0)) as bench:
        unloved, unwell = await bench.server.create_room("table"), await bench.server.create_room("sick")

        await a_moment(21.0)

        assert end_of(bench, unloved) == ("ended", "never_joined")
        assert end_of(bench, unwell) == ("ended", "unhealthy")


@in_virtual_time
async def test_a_server_that_stops_ends_its_rooms_and_a_durable_one_waits_for_the_next() -> None:
    memory, durable = table(Life), table(Life, name="Lasting", durability="commit")
    async with Bench(memory, durable) as bench:
        room = await bench.server.create_room("table")
        lasting = await bench.server.create_room("lasting")
        node = bench.server.parts

        await bench.stop()

        ends = [event.body async for event in node.events.read(0) if event.type == "room.ended"]
        assert [(end["room"], end["status"], end["reason"]) for end in ends] == [(room.id, "ended", "stopping")]
        assert memory.story[-2:] == ["on_destroy ending", "on_destroyed ending"]
        assert durable.story == ["on_create creating", "on_created creating"]
        await bench.start()
        assert [each.id for each in bench.server.rooms] == [lasting.id]


@in_virtual_time
async def test_a_room_that_does_not_come_to_its_end_in_time_has_failed() -> None:
    kind = table(Slow, where="on_destroy", door=asyncio.Event())
    async with Bench(kind) as bench:
        room = await bench.server.create_room("table")
        node = bench.server.parts
        stopping = asyncio.create_task(bench.stop())
        await a_moment(0.1)

        with pytest.raises(Throttled):
            await bench.server.create_room("table")
        await stopping

        ends = [event.body async for event in node.events.read(0) if event.type == "room.ended"]
        assert [(end["room"], end["status"], end["reason"]) for end in ends] == [(room.id, "failed", "stopping")]
        assert kind.story[-1] == "on_destroy goes on"


# Events


class Busy(Life):
    def on_create(self, config: dict[str, Any]) -> Any:
        super().on_create(config)
        self.update(name="from the start")
        self.properties["ready"] = True


@in_virtual_time
async def test_who_watches_hears_of_the_beginning_each_change_and_the_end() -> None:
    async with Bench(table(Busy)) as bench:
        ada = await bench.connect("ada")
        info = await ada.create("table")
        changed = await ada.update_room(info.id, set={"map": "sea"})
        bench.server.rooms.runner(info.id).room.close()
        await a_moment()

        found = await events_of(bench.server.parts, "room.created", "room.updated", "room.ended")

        # Of what a room does to itself before it is open, nobody hears.
        shown = [event.body.pop("info") for event in found]
        assert [(event.type, event.body) for event in found] == [
            ("room.created", {"room": info.id, "kind": "table", "creator": "ada"}),
            ("room.updated", {"room": info.id, "version": changed.version}),
            ("room.ended", {"room": info.id, "status": "ended", "reason": "closed"}),
        ]
        assert [(each.status, each.properties.get("map")) for each in shown] == [
            ("active", None),
            ("active", "sea"),
            ("ended", "sea"),
        ]
        assert (info.name, info.properties) == ("from the start", {"ready": True})


@in_virtual_time
async def test_what_is_known_of_a_room_that_ended_is_forgotten_after_a_while() -> None:
    async with Bench(table(Life), limits=Limits(ended_kept_s=100.0)) as bench:
        room = await bench.server.create_room("table", name="arena", properties={"map": "sea"})
        room.close()
        await a_moment(99.0)
        info = ended(bench, room)

        await a_moment(2.0)

        assert (info.name, info.properties, info.players) == ("arena", {"map": "sea"}, 0)
        with pytest.raises(NotFound):
            bench.server.operate.rooms.get(room.id)


@in_virtual_time
async def test_a_name_is_free_again_when_the_room_could_not_even_be_made() -> None:
    class Broken(Table):
        is_broken: ClassVar[bool] = True

        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            if self.is_broken:
                raise RuntimeError("not today")

    kind = table(Broken, unique_names=True)
    async with Bench(kind) as bench:
        with pytest.raises(RuntimeError):
            await bench.server.create_room("table", name="Friday")

        kind.is_broken = False
        room = await bench.server.create_room("table", name="Friday")

        assert room.name == "Friday"
