"""What the store has of a room and its sessions: a chain of records, nothing twice, nothing for ever."""

import logging
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from holdfast import Failed, Player, Room
from holdfast.core.records import decode_room, decode_session, digest
from holdfast.schemas.room import RoomRecord
from holdfast.state import Parts
from tests.server.durability.bench import Bench, a_moment, in_virtual_time, until
from tests.server.durability.rooms import Do, Hero, Say, Table, table


def records_of(bench: Bench, room_id: str) -> list[tuple[RoomRecord, bytes]]:
    key = f"room/{room_id}"
    writes = [write for commit in bench.store.written for batch in commit for write in batch]
    return [(decode_room(write.value), write.value) for write in writes if write.key == key and write.value]


@in_virtual_time
async def test_each_record_names_the_one_before_it_and_the_epoch_grows_with_each_start() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        records = []
        for epoch in (1, 2, 3):
            for text in "abc":
                await ada.send(Say(text))
                await ada.room.flush()
            records += records_of(bench, ada.room.id)
            assert {record.epoch for record, _ in records_of(bench, ada.room.id)} == {epoch}
            await bench.restart()
            await ada.back(epoch)

        assert [record.index for record, _ in records] == list(range(1, len(records) + 1))
        assert records[0][0].previous == b""
        for (_, former), (record, _) in pairwise(records):
            assert record.previous == digest(former)


@in_virtual_time
async def test_a_room_that_ends_leaves_nothing_in_the_store() -> None:
    async with Bench(table(World)) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        await ada.send(Do("build", ["a", "b"]))
        await ada.room.flush()
        there = bench.store.keys

        await ada.send(Do("finish"))
        await until(lambda: ada.room.left is not None and bob.room.left is not None)
        await ada.session.close()
        await bob.session.close()
        await a_moment()

        assert len(there) == 5
        assert bench.store.keys == []


@in_virtual_time
async def test_a_room_that_ends_while_a_commit_is_in_flight_ends_in_the_store_too() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.store.hold()
        await ada.send(Say("x"))
        await until(lambda: bench.store.is_waiting)

        await ada.send(Do("finish"))
        await a_moment()
        bench.store.release()
        await until(lambda: ada.room.left is not None, within_s=5.0)
        await a_moment()

        assert ada.texts == ["ada:x"]
        assert bench.store.keys_of("room/") == []


@in_virtual_time
async def test_a_session_that_ends_is_deleted() -> None:
    async with Bench(table()) as bench:
        ada, _ = await bench.sit("ada"), await bench.sit("bob")
        await a_moment()
        before = bench.store.keys_of("session/")

        await ada.session.close()
        await a_moment()

        assert len(before) == 2
        assert len(bench.store.keys_of("session/")) == 1


@in_virtual_time
async def test_a_session_that_ends_after_it_left_its_room_is_deleted_while_the_room_is_quiet() -> None:
    async with Bench(table()) as bench:
        ada, _ = await bench.sit("ada"), await bench.sit("bob")
        await ada.room.leave()
        await a_moment()
        before = len(bench.store.keys_of("session/"))

        await ada.session.close()
        await a_moment()

        assert before == 2
        assert len(bench.store.keys_of("session/")) == 1


@in_virtual_time
async def test_a_session_that_left_its_room_outlives_a_crash() -> None:
    async with Bench(table()) as bench:
        ada, _ = await bench.sit("ada"), await bench.sit("bob")
        await ada.room.leave()

        await bench.restart()
        outcome = await ada.back()
        again = bench.reading(ada.session, await ada.session.join(ada.room.id))
        await again.send(Say("hello"))
        await again.has_heard("ada:hello")

        assert outcome.kind == "resumed"


class Chunk(msgspec.Struct):
    text: str


class Map(msgspec.Struct):
    chunks: Parts[Chunk] = msgspec.field(default_factory=Parts)
    note: str = ""
    anything: Any = None


class World(Table):
    state: Map  # type: ignore[assignment]  # another state than its base's

    def on_create(self, config: dict[str, Any]) -> Any:
        self.state = Map()

    def build(self, player: Player[Hero], *names: str) -> None:
        for name in names:
            self.state.chunks[name] = Chunk(f"of {name}")

    def change(self, player: Player[Hero], name: str, text: str) -> None:
        self.state.chunks[name].text = text

    def drop(self, player: Player[Hero], name: str) -> None:
        del self.state.chunks[name]

    def write(self, player: Player[Hero], note: str) -> None:
        self.state.note = note

    def nothing(self, player: Player[Hero]) -> None:
        pass

    def on_leave(self, player: Player[Hero], reason: object) -> Any:
        pass

    def build_and_spoil(self, player: Player[Hero], name: str) -> None:
        self.state.chunks[name] = Chunk(f"of {name}")
        self.state.anything = object()


def beside(bench: Bench, start: int) -> list[str]:
    """What was written beside the room's record since then: the last part of each key."""
    return [key.split("/", 2)[2] for key in bench.store.written_keys(start) if key.count("/") > 1]


@in_virtual_time
async def test_only_the_parts_that_changed_are_written() -> None:
    async with Bench(table(World)) as bench:
        ada = await bench.sit("ada")
        await ada.send(Do("build", ["a", "b", "c"]))
        await ada.room.flush()
        start = len(bench.store.written)
        built = beside(bench, 0)

        await ada.send(Do("change", ["b", "other"]))
        await ada.room.flush()
        changed = beside(bench, start)
        start = len(bench.store.written)
        await ada.send(Do("change", ["b", "other"]), Do("nothing"))
        await ada.room.flush()
        unchanged = beside(bench, start)
        await ada.send(Do("drop", ["c"]))
        await ada.room.flush()
        await bench.restart()
        await ada.back()

        assert (len(built), len(changed), unchanged) == (3, 1, [])
        assert bench.room(ada).state.chunks == {"a": Chunk("of a"), "b": Chunk("other")}


@in_virtual_time
async def test_large_state_is_written_beside_the_record_and_only_when_it_changed() -> None:
    async with Bench(table(World)) as bench:
        ada = await bench.sit("ada")
        await ada.send(Do("write", ["x" * 10_000]))
        await ada.room.flush()
        start = len(bench.store.written)

        await ada.send(*[Do("nothing")] * 5)
        await ada.room.flush()
        quiet = beside(bench, start)
        await bench.restart()
        await ada.back()
        await a_moment()
        claimed = beside(bench, 0)
        note = bench.room(ada).state.note
        await ada.send(Do("write", ["small"]))
        await ada.room.flush()

        assert beside(bench, 0) == ["state"]
        assert (quiet, claimed) == ([], [])
        assert len(note) == 10_000
        assert bench.store.keys_of(f"room/{ada.room.id}/") == []


@in_virtual_time
async def test_state_that_cannot_be_saved_holds_everything_back_until_the_game_repairs_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")

        await ada.send(Say("1"), Do("spoil"), Say("2"))
        await a_moment(1.0)
        spoiled = list(ada.texts)
        await ada.send(Do("repair"))
        await ada.has_heard("ada:2")

        assert spoiled in ([], ["ada:1"])
        assert ada.texts == ["ada:1", "ada:2"]
        complaints = [record for record in caplog.records if "cannot be saved" in record.message]
        assert [record.levelno for record in complaints] == [logging.ERROR]
        assert "object" in complaints[0].message
        assert "field=state.anything" in complaints[0].message
        assert "snapshot() and restore()" in complaints[0].message
        assert "the room can be saved again" in caplog.text


@in_virtual_time
async def test_parts_that_changed_while_the_state_could_not_be_saved_are_saved_after_it() -> None:
    async with Bench(table(World)) as bench:
        ada = await bench.sit("ada")

        await ada.send(Do("build_and_spoil", ["a"]))
        await a_moment(1.0)
        await ada.send(Do("repair"))
        await ada.room.flush()
        await bench.restart()
        await ada.back()

        assert bench.room(ada).state.chunks == {"a": Chunk("of a")}


@in_virtual_time
async def test_a_state_of_an_unsaid_type_is_refused_in_words_when_the_room_is_made() -> None:
    class Vague(Room[Hero]):
        durability = "commit"

        def on_create(self, config: dict[str, Any]) -> Any:
            self.state = Chunk("x")

    async with Bench(Vague) as bench:
        ada = await bench.connect("ada")

        with pytest.raises(Failed, match="state: Chunk"):
            await ada.create("vague")

        await a_moment()
        assert bench.store.keys == []
        assert len(bench.server.rooms) == 0


@in_virtual_time
async def test_a_session_that_goes_from_room_to_room_comes_back_to_the_last_one() -> None:
    class Parting(Table):
        async def on_leave(self, player: Player[Hero], reason: object) -> Any:
            await self.door.wait()

    slow, other = table(Parting), table(name="Other")
    async with Bench(slow, other) as bench:
        ada = await bench.sit("ada")
        await ada.send(Say("x"))
        await ada.has_heard("ada:x")
        slow.door.clear()
        bench.room(ada).player("ada").kick("to the other room")

        seat = bench.reading(ada.session, await ada.session.join_or_create("other"))
        await seat.send(Say("y"))
        await seat.has_heard("ada:y")
        await bench.restart()
        slow.door.set()
        await ada.session.search()
        await seat.send(Say("z"))
        await seat.has_heard("ada:z")

        assert bench.room(seat).state.said == ["ada:y", "ada:z"]


@in_virtual_time
async def test_the_record_of_a_session_names_its_room_while_it_sits_there() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        (key,) = bench.store.keys_of("session/")
        sitting = decode_session(bench.store.value(key))
        await ada.room.leave()
        left = decode_session(bench.store.value(key))

        assert (sitting.player, sitting.room) == ("ada", ada.room.id)
        assert left.room == ""
