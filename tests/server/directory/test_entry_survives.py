"""The entry of a durable room outlives its server: what it is known by, who may do what, how it was changed last."""

import asyncio
from typing import Any

import msgspec
import pytest

from holdfast import NameTaken, NotAllowed, NotFound, Player, RoomLocked, Throttled, WrongPassword
from holdfast.core import records
from holdfast.core.records import decode_room, encode
from holdfast.core.room import context_of
from holdfast.schemas.requests import Update
from holdfast.schemas.room import RoomInfo, RoomRecord
from holdfast.server.durability.recovery import Pace
from holdfast.stores import Entry
from tests.core.record_samples import fields_of, written
from tests.server.directory.test_lifecycle import Slow
from tests.server.durability.bench import Bench, a_moment, in_virtual_time, until
from tests.server.durability.faults import Moment
from tests.server.durability.rooms import Do, Hero, Say, Table, table

both_paces = pytest.mark.parametrize("pace", ["eager", "lazy"])
each_durability = pytest.mark.parametrize("durability", ["commit", "checkpoint"])


async def come_back(bench: Bench, how: str) -> None:
    if how == "crash":
        await bench.restart()
    else:
        await bench.stop()
        await bench.start()


def shown(bench: Bench, room_id: str) -> RoomInfo:
    return bench.server.operate.rooms.get(room_id)


def stored_rooms(bench: Bench) -> list[str]:
    return [key for key in bench.data.entries if key.startswith("room/")]


# Everything of it


@both_paces
@each_durability
@pytest.mark.parametrize("how", ["crash", "stop"])
@in_virtual_time
async def test_an_entry_comes_back_as_it_was(pace: Pace, durability: str, how: str) -> None:
    kind = table(durability=durability, checkpoint_s=1.0, max_players=9)
    async with Bench(kind, recovery=pace) as bench:
        ada = await bench.connect("ada")
        info = await ada.create("table", name="first", properties={"map": "sea"}, max_players=8, idempotency_key="k")
        await ada.join(info.id)
        await ada.update_room(
            info.id,
            name="arena",
            set={"level": 3, "tags": ["dark", 1, 0.5, True]},
            remove=["map"],
            max_players=5,
            join_policy="deny_all",
            locked=True,
            visibility="private",
            password="sesame",
            host="ada",
        )
        before = shown(bench, info.id)

        await come_back(bench, how)

        after = shown(bench, info.id)
        assert after == before
        assert (after.name, after.creator, after.host, after.code) == ("arena", "ada", "ada", info.code)
        assert (after.version, after.has_password, after.is_locked) == (info.version + 1, True, True)


@both_paces
@in_virtual_time
async def test_what_the_entry_says_holds_after_a_crash(pace: Pace) -> None:
    async with Bench(table(), recovery=pace) as bench:
        ada = await bench.connect("ada")
        info = await ada.create("table", password="sesame", visibility="private")
        assert not any(b"sesame" in entry.value for entry in bench.data.entries.values())

        await bench.restart()
        ada, eve = await bench.connect("ada"), await bench.connect("eve")

        with pytest.raises(WrongPassword):
            await eve.join(code=info.code, password="guess")
        with pytest.raises(NotAllowed):
            await eve.update_room(info.id, name="eve's")
        await a_moment()
        assert await eve.search() == []
        assert [each.id for each in await ada.search()] == [info.id]
        assert (await eve.join(code=info.code, password="sesame")).id == info.id
        assert (await ada.update_room(info.id, join_policy="deny_all", if_version=info.version)).version == 2
        await bench.restart()
        bob = await bench.connect("bob")
        with pytest.raises(RoomLocked):
            await bob.join(info.id, password="sesame")


@both_paces
@in_virtual_time
async def test_a_room_is_joined_by_its_code_as_soon_as_the_server_is_back(pace: Pace) -> None:
    async with Bench(table(), recovery=pace) as bench:
        rooms = [await bench.server.create_room("table") for _ in range(20)]
        codes = {context_of(room).listing.code: room.id for room in rooms}

        await bench.restart()

        for code in reversed(codes):
            assert bench.server.rooms.find("", code).room.id == codes[code]
        await a_moment()
        assert len(bench.server.rooms) == 20


@both_paces
@in_virtual_time
async def test_a_name_is_taken_as_soon_as_the_server_is_back(pace: Pace) -> None:
    async with Bench(table(unique_names=True), recovery=pace) as bench:
        first = await bench.server.create_room("table", name="arena")

        await bench.restart()
        with pytest.raises(NameTaken):
            await bench.server.create_room("table", name="arena")
        bench.server.rooms.runner(first.id).room.close()
        await a_moment()

        assert (await bench.server.create_room("table", name="arena")).name == "arena"


# Changes


@pytest.mark.parametrize("moment", Moment)
@in_virtual_time
async def test_a_change_that_was_answered_is_there_after_a_crash_at_any_moment(moment: Moment) -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.crash_at(bench.store.commits + 1, moment)

        info = await ada.room.update(name="arena", set={"map": "sea"})
        await until(lambda: bench.started == 2)
        await ada.back()

        after = shown(bench, info.id)
        assert (after.name, after.properties) == (info.name, info.properties) == ("arena", {"map": "sea"})
        assert after.version == info.version


@each_durability
@in_virtual_time
async def test_a_change_is_answered_only_when_it_is_saved(durability: str) -> None:
    async with Bench(table(durability=durability)) as bench:
        room = await bench.server.create_room("table")
        await a_moment()
        bench.store.hold()

        changing = asyncio.create_task(bench.server.operate.rooms.update(Update(room.id, name="arena")))
        await until(lambda: bench.store.is_waiting)
        await a_moment()
        assert not changing.done()
        bench.store.release()

        assert (await changing).name == "arena"


@in_virtual_time
async def test_what_the_game_changes_in_a_turn_is_saved_with_that_turn() -> None:
    class Busy(Table):
        def change(self, player: Player[Hero]) -> None:
            self.update(name="arena")
            self.properties["map"] = "cave"
            self.lock()

    async with Bench(table(Busy)) as bench:
        ada = await bench.sit("ada")
        await ada.send(Do("change"), Say("done"))
        await ada.has_heard("ada:done")
        before = shown(bench, ada.room.id)

        await bench.restart()

        assert shown(bench, ada.room.id) == before
        assert (before.name, before.properties, before.is_locked) == ("arena", {"map": "cave"}, True)


# Rooms that were never made


@in_virtual_time
async def test_a_name_that_was_refused_leaves_no_room_in_the_store() -> None:
    async with Bench(table(unique_names=True)) as bench:
        room = await bench.server.create_room("table", name="arena")
        for _ in range(3):
            with pytest.raises(NameTaken):
                await bench.server.create_room("table", name="arena")

        await come_back(bench, "stop")

        assert stored_rooms(bench) == [f"room/{room.id}"]
        assert [each.id for each in bench.server.rooms] == [room.id]


@pytest.mark.parametrize("wish", [{}, {"idempotency_key": "k"}], ids=["plain", "keyed"])
@in_virtual_time
async def test_a_room_in_the_making_is_not_in_the_store_of_a_server_that_stops(wish: dict[str, Any]) -> None:
    kind = table(Slow, where="on_created", door=asyncio.Event(), durability="commit")
    async with Bench(kind) as bench:
        making = asyncio.create_task(bench.server.create_room("table", **wish))
        await a_moment()

        began = asyncio.get_running_loop().time()
        await bench.stop()

        assert asyncio.get_running_loop().time() - began < 1.0
        with pytest.raises(Throttled):
            await making
        assert stored_rooms(bench) == []
        assert kind.story[-1] == "on_created goes on"
        await bench.start()


# Rooms from elsewhere


def put(bench: Bench, room_id: str, value: bytes) -> None:
    """Write a record behind the back of a server that is down."""
    key = f"room/{room_id}"
    bench.data.entries[key] = Entry(key, value, 10_000 + len(bench.data.entries))


@both_paces
@in_virtual_time
async def test_a_room_of_before_there_were_entries_gets_one(pace: Pace) -> None:
    async with Bench(table(), recovery=pace) as bench:
        room = await bench.server.create_room("table", name="lost", password="sesame")
        await bench.stop()
        record = decode_room(bench.data.entries[f"room/{room.id}"].value)
        older = fields_of(record)[: RoomRecord.__struct_fields__.index("listing")]
        put(bench, room.id, written(records.VERSION, older))

        await bench.start()
        info = shown(bench, room.id)

        assert (info.name, info.has_password, info.visibility, info.version) == ("", False, "public", 1)
        assert bench.server.rooms.find("", info.code).room.id == room.id
        await a_moment()
        await bench.restart()
        assert shown(bench, room.id).code == info.code


@both_paces
@in_virtual_time
async def test_a_copy_of_a_room_has_a_code_of_its_own_and_both_can_end(pace: Pace) -> None:
    async with Bench(table(unique_names=True), recovery=pace) as bench:
        first = await bench.server.create_room("table", name="arena", idempotency_key="k")
        code = context_of(first).listing.code
        await bench.stop()
        record = decode_room(bench.data.entries[f"room/{first.id}"].value)
        put(bench, "zz-copy", encode(msgspec.structs.replace(record, previous=b"")))

        await bench.start()
        infos = [shown(bench, each) for each in (first.id, "zz-copy")]

        assert [info.name for info in infos] == ["arena", "arena"]
        assert code in {info.code for info in infos}
        for info in infos:
            assert bench.server.rooms.find("", info.code).room.id == info.id
        for info in infos:
            bench.server.rooms.runner(info.id).room.close()
            await a_moment()
            assert shown(bench, info.id).status == "ended"
        assert (await bench.server.create_room("table", name="arena")).name == "arena"


@both_paces
@in_virtual_time
async def test_a_room_that_cannot_come_back_leaves_its_code_its_name_and_its_key(pace: Pace) -> None:
    kind = table(unique_names=True)
    async with Bench(kind, recovery=pace) as bench:
        lost = await bench.server.create_room("table", name="arena", idempotency_key="k")
        await bench.stop()
        record = decode_room(bench.data.entries[f"room/{lost.id}"].value)
        put(bench, lost.id, encode(msgspec.structs.replace(record, state=msgspec.Raw(b"\xa5never"))))

        await bench.start()
        await a_moment()

        assert len(bench.server.rooms) == 0
        with pytest.raises(NotFound):
            bench.server.rooms.find("", context_of(lost).listing.code)
        again = await bench.server.create_room("table", name="arena", idempotency_key="k")
        assert again.id != lost.id


@in_virtual_time
async def test_a_room_that_another_server_has_is_mine_no_more() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        code = context_of(bench.room(ada)).listing.code
        bench.store.intrude(f"room/{ada.room.id}")
        bench.dialer(ada).is_down = True

        await ada.send(Say("lost"))
        await until(lambda: len(bench.server.rooms) == 0)

        assert bench.server.rooms.rooms_of("ada") == []
        assert bench.server.rooms.players() == []
        with pytest.raises(NotFound):
            bench.server.rooms.find("", code)


# What cannot be saved


class Careless(Table):
    def spoil_entry(self, player: Player[Hero], what: str) -> None:
        if what == "successor":
            self.successor = player  # type: ignore[assignment]  # the mistake that is made here
        else:
            self.successor = "\ud800"

    def repair_entry(self, player: Player[Hero]) -> None:
        self.successor = ""


@pytest.mark.parametrize("what", ["successor", "text"])
@in_virtual_time
async def test_an_entry_that_cannot_be_saved_holds_everything_back_until_it_can(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Bench(table(Careless)) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        await bob.send(Say("before"))
        await ada.has_heard("bob:before")

        await ada.send(Do("spoil_entry", [what]), Say("held back"))
        await a_moment()
        assert ada.texts == bob.texts == ["bob:before"]
        await bob.send(Do("repair_entry"), Say("after"))
        await ada.has_heard("bob:after")
        await bob.has_heard("bob:after")

        assert ada.texts == bob.texts == ["bob:before", "ada:held back", "bob:after"]
        assert "cannot be saved" in caplog.text
        await bench.restart()
        assert bench.server.parts.recovery is not None
        assert bench.server.parts.recovery.set_aside == {}


@pytest.mark.parametrize("moment", Moment)
@in_virtual_time
async def test_a_member_s_update_is_made_once_whenever_the_server_crashes(moment: Moment) -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        version = context_of(bench.room(ada)).listing.version
        bench.crash_at(bench.store.commits + 1, moment)

        info = await ada.room.update(name="arena", if_version=version)
        await until(lambda: bench.started == 2)
        await ada.back()

        assert (info.name, info.version) == ("arena", version + 1)
        assert bench.room(ada).name == "arena"
        assert context_of(bench.room(ada)).listing.version == version + 1


@in_virtual_time
async def test_rooms_that_last_and_rooms_that_do_not_are_in_order_of_their_age() -> None:
    async with Bench(table(), table(name="Fleeting", durability="memory")) as bench:
        rooms = []
        for kind in ("table", "fleeting", "table"):
            rooms.append(await bench.server.create_room(kind))
            await a_moment()
        directory = bench.server.parts.rooms

        directory.sort_by_age()

        assert list(directory) == rooms
