"""Corners of durable rooms where something could get stuck, be forgotten, or be written and never read again."""

import asyncio
from typing import Any, ClassVar

import msgspec
import pytest

from holdfast import Effect, Message, Parts, Player, Refused, SeatLeft
from holdfast.core.session import seat_of
from holdfast.server.durability.gate import GatedOutlet
from tests.server.durability.bench import Bench, a_moment, in_virtual_time, until
from tests.server.durability.rooms import Board, Do, Hero, Said, Say, Table, table


@in_virtual_time
async def test_a_room_that_never_rests_is_saved_all_the_same() -> None:
    class Slow(Table):
        async def said(self, player: Player[Hero], say: Say) -> Any:
            await asyncio.sleep(0.01)
            return super().said(player, say)

    async with Bench(table(Slow)) as bench:
        ada = await bench.sit("ada")
        for number in range(200):
            await ada.send(Say(str(number)))

        await until(lambda: "ada:0" in ada.texts)

        assert len(bench.room(ada).state.said) < 20


class Grid(msgspec.Struct):
    cells: Parts[Hero]
    said: list[str] = []


@in_virtual_time
async def test_a_part_may_have_a_long_name() -> None:
    class Lettered(Table):
        state: Grid  # type: ignore[assignment]

        def on_create(self, config: dict[str, Any]) -> Any:
            self.state = Grid(Parts())

        def name_cell(self, player: Player[Hero], name: str) -> None:
            self.state.cells[name] = Hero(7)
            player.send(Said("named"))

    async with Bench(table(Lettered)) as bench:
        ada = await bench.sit("ada")
        await ada.send(Do("name_cell", ["ä" * 500]))
        await ada.has_heard("named")

        await bench.restart()
        await ada.back()

        assert bench.fatal == []
        assert bench.room(ada).state.cells == {"ä" * 500: Hero(7)}


@pytest.mark.parametrize("mistake", ["data", "state", "properties", "max_players", "parts"])
@in_virtual_time
async def test_what_could_not_be_read_again_does_not_count_as_saved(mistake: str) -> None:
    class Careless(Table):
        def err(self, player: Player[Hero]) -> None:
            match mistake:
                case "data":
                    player.data.count = 0.5  # type: ignore[assignment]
                case "state":
                    self.state.left = 7  # type: ignore[assignment]
                case "properties":
                    self.properties[1] = "one"  # type: ignore[index]
                case "max_players":
                    self.max_players = 7.5  # type: ignore[assignment]
                case _:
                    self.state.anything = Parts({"a": Hero()})

        def repair(self, player: Player[Hero]) -> None:
            player.data.count, self.state = 1, Board()
            self.properties, self.max_players = {}, 8

    async with Bench(table(Careless)) as bench:
        ada = await bench.sit("ada")
        await ada.send(Do("err"), Say("too early"))
        await a_moment(5.0)
        heard = list(ada.texts)
        await ada.send(Do("repair"), Say("now"))
        await ada.has_heard("ada:now")

        await bench.restart()
        await ada.back()

        assert heard == []
        assert ada.texts == ["ada:too early", "ada:now"]
        assert bench.room(ada).state.said == ["ada:now"]


@pytest.mark.parametrize("mistake", [None, "ada"])
@in_virtual_time
async def test_data_that_cannot_be_read_again_is_found_whatever_bytes_it_has(
    mistake: Any,
) -> None:
    class Careless(Table):
        def err(self, player: Player[Hero]) -> None:
            player.send(Said("too early"))
            player.data = mistake

        def repair(self, player: Player[Hero]) -> None:
            player.data = Hero(7)

    async with Bench(table(Careless)) as bench:
        ada = await bench.sit("ada")
        await ada.send(Do("err"))
        await a_moment(5.0)
        heard = list(ada.texts)
        await ada.send(Do("repair"))
        await ada.has_heard("too early")

        await bench.restart()
        await ada.back()

        assert heard == []
        assert bench.room(ada).player("ada").data == Hero(7)


@in_virtual_time
async def test_a_backlog_is_encoded_when_it_changes_not_with_every_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Bench(table()) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        bench.link(bob).cut()
        await ada.send(*(Say("x" * 100) for _ in range(50)))
        await ada.room.flush()
        outlet = seat_of(bench.room(ada).player("bob")).outlet
        record, encoded = GatedOutlet.record, 0

        def counted(each: GatedOutlet) -> Any:
            nonlocal encoded
            encoded += each is outlet
            return record(each)

        monkeypatch.setattr(GatedOutlet, "record", counted)

        await ada.send(*(Do("glimpse", ["x"]) for _ in range(3)))
        await ada.room.flush()
        untouched = encoded
        await ada.send(Say("one more"))
        await ada.room.flush()
        touched = encoded
        bench.crash()
        await bench.start()
        await ada.back()
        await bob.back()
        await bob.has_heard("ada:one more")

        assert (untouched, touched) == (0, 1)
        assert bob.texts == [*["ada:" + "x" * 100] * 50, "ada:one more"]


@in_virtual_time
async def test_what_is_said_outside_a_turn_leaves_too() -> None:
    class Outside(Table):
        def go(self, player: Player[Hero]) -> None:
            self.spawn(self.say_later())

        async def say_later(self) -> None:
            await asyncio.sleep(1.0)
            self.broadcast(Said("from outside"))

    async with Bench(table(Outside)) as bench:
        ada = await bench.sit("ada")
        await ada.send(Do("go"))

        await ada.has_heard("from outside")


@in_virtual_time
async def test_the_last_words_before_a_session_is_ended_arrive_after_the_commit() -> None:
    class Final(Table):
        def over(self, player: Player[Hero]) -> None:
            player.send(Said("you won"))
            player.session.end("game over")

    async with Bench(table(Final)) as bench:
        ada = await bench.sit("ada")
        bench.store.hold()
        await ada.send(Do("over"))
        await a_moment()
        heard, is_connected = list(ada.texts), ada.session.connected
        bench.store.release()
        await ada.has_heard("you won")
        await until(lambda: not ada.session.connected)

        assert (heard, is_connected) == ([], True)
        assert bench.store.keys_of("session/") == []


@in_virtual_time
async def test_an_effect_that_is_cancelled_from_within_is_tried_again() -> None:
    class Paying(Table):
        def settle(self, player: Player[Hero]) -> None:
            self.effect("pay")

    attempts: list[int] = []

    async def pay(effect: Effect) -> None:
        attempts.append(effect.attempt)
        if effect.attempt == 1:
            raise asyncio.CancelledError

    async with Bench(table(Paying), effects={"pay": pay}) as bench:
        ada = await bench.sit("ada")
        await ada.send(Do("settle"))

        await until(lambda: attempts == [1, 2])
        await until(lambda: bench.store.keys_of("effect/") == [])


@in_virtual_time
async def test_a_room_whose_data_raises_while_it_is_read_is_set_aside_alone() -> None:
    class Picky(msgspec.Struct):
        is_picky: ClassVar[bool] = False

        def __post_init__(self) -> None:
            if self.is_picky:
                raise KeyError("not today")

    class Choosy(Table):
        state: Picky  # type: ignore[assignment]

        def on_create(self, config: dict[str, Any]) -> Any:
            self.state = Picky()

    async with Bench(table(Choosy), table(name="Other")) as bench:
        broken = await bench.server.create_room("table")
        other = await bench.server.create_room("other")
        entry = bench.data.entries[f"room/{broken.id}"]
        Picky.is_picky = True
        await bench.restart()

        assert bench.server.rooms.get(other.id) is not None
        assert bench.server.rooms.get(broken.id) is None
        assert bench.data.entries[entry.key] == entry
        recovery = bench.server.parts.recovery
        assert recovery is not None
        assert list(recovery.set_aside) == [entry.key]


@in_virtual_time
async def test_an_agent_of_a_room_that_is_elsewhere_is_told() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        agent = bench.server.open_agent("robot")
        seat = await agent.join(ada.room.id)
        await a_moment()
        bench.store.intrude(f"room/{ada.room.id}")
        heard: list[Message] = []

        async def read() -> None:
            heard.extend([message async for message in seat])

        await ada.send(Say("x"))
        await asyncio.wait_for(read(), 60.0)

        assert isinstance(seat.left, SeatLeft)
        assert seat.left.reason == "moved"


@in_virtual_time
async def test_a_room_that_closes_while_it_is_made_is_not_found() -> None:
    class Fleeting(Table):
        def on_created(self) -> Any:
            self.after(0.0, self.close)

    async with Bench(table(Fleeting)) as bench:
        bench.store.latency_s = 1.0

        with pytest.raises(Refused):
            await bench.server.create_room("table")

        await a_moment(5.0)
        assert len(bench.server.rooms) == 0
        assert bench.store.keys_of("room/") == []


@in_virtual_time
async def test_what_was_said_before_a_leave_is_saved_before_the_next_seat_is_taken() -> None:
    class Parting(Table):
        async def on_leave(self, player: Player[Hero], reason: object) -> Any:
            await self.door.wait()

    slow, other = table(Parting), table(name="Other")
    async with Bench(slow, other) as bench:
        ada = await bench.sit("ada")
        slow.door.clear()
        await ada.send(Say("before"))
        leaving = asyncio.create_task(ada.room.leave())
        joining = asyncio.create_task(ada.session.join_or_create("other"))
        await a_moment()
        was_early = joining.done()
        slow.door.set()
        await leaving
        await joining

        assert not was_early
        await bench.restart()
        left = bench.server.rooms.get(ada.room.id)
        assert left is None or left.state.said == ["ada:before"]
