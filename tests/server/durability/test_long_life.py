"""A long life costs no more than a short one: a commit writes what has changed, and nothing piles up."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import Limits, Player, Room
from holdfast.core.records import VERSION, decode_room, seats_of
from holdfast.stores.port import ABSENT, Write
from tests.server.durability.bench import Bench, Sitting, a_moment, in_virtual_time, until
from tests.server.durability.rooms import Do, Hero, Say, Table, table

# Everything that has settled lies beside the record.
SMALL = Limits(record_list_bytes_max=0, idle_s=0.0)
PATIENT = Limits(idle_s=0.0)
FIRST = Path(__file__).parent / "stores" / "version_1.json"


class Attic(Table):
    """Says little, so that a commit has little to write."""

    def hush(self, player: Player[Hero]) -> None:
        pass

    def count(self, player: Player[Hero]) -> None:
        player.data.count += 1

    def keep(self, player: Player[Hero], *objects: str) -> None:
        for object_id in objects:
            self.own(player, object_id)

    def collect(self, player: Player[Hero], first: int, last: int) -> None:
        for number in range(first, last):
            self.own(None, f"thing {number}")

    def discard(self, player: Player[Hero], object_id: str) -> None:
        self.disown(object_id)

    def arm(self, player: Player[Hero], timers: int) -> None:
        for number in range(timers):
            self.after(1000.0 + number, self.ring, player, number)

    def ring(self, player: Player[Hero], number: int) -> None:
        self.story.append(f"ring {player.id} {number}")


async def quiet(sitting: Sitting, commits: int = 40) -> None:
    """So many commits in which nothing changes but how far this player's messages were applied."""
    for _ in range(commits):
        await sitting.send(Do("hush"))
        await sitting.room.flush()


def written_bytes(bench: Bench, start: int) -> int:
    """What was written of rooms since then."""
    batches = [batch for commit in bench.store.written[start:] for batch in commit]
    writes = [write for batch in batches for write in batch if write.key.startswith("room/")]
    return sum(len(write.key) + len(write.value or b"") for write in writes)


async def cost_of_one_message(bench: Bench, sitting: Sitting) -> int:
    await quiet(sitting)
    start = len(bench.store.written)
    await sitting.send(Do("count"))
    await sitting.room.flush()
    return written_bytes(bench, start)


def beside(bench: Bench, sitting: Sitting, folder: str) -> list[str]:
    return bench.store.keys_of(f"room/{sitting.room.id}/{folder}/")


# What a commit writes


@in_virtual_time
async def test_one_message_in_a_room_of_many_writes_no_more_than_in_a_room_of_few() -> None:
    costs: dict[int, int] = {}
    for players in (4, 60):
        async with Bench(table(Attic, max_players=100), limits=SMALL) as bench:
            ada = await bench.sit("ada")
            for number in range(players - 1):
                agent = bench.server.open_agent(f"npc {number}")
                await agent.join(ada.room.id)

            costs[players] = await cost_of_one_message(bench, ada)

            assert len(bench.room(ada).players) == players

    # A digit or two of numbers that have grown.
    assert costs[60] <= costs[4] + 8


@in_virtual_time
async def test_one_message_of_a_player_who_owns_much_writes_none_of_it() -> None:
    async with Bench(table(Attic), limits=SMALL) as bench:
        ada = await bench.sit("ada")
        few = await cost_of_one_message(bench, ada)
        await ada.send(Do("keep", [f"thing {number}" for number in range(500)]), Do("collect", [1000, 3000]))

        many = await cost_of_one_message(bench, ada)
        start = len(bench.store.written)
        await ada.send(Do("discard", ["thing 7"]))
        await ada.room.flush()
        one_object = written_bytes(bench, start)

        assert many <= few + 8
        # One bucket of 64.
        assert one_object < few + 1500


@in_virtual_time
async def test_one_message_in_a_room_with_many_timers_writes_none_of_them() -> None:
    async with Bench(table(Attic), limits=SMALL) as bench:
        ada = await bench.sit("ada")
        few = await cost_of_one_message(bench, ada)
        await ada.send(Do("arm", [500]))

        many = await cost_of_one_message(bench, ada)

        assert many <= few + 8


class Heirloom(Attic):
    """The room of the trial: whoever comes gets an object of their own, and leaves."""

    def on_join(self, player: Player[Hero]) -> None:
        self.own(player, f"object of {player.id}")

    def on_leave(self, player: Player[Hero], reason: object) -> None:
        pass


@in_virtual_time
async def test_players_who_come_own_something_and_leave_make_no_commit_larger() -> None:
    async with Bench(table(Heirloom)) as bench:
        ada = await bench.sit("ada")
        room = bench.room(ada)
        first = await cost_of_one_message(bench, ada)

        for number in range(100):
            agent = bench.server.open_agent(f"passer-by {number}")
            await agent.join(ada.room.id)
            agent.end()
        last = await cost_of_one_message(bench, ada)

        assert len(room.objects) == 1
        assert last <= first + 8


# What comes back


@in_virtual_time
async def test_what_lies_beside_the_record_comes_back_with_it_in_the_same_order() -> None:
    kind = table(Attic, grace_s=5000.0)
    async with Bench(kind, limits=SMALL) as bench:
        ada, bob, cyd = [await bench.sit(each) for each in ("ada", "bob", "cyd")]
        await bob.send(Do("keep", ["bow"]), Do("count"), Do("arm", [2]))
        await cyd.send(Do("keep", ["axe", "cup"]))
        await cyd.send(Do("collect", [0, 3]))
        await cyd.room.flush()
        await ada.send(Say("one"))
        await ada.has_heard("ada:one")
        await quiet(ada)
        lying = [len(beside(bench, ada, folder)) for folder in ("@seats", "@objects", "@timers")]

        await bench.restart()
        await until(lambda: len(ada.kinds) == len(bob.kinds) == len(cyd.kinds) == 1)
        await bob.send(Say("two"))
        await cyd.has_heard("bob:two")
        room = bench.room(ada)
        await a_moment(2000.0)

        assert lying == [2, 6, 2]
        assert ada.kinds == bob.kinds == cyd.kinds == ["resumed"]
        assert [(player.id, player.data.count) for player in room.players] == [("ada", 1), ("bob", 2), ("cyd", 0)]
        assert [sorted(player.owned) for player in room.players] == [[], ["bow"], ["axe", "cup"]]
        assert {each for each in room.objects if room.owner_of(each) is None} == {"thing 0", "thing 1", "thing 2"}
        assert [line for line in kind.story if line.startswith("ring")] == ["ring bob 0", "ring bob 1"]


@in_virtual_time
async def test_what_is_gone_from_the_room_is_gone_from_beside_its_record() -> None:
    async with Bench(table(Attic), limits=SMALL) as bench:
        ada, bob, _ = [await bench.sit(each) for each in ("ada", "bob", "cyd")]
        await bob.send(Do("keep", ["bow"]))
        await bob.send(Do("arm", [1]))
        await bob.room.flush()
        await quiet(ada)
        before = [len(beside(bench, ada, folder)) for folder in ("@seats", "@objects", "@timers")]

        await bob.room.leave()
        await a_moment(1001.0)
        await ada.room.flush()
        after = [len(beside(bench, ada, folder)) for folder in ("@seats", "@objects", "@timers")]
        await ada.send(Do("finish"))
        await until(lambda: ada.room.left is not None)
        await a_moment()

        assert (before, after) == ([2, 1, 1], [1, 0, 0])
        assert bench.store.keys_of("room/") == []


@in_virtual_time
async def test_a_seat_that_settled_and_changed_again_comes_back_as_it_is_now() -> None:
    async with Bench(table(Attic), limits=SMALL) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        await quiet(ada)
        await bob.send(Do("count"))
        await bob.room.flush()

        await bench.restart()
        await bob.back()

        assert beside(bench, ada, "@seats")
        assert bench.room(ada).player("bob").data.count == 1


# Stores of before


class Older(Attic):
    """As the fixture was made with: 1,000 and 2,000 seconds, and who said what."""

    def ring(self, player: Player[Hero], number: int) -> None:
        self.story.append(f"ring {player.id} {number}")


@pytest.mark.parametrize("pace", ["eager", "lazy"])
@in_virtual_time
async def test_a_store_that_version_1_has_written_opens(pace: Any) -> None:
    kind = table(Older, grace_s=5000.0)
    bench = Bench(kind, recovery=pace, limits=PATIENT)
    # The fixture's server was the first one, and chance must not repeat itself.
    bench.started = 1
    stored = {key: base64.b64decode(value) for key, value in json.loads(FIRST.read_text()).items()}
    bench.data.write([Write(key, value, ABSENT) for key, value in stored.items()])
    async with bench:
        await a_moment(5.0)
        (room,) = bench.server.rooms
        ada = bench.reading(client := await bench.connect("ada"), await client.join(room.id))
        await ada.send(Say("four"))
        await ada.has_heard("ada:four")
        await a_moment(2100.0)

        assert all(value[0] == 1 for value in stored.values())
        assert room.state.said == ["ada:one", "ada:two", "ada:three", "ada:four"]
        assert [(player.id, player.data.count) for player in room.players] == [("ada", 4), ("bob", 0)]
        assert [sorted(player.owned) for player in room.players] == [["shield", "sword"], ["bow"]]
        assert "door" in room.objects
        assert [line for line in kind.story if line.startswith("ring")] == ["ring ada 7", "ring bob 8"]
        channel = room.players[1].session.channel
        assert channel is not None
        assert [name for name, _ in channel.kept_messages()][:2] == ["said", "said"]
        record = bench.store.value(f"room/{room.id}")
        assert record[0] == VERSION == 2
        assert [seat.player for seat in seats_of(decode_room(record), f"room/{room.id}", {})] == ["ada", "bob"]


# The game's own limits


class Hoarder(Room[Hero]):
    durability = "commit"

    def on_join(self, player: Player[Hero]) -> None:
        for number in range(3):
            self.own(player, f"{player.id} {number}")


@in_virtual_time
async def test_what_a_store_has_comes_back_whatever_the_limits_are_by_then() -> None:
    async with Bench(Hoarder) as bench:
        ada = await bench.sit("ada", "hoarder")

        bench.limits = Limits(objects_max=1, owned_per_player_max=1)
        await bench.restart()
        await ada.back()

        assert len(bench.room(ada).player("ada").owned) == 3
