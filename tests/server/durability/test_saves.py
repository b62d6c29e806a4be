"""`Room.save`: players' data handed to the game, one save at a time for each, the newest wins."""

import asyncio
from typing import Any, ClassVar

import pytest

from tests.log_lines import line_of
from tests.server.durability.bench import Bench, a_moment, in_virtual_time, until
from tests.server.durability.rooms import Do, Hero, Say, Table, table


class Saving(Table):
    saved: ClassVar[list[tuple[str, int]]]
    running: ClassVar[list[int]]
    slow: ClassVar[asyncio.Event]  # type: ignore[assignment]  # not the base's method here
    fails: ClassVar[list[bool]]

    async def save(self, player_id: str, data: Hero) -> Any:
        self.running.append(self.running[-1] + 1)
        try:
            count = data.count
            await self.slow.wait()
            assert data.count == count
            if self.fails and self.fails.pop():
                raise ConnectionError("the database is away")
            self.saved.append((player_id, count))
        finally:
            self.running.append(self.running[-1] - 1)


def saving(**settings: Any) -> type[Any]:
    slow = asyncio.Event()
    slow.set()
    return table(Saving, saved=[], running=[0], slow=slow, fails=[], **settings)


@pytest.mark.parametrize("durability", ["memory", "checkpoint", "commit"])
@in_virtual_time
async def test_a_players_data_is_saved_on_a_drop_and_on_a_leave(durability: str) -> None:
    kind = saving(durability=durability)
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        await ada.send(Say("1"))
        await ada.has_heard("ada:1")

        bench.link(ada).cut()
        await ada.back()
        dropped = list(kind.saved)
        await ada.send(Say("2"))
        await ada.has_heard("ada:2")
        await ada.room.leave()
        await a_moment()

        assert dropped == [("ada", 1)]
        assert kind.saved == [("ada", 1), ("ada", 2)]


@in_virtual_time
async def test_everybody_is_saved_at_the_rooms_rate() -> None:
    kind = saving(save_s=10.0)
    async with Bench(kind) as bench:
        ada, _ = await bench.sit("ada"), await bench.sit("bob")
        await ada.send(Say("1"))
        await a_moment(25.0)

        assert kind.saved == [("ada", 1), ("bob", 0)] * 2


@in_virtual_time
async def test_one_save_runs_at_a_time_with_a_copy_and_the_newest_wins() -> None:
    kind = saving(save_s=1.0)
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        kind.slow.clear()
        for number in range(5):
            await ada.send(Say(str(number)))
            await a_moment(1.0)

        running = max(kind.running)
        kind.slow.set()
        await a_moment(0.2)

        assert running == 1
        assert len(kind.saved) == 2
        assert kind.saved[0] < kind.saved[1]
        assert kind.saved[1] == ("ada", 5)


@in_virtual_time
async def test_a_save_that_fails_is_logged_and_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    kind = saving(save_s=1.0)
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        kind.fails.append(True)
        await a_moment(2.5)
        await ada.send(Say("on"))
        await ada.has_heard("ada:on")

        assert len(kind.saved) == 1
        lines = [line_of(record)[1] for record in caplog.records]
        assert any((line.get("where"), line.get("player")) == ("save", "ada") for line in lines)


@in_virtual_time
async def test_who_leaves_a_room_that_ends_with_them_is_saved() -> None:
    kind = saving(empty_ttl_s=0.0)
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        await ada.send(Say("1"))
        await ada.has_heard("ada:1")
        kind.slow.clear()

        await ada.room.leave()
        await a_moment()
        kind.slow.set()
        await a_moment()

        assert kind.saved == [("ada", 1)]


@pytest.mark.parametrize("durability", ["memory", "commit"])
@in_virtual_time
async def test_everybody_in_a_room_that_closes_is_saved(durability: str) -> None:
    kind = saving(durability=durability)
    async with Bench(kind) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        await ada.send(Say("1"), Do("finish"))
        await until(lambda: bob.room.left is not None)
        await a_moment()

        assert sorted(kind.saved) == [("ada", 1), ("bob", 0)]


@in_virtual_time
async def test_who_is_leaving_when_the_server_has_no_more_time_is_saved() -> None:
    async def on_leave(*_: Any) -> None:
        await asyncio.Event().wait()

    kind = saving(durability="memory", on_leave=on_leave)
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        await bench.sit("bob")
        await ada.send(Say("1"))
        await ada.has_heard("ada:1")

        await bench.stop()

        assert sorted(kind.saved) == [("ada", 1), ("bob", 0)]
