"""Seats of durable rooms: taken over, refused, dropped in the doorway, overflown, and then the server crashes."""

import asyncio
import contextlib
from typing import Any

import pytest

from holdfast import Limits, Player, Refused, Reset, Resynced
from tests.saved_sessions import storage_of, suspended
from tests.server.durability.bench import Bench, a_moment, in_virtual_time, until
from tests.server.durability.rooms import Do, Hero, Said, Say, Table, table


class Doorway(Table):
    """Takes its time with newcomers, and throws some of them out in the doorway."""

    async def on_join(self, player: Player[Hero]) -> Any:
        self.story.append(f"join {player.id}")
        await self.door.wait()
        if player.id == "bob":
            raise Refused("not bob")
        if player.id == "kim":
            player.kick("not kim")


@pytest.mark.parametrize("name", ["bob", "kim"])
@in_virtual_time
async def test_a_room_goes_on_after_it_turned_somebody_away_in_the_doorway(name: str) -> None:
    async with Bench(table(Doorway)) as bench:
        ada = await bench.sit("ada")
        other = await bench.connect(name)

        with contextlib.suppress(Refused):
            seat = await other.join(ada.room.id)
            await until(lambda: seat.left is not None)
        await ada.send(Say("on"))

        await until(lambda: "ada:on" in ada.texts, within_s=5.0)
        assert [player.id for player in bench.room(ada).players] == ["ada"]


class Bouncer(Table):
    """Takes its time to throw somebody out."""

    async def bounce(self, player: Player[Hero], who: str) -> None:
        self.story.append("bounce")
        await self.door.wait()
        self.kick_one(player, who)


@in_virtual_time
async def test_a_room_goes_on_after_somebody_was_thrown_out_who_was_just_about_to_leave() -> None:
    kind = table(Bouncer)
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        bob = await bench.connect("bob")
        seat = await bob.join(ada.room.id)
        kind.door.clear()
        # The first of them has to be saved when the second is over.
        await ada.send(Say("first"), Do("bounce", ["bob"]))
        await until(lambda: "bounce" in kind.story)
        leaving = asyncio.create_task(seat.leave())
        await a_moment()

        kind.door.set()

        async with asyncio.timeout(5.0):
            await leaving
            await ada.send(Say("on"))
            await ada.has_heard("ada:on")


@pytest.mark.parametrize("keep", [True, False])
@in_virtual_time
async def test_a_room_goes_on_after_somebody_dropped_in_the_doorway(*, keep: bool) -> None:
    kind = table(Doorway, keep_before_start=keep)
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        cleo = await bench.connect("cleo")
        kind.door.clear()
        joining = asyncio.create_task(cleo.join(ada.room.id))
        await until(lambda: "join cleo" in kind.story)

        bench.link(cleo).cut()
        await a_moment(2.0)
        kind.door.set()
        try:
            seat = await joining
        except Refused:
            seat = await cleo.join(ada.room.id)
        sitting = bench.reading(cleo, seat)
        await sitting.send(Say("here"))
        await until(lambda: "cleo:here" in ada.texts, within_s=20.0)

        await bench.restart()
        await sitting.send(Say("still"))
        await sitting.has_heard("cleo:still")


@in_virtual_time
async def test_a_crash_in_the_doorway_costs_the_room_nothing() -> None:
    kind = table(Doorway)
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        cleo = await bench.connect("cleo")
        await a_moment()
        kind.door.clear()
        joining = asyncio.create_task(cleo.join(ada.room.id))
        await until(lambda: "join cleo" in kind.story)

        await bench.restart()
        kind.door.set()
        with pytest.raises(Reset):
            await joining
        await ada.back()
        seated = [player.id for player in bench.room(ada).players]
        await cleo.join(ada.room.id)

        assert seated == ["ada"]


@in_virtual_time
async def test_a_seat_that_was_taken_over_is_the_newcomers_after_a_crash() -> None:
    kind = table()
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        await ada.send(Say("1"))
        await ada.has_heard("ada:1")

        again = await bench.sit("ada")
        await again.send(Say("2"))
        await again.has_heard("ada:2")
        await bench.restart()
        await again.send(Say("3"))
        await again.has_heard("ada:3")

        assert bench.room(again).state.said == ["ada:1", "ada:2", "ada:3"]
        assert bench.room(again).player("ada").data.count == 3
        assert again.kinds == ["resumed"]
        assert len(bench.store.keys_of("session/")) == 1


class Chatty(Table):
    def flood(self, player: Player[Hero], who: str, count: int) -> None:
        other = self.player(who)
        assert other is not None
        for number in range(count):
            other.send(Said(str(number)))


@in_virtual_time
async def test_a_stream_that_overflowed_is_resynced_after_a_crash_and_goes_on() -> None:
    kind = table(Chatty)
    async with Bench(kind, limits=Limits(kept_messages_max=100, window_messages_max=50)) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        await a_moment()
        bench.dialer(bob).is_down = True
        bench.link(bob).cut()
        await a_moment()
        await ada.send(Do("flood", ["bob", 500]))
        await ada.room.flush()

        await bench.restart()
        bench.dialer(bob).is_down = False
        outcome = await bob.back()
        await ada.send(Say("on"))
        await bob.has_heard("ada:on")

        assert outcome.kind == "resynced"
        assert [type(message) for message in bob.heard[:1]] == [Resynced]
        assert bob.texts == ["state 0", "ada:on"]


@pytest.mark.parametrize("crash_first", [True, False])
@in_virtual_time
async def test_a_resync_and_a_crash_hide_nothing(*, crash_first: bool) -> None:
    kind = table(Chatty)
    async with Bench(kind, limits=Limits(kept_messages_max=100, window_messages_max=50)) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        for round_ in range(3):
            await a_moment()
            bench.dialer(bob).is_down = True
            bench.link(bob).cut()
            await a_moment()
            await ada.send(Do("flood", ["bob", 500]))
            await ada.room.flush()
            if crash_first:
                await bench.restart()
            bench.dialer(bob).is_down = False
            await until(lambda: bob.session.connected)
            await ada.send(Say(f"on {round_}"))
            await bob.has_heard(f"ada:on {round_}")
            if not crash_first:
                await bench.restart()
            await ada.send(Say(f"after {round_}"))
            await bob.has_heard(f"ada:after {round_}")

        assert [text for text in bob.texts if text.startswith("ada")] == bench.room(ada).state.said


@in_virtual_time
async def test_a_client_that_dies_too_goes_on_from_its_saved_state() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await ada.send(Say("1"))
        await ada.has_heard("ada:1")
        state = await suspended(ada.session)
        bench.crash()
        await bench.start()

        client = await bench.connect("ada", saved=storage_of(state))
        assert client.room is not None
        again = bench.reading(client, client.room)
        await again.send(Say("2"))
        await again.has_heard("ada:2")

        assert client.outcome is not None
        assert client.outcome.kind == "resumed"
        assert bench.room(again).state.said == ["ada:1", "ada:2"]


@in_virtual_time
async def test_a_client_that_speaks_json_comes_back_too() -> None:
    async with Bench(table()) as bench:
        ada, bob = await bench.sit("ada", codec="holdfast.v1.json"), await bench.sit("bob")
        await ada.send(Say("1"))
        await bench.restart()
        await ada.send(Say("2"))
        await ada.has_heard("ada:2")
        await bob.has_heard("ada:2")

        assert ada.texts == bob.texts == ["ada:1", "ada:2"]


@in_virtual_time
async def test_a_session_may_sit_in_a_memory_room_between_two_durable_ones() -> None:
    lounge = table(name="Lounge", durability="memory")
    async with Bench(table(), lounge) as bench:
        ada, _ = await bench.sit("ada"), await bench.sit("bob")
        await ada.room.leave()
        seat = bench.reading(ada.session, await ada.session.join_or_create("lounge"))
        await seat.send(Say("x"))
        await seat.has_heard("ada:x")

        await bench.restart()
        await until(lambda: seat.room.left is not None)
        await until(lambda: ada.session.connected)
        again = bench.reading(ada.session, await ada.session.join(ada.room.id))
        await again.send(Say("back"))
        await again.has_heard("ada:back")

        assert bench.room(again).state.said == ["ada:back"]
