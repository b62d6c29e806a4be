"""An orderly stop saves everything, and a restart goes on from there."""

import asyncio
from typing import Any

import pytest

from holdfast import Player, Reason, Spectator
from holdfast.core.records import decode_room, decode_session, seats_of, spectators_of
from tests.server.durability.bench import Bench, a_moment, in_virtual_time, until
from tests.server.durability.faults import Fault
from tests.server.durability.rooms import Do, Hero, Said, Say, Table, table


async def stop_and_start(bench: Bench) -> None:
    await bench.stop()
    await a_moment()
    await bench.start()


@in_virtual_time
async def test_a_restart_in_order_resumes_everybody_with_everything() -> None:
    kind = table()
    async with Bench(kind) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        await ada.send(*(Say(str(number)) for number in range(5)))

        await stop_and_start(bench)
        await ada.send(Say("after"))
        await ada.has_heard("ada:after")
        await bob.has_heard("ada:after")

        assert ada.texts == bob.texts == [*(f"ada:{number}" for number in range(5)), "ada:after"]
        assert ada.kinds == bob.kinds == ["resumed"]
        assert not [line for line in kind.story if line.startswith("leave")]


@in_virtual_time
async def test_seats_that_a_drop_would_free_outlive_a_stop() -> None:
    for settings in ({"keep_before_start": False}, {"disconnect": "hard"}):
        async with Bench(table(**settings)) as bench:
            ada = await bench.sit("ada")
            await ada.send(Say("x"))
            await ada.has_heard("ada:x")

            await stop_and_start(bench)
            await ada.back()
            await a_moment()

            assert ada.room.left is None, settings
            assert [player.id for player in bench.room(ada).players] == ["ada"]


@in_virtual_time
async def test_a_turn_that_is_half_done_is_finished_and_saved_before_the_stop() -> None:
    kind = table()
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        kind.door.clear()
        await ada.send(Do("slow", ["whole"]))
        await a_moment(0.1)

        asyncio.get_running_loop().call_later(1.0, kind.door.set)
        await stop_and_start(bench)
        await ada.has_heard("whole")

        assert bench.room(ada).state.said == ["whole"]


@in_virtual_time
async def test_a_turn_that_takes_too_long_for_the_stop_is_taken_again() -> None:
    kind = table()
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        kind.door.clear()
        await ada.send(Do("slow", ["whole"]))
        await a_moment(0.1)

        await stop_and_start(bench)
        kind.door.set()
        await ada.has_heard("whole")

        assert bench.room(ada).state.said == ["whole"]
        assert ada.texts == ["whole"]


class Bouncer(Table):
    async def slow_kick(self, player: Player[Hero], who: str) -> None:
        self.kick_one(player, who)
        await self.door.wait()


@in_virtual_time
async def test_what_a_turn_sets_off_is_done_before_the_stop() -> None:
    kind = table(Bouncer)
    async with Bench(kind) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        await a_moment()
        kind.door.clear()
        await ada.send(Do("slow_kick", ["bob"]))
        await a_moment(0.1)

        asyncio.get_running_loop().call_later(1.0, kind.door.set)
        await stop_and_start(bench)
        await ada.back()
        await until(lambda: bob.room.left is not None, within_s=60.0)

        assert kind.story.count(f"leave bob {Reason.KICKED}") == 1
        assert bench.room(ada).state.left == ["bob"]


@in_virtual_time
async def test_a_join_that_waits_for_its_turn_during_a_stop_is_carried_out_once() -> None:
    kind = table()
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        client = await bench.connect("bob")
        await a_moment()
        kind.door.clear()
        await ada.send(Do("slow", ["whole"]))
        await a_moment(0.1)
        joined: list[Any] = []

        async def join() -> None:
            try:
                joined.append(await client.join(ada.room.id))
            except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
                joined.append(error)

        joining = asyncio.create_task(join())
        await a_moment(0.1)
        asyncio.get_running_loop().call_later(1.0, kind.door.set)
        await stop_and_start(bench)
        await ada.has_heard("whole")
        await joining
        seated = [player.id for player in bench.room(ada).players]

        # Either it was not heard of, and bob asks again, or it was carried out whole.
        assert kind.story.count("join bob") == seated.count("bob")
        assert ("bob" in seated) == (not isinstance(joined[0], Exception))


class Doorway(Table):
    """Takes its time with newcomers."""

    max_spectators = 1

    async def on_join(self, player: Player[Hero]) -> None:
        await self.door.wait()

    async def on_spectate(self, spectator: Spectator) -> None:
        await self.door.wait()


class Cellar(Table):
    """Ends with its server, and takes its time for it."""

    durability = "memory"  # type: ignore[assignment]  # of a literal that is narrower there

    async def on_destroy(self) -> None:
        await a_moment(1.0)


@pytest.mark.parametrize("purpose", ["seat", "spectator"])
@in_virtual_time
async def test_a_seat_that_the_room_hears_of_during_a_stop_is_saved_with_its_session(purpose: str) -> None:
    kind = table(Doorway)
    async with Bench(kind, table(Cellar, name="Cellar")) as bench:
        await bench.sit("dan", "cellar")
        ada, bob, cleo = await bench.sit("ada"), await bench.connect("bob"), await bench.connect("cleo")
        key = f"room/{ada.room.id}"
        await a_moment()
        kind.door.clear()
        # The room is busy with cleo, and hears of bob after her.
        join = bob.join if purpose == "seat" else bob.spectate
        asking = [asyncio.create_task(cleo.join(ada.room.id))]
        await a_moment(0.1)
        asking.append(asyncio.create_task(join(ada.room.id)))
        await a_moment(0.1)

        # His request is abandoned, and he is saved without the seat, of which the room has not heard.
        asyncio.get_running_loop().call_later(0.1, kind.door.set)
        await bench.stop()

        room, session = decode_room(bench.store.value(key)), decode_session(bench.store.value(f"session/{bob.id}"))
        seats = (seats_of if purpose == "seat" else spectators_of)(room, key, {})
        assert bob.id in {seat.session for seat in seats}
        assert ada.room.id == (session.room if purpose == "seat" else session.spectating)
        for each in asking:
            each.cancel()


@in_virtual_time
async def test_a_stop_during_a_refusal_gives_up_in_time_and_loses_nothing_acknowledged() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await ada.send(Say("1"))
        await ada.has_heard("ada:1")
        bench.store.fault = lambda _: Fault.UNAVAILABLE
        await ada.send(Say("2"))
        await a_moment(0.5)

        await stop_and_start(bench)
        await ada.has_heard("ada:2")

        assert ada.texts == ["ada:1", "ada:2"] == bench.room(ada).state.said


@in_virtual_time
async def test_who_knocks_during_a_stop_does_not_keep_the_room_from_being_saved() -> None:
    kind = table(durability="checkpoint", checkpoint_s=60.0)
    async with Bench(kind, table(name="Other")) as bench:
        ada, cleo = await bench.sit("ada"), await bench.sit("cleo", "other")
        bob = await bench.connect("bob")
        await a_moment()
        await ada.send(Say("x"))
        await ada.has_heard("ada:x")
        bench.store.latency_s = 0.5
        await cleo.send(Say("so that a commit is in flight"))
        await a_moment(0.1)

        stopping = asyncio.create_task(bench.stop())
        await a_moment(0.1)
        knocking = asyncio.create_task(bob.join(ada.room.id))
        await stopping
        await bench.start()
        outcome = await ada.back()
        knocking.cancel()

        assert outcome.kind == "resumed"
        assert bench.room(ada).state.said == ["ada:x"]


@in_virtual_time
async def test_a_session_that_changes_during_a_stop_before_its_room_has_heard_of_it_is_saved_at_once() -> None:
    kind = table(keep_before_start=True)
    async with Bench(kind) as bench:
        ada, client = await bench.sit("ada"), await bench.connect("bob")
        loop = asyncio.get_running_loop()
        await a_moment()
        kind.door.clear()
        await ada.send(Do("slow", ["whole"]))
        await a_moment(0.1)
        joining = asyncio.create_task(client.join(ada.room.id))
        await a_moment(0.1)
        bob = bench.server.sessions.get(client.id)
        assert bob is not None
        # The room is saved without him, and while the store is busy with it, he changes.
        bench.store.hold()
        loop.call_later(0.1, kind.door.set)
        loop.call_later(0.2, bob.send, Said("hello"))
        loop.call_later(0.3, bench.store.release)
        began = loop.time()

        await bench.stop()

        assert loop.time() - began < 1.0, "it waited for a turn that a server which stops does not take"
        joining.cancel()


@in_virtual_time
async def test_a_stop_does_not_wait_for_a_session_whose_room_cannot_be_saved() -> None:
    async with Bench(table()) as bench:
        ada, client = await bench.sit("ada"), await bench.connect("bob")
        bench.room(ada).state.said = [object()]
        joining = asyncio.create_task(client.join(ada.room.id))
        await a_moment(0.1)
        loop = asyncio.get_running_loop()
        began = loop.time()

        await bench.stop()

        assert loop.time() - began < 1.0, "it waited for what a room that cannot be saved will never be"
        joining.cancel()
