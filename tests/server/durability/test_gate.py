"""Nothing that a commit room says or acknowledges leaves before the turn it came from is saved (R3)."""

import asyncio
from random import Random
from typing import Any

from holdfast import Auth, Limits, Player, Refused
from holdfast.schemas.frames import Data, Hello, Ping
from holdfast.testing import Network
from tests.server.durability.bench import Bench, a_moment, in_virtual_time, until
from tests.server.durability.rooms import Do, Glimpse, Hero, Said, Say, Table, table


@in_virtual_time
async def test_a_message_and_its_acknowledgement_leave_only_after_the_commit() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.store.hold()

        await ada.send(Say("1"), Say("2"))
        await a_moment(1.5)
        before = (list(ada.texts), ada.session.protocol.unacked(ada.room.channel))
        bench.store.release()
        await a_moment(0.0)
        await ada.room.flush()

        assert before == ([], 2)
        await ada.has_heard("ada:2")
        assert ada.texts == ["ada:1", "ada:2"]
        assert not ada.session.protocol.unacked(ada.room.channel)


@in_virtual_time
async def test_nothing_but_pings_arrives_while_a_commit_is_held() -> None:
    async with Bench(table(), limits=Limits(store_patience_s=60.0, ping_s=0.5, commit_timeout_s=60.0)) as bench:
        ada = await bench.raw()
        ada.say(Hello(Auth("name", "ada")))
        await ada.join("table")
        await a_moment(0.01)
        bench.store.hold()
        start = len(ada.heard)

        ada.send(1, Say("1"))
        ada.send(2, Say("2"))
        await a_moment(2.0)
        while_held = ada.heard[start:]
        bench.store.release()
        await ada.hear(Data)
        arrived = [frame for frame in ada.heard[start + len(while_held) :] if not isinstance(frame, Ping)]

        assert {type(frame) for frame in while_held} == {Ping}
        assert {frame.ack for frame in while_held if isinstance(frame, Ping)} == {0}
        assert [(frame.seq, frame.ack) for frame in arrived if isinstance(frame, Data)] == [(1, 2), (2, 2)]


@in_virtual_time
async def test_turns_during_a_commit_ride_in_the_next_and_one_commit_is_in_flight() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.store.hold()
        await ada.send(Say("first"))
        await until(lambda: bench.store.is_waiting)
        commits = bench.store.commits

        for number in range(20):
            await ada.send(Say(str(number)))
            await a_moment(0.02)
        began = bench.store.commits - commits
        bench.store.release()
        await ada.has_heard("ada:19")

        assert began == 0
        assert bench.store.commits - commits == 1
        assert bench.store.in_flight_most == 1
        assert ada.texts == ["ada:first", *(f"ada:{number}" for number in range(20))]


@in_virtual_time
async def test_what_is_only_true_now_passes_the_gate() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.store.hold()

        await ada.send(Say("slow"), Do("glimpse", ["quick"]))
        await until(lambda: Glimpse("quick") in ada.heard)

        assert ada.texts == []
        bench.store.release()
        await ada.has_heard("ada:slow")


class Greeting(Table):
    def on_join(self, player: Player[Hero]) -> Any:
        super().on_join(player)
        player.send(Said("welcome"))


@in_virtual_time
async def test_a_seat_its_reply_and_the_greeting_wait_for_the_commit() -> None:
    kind = table(Greeting)
    async with Bench(kind) as bench:
        room = await bench.server.create_room("table")
        client = await bench.connect("ada")
        bench.store.hold()

        joining = asyncio.create_task(client.join(room.id))
        await a_moment(1.0)
        before = (joining.done(), client.room, list(kind.story))
        bench.store.release()
        ada = bench.reading(client, await joining)

        assert before == (False, None, ["join ada"])
        await ada.has_heard("welcome")


@in_virtual_time
async def test_the_reply_to_a_leave_waits_for_the_commit() -> None:
    async with Bench(table()) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.store.hold()

        leaving = asyncio.create_task(ada.room.leave())
        await a_moment(1.0)
        before = leaving.done()
        bench.store.release()
        await leaving

        assert not before


@in_virtual_time
async def test_a_reply_that_came_up_during_a_commit_waits_for_the_next_one() -> None:
    async with Bench(table()) as bench:
        room = await bench.server.create_room("table")
        client = await bench.connect("ada")
        await a_moment()
        replies: list[str] = []

        async def ask(what: str, request: Any) -> None:
            await request
            replies.append(what)

        bench.store.hold()
        joining = asyncio.create_task(ask("join", client.join(room.id)))
        await until(lambda: bench.store.is_waiting)
        searching = asyncio.create_task(ask("search", client.search()))
        await a_moment(0.2)
        bench.store.on_moment = lambda _number, _moment: bench.store.hold()
        bench.store.release()
        await a_moment(0.2)
        heard_with_first = list(replies)
        bench.store.on_moment = lambda _number, _moment: None
        bench.store.release()
        await joining
        await searching

        assert "search" not in heard_with_first


@in_virtual_time
async def test_a_welcome_does_not_leave_with_a_commit_that_began_before_it() -> None:
    async with Bench(table(), network=Network(Random(1), latency_s=0.01)) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        bench.link(ada).cut()
        await until(lambda: bench.server.counters.drops == 1)
        await a_moment(0.001)
        bench.store.hold()
        await until(lambda: bench.store.is_waiting)

        # The session and its new token are in the commit that is held. It drops and comes back once more.
        bench.link(ada).cut()
        await until(lambda: bench.server.counters.resumed == 2)
        bench.store.on_moment = lambda _number, _moment: bench.store.hold()
        bench.store.release()
        await a_moment(0.1)
        early = len(ada.outcomes)
        bench.store.on_moment = lambda _number, _moment: None
        bench.store.release()
        await ada.back()

        assert early == 0


@in_virtual_time
async def test_a_memory_room_is_not_delayed_by_a_stuck_store() -> None:
    lounge = table(name="Lounge", durability="memory")
    async with Bench(table(), lounge) as bench:
        ada = await bench.sit("ada")
        bob = await bench.sit("bob", "lounge")
        await a_moment()
        bench.store.hold()
        await ada.send(Say("stuck"))
        await a_moment()

        cleo = await bench.sit("cleo", "lounge")
        await bob.send(Say("hello"))
        await cleo.has_heard("bob:hello")

        assert ada.texts == []
        bench.store.release()
        await ada.has_heard("ada:stuck")


@in_virtual_time
async def test_a_broadcast_reaches_everybody_after_one_commit() -> None:
    async with Bench(table()) as bench:
        players = [await bench.sit(name) for name in ("ada", "bob", "cleo")]
        await a_moment()
        bench.store.hold()

        await players[0].send(Say("all"))
        await a_moment(1.0)
        early = [player.texts for player in players if player.texts]
        bench.store.release()
        for player in players:
            await player.has_heard("ada:all")

        assert early == []


@in_virtual_time
async def test_a_turn_that_is_half_done_is_never_saved_and_other_rooms_are() -> None:
    kind, other = table(), table(name="Other")
    async with Bench(kind, other) as bench:
        ada = await bench.sit("ada")
        bob = await bench.sit("bob", "other")
        await a_moment()
        kind.door.clear()

        # The commit that is held lets both rooms change again; when it is over, one of them is in the middle of a turn.
        bench.store.hold()
        await bob.send(Say("first"))
        await until(lambda: bench.store.is_waiting)
        await ada.send(Say("before"), Do("slow", ["whole"]))
        await bob.send(Say("meanwhile"))
        await until(lambda: "half" in bench.room(ada).state.said)
        bench.store.release()
        await bob.has_heard("bob:meanwhile")
        await a_moment()
        half = b"half" in bench.store.value(f"room/{ada.room.id}")
        kind.door.set()
        await ada.has_heard("whole")

        assert not half
        assert not any(b"half" in (write.value or b"") for each in bench.store.written for b in each for write in b)


class Picky(Table):
    def on_join(self, player: Player[Hero]) -> Any:
        super().on_join(player)
        if player.id == "bob":
            raise Refused("not bob")


@in_virtual_time
async def test_a_room_goes_on_being_saved_after_it_refused_a_player() -> None:
    async with Bench(table(Picky)) as bench:
        ada = await bench.sit("ada")
        bob = await bench.connect("bob")

        refused = ""
        try:
            async with asyncio.timeout(5.0):
                await bob.join(ada.room.id)
        except Refused as error:
            refused = str(error)
        await ada.send(Say("still"))

        await until(lambda: "ada:still" in ada.texts, within_s=5.0)
        assert refused == "not bob"
