"""After a crash everything is where it was: seats, data, objects, time and chance."""

import asyncio
from typing import Any

import msgspec
import pytest

from holdfast import Player
from holdfast.server.durability.recovery import Pace
from tests.server.durability.bench import Bench, a_moment, in_virtual_time, until
from tests.server.durability.rooms import Board, Do, Hero, Said, Say, Table, table

both_paces = pytest.mark.parametrize("pace", ["eager", "lazy"])


class Wish(msgspec.Struct):
    what: str
    tags: set[int] = set()


class Busy(Table):
    """A table with everything that has to come back."""

    def prepare(self, player: Player[Hero]) -> None:
        self.own(player, "sword")
        self.own(None, "door")
        self.lock()
        self.start()
        self.properties["map"] = "cave"
        self.state.said.append(f"dice {self.random.random()}")

    def roll(self, player: Player[Hero]) -> None:
        self.state.said.append(f"dice {self.random.random()}")

    def arm(self, player: Player[Hero], seconds: float) -> None:
        self.after(seconds, self.ring, "plain", player)
        self.after(seconds, self.grant, Wish("gold", {3}))
        self.after(seconds, self.ring, "cancelled", player).cancel()
        self.after(seconds, self.loose, "x", 2)
        self.after(seconds, self.looser, "y")

    def ring(self, what: str, player: Player[Hero]) -> None:
        self.story.append(f"ring {what} {player.id}")

    def grant(self, wish: Wish) -> None:
        self.story.append(f"grant {type(wish).__name__} {wish.what} {wish.tags}")

    def loose(self, what, n: int):  # type: ignore[no-untyped-def]  # games need not annotate
        self.story.append(f"loose {what} {n}")

    def looser(self, what) -> None:  # type: ignore[no-untyped-def]  # the same
        self.story.append(f"looser {what}")


@both_paces
@in_virtual_time
async def test_a_room_comes_back_as_it_was(pace: Pace) -> None:
    async with Bench(table(Busy), recovery=pace) as bench:
        client = await bench.connect("ada")
        ada = bench.reading(client, await client.join_or_create("table", properties={"map": "sea"}, max_players=3))
        await ada.send(Say("one"), Do("prepare"))
        await ada.has_heard("ada:one")
        await ada.room.flush()
        before = bench.room(ada)
        peek = before.random.position

        await bench.restart()
        outcome = await ada.back()

        room = bench.room(ada)
        assert room is not before
        assert outcome.kind == "resumed"
        assert room.state == before.state
        assert room.properties == {"map": "cave"}
        assert (room.phase, room.is_locked, room.max_players) == ("playing", True, 3)
        assert [(player.id, player.data.count, player.owned) for player in room.players] == [("ada", 1, {"sword"})]
        assert room.owner_of("sword") is room.player("ada")
        assert "door" in room.objects
        assert room.random.position == peek
        assert room.player("ada").connected


@both_paces
@in_virtual_time
async def test_messages_both_ways_go_on_after_a_crash(pace: Pace) -> None:
    async with Bench(table(), recovery=pace) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        await ada.send(*(Say(str(number)) for number in range(10)))

        await bench.restart()
        await ada.send(*(Say(str(number)) for number in range(10, 20)))
        await bob.has_heard("ada:19")
        await ada.has_heard("ada:19")

        assert ada.texts == bob.texts == [f"ada:{number}" for number in range(20)]
        assert bench.room(ada).state.said == ada.texts
        assert ada.kinds == bob.kinds == ["resumed"]


@in_virtual_time
async def test_on_recover_is_the_first_turn() -> None:
    kind = table()
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        await ada.send(Say("x"))
        await ada.has_heard("ada:x")

        await bench.restart()
        await ada.back()
        await a_moment()

        assert kind.story == ["join ada", "recover", "rejoin ada"]


@in_virtual_time
async def test_timers_ring_when_they_are_due_with_what_they_were_given() -> None:
    kind = table(Busy)
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        await ada.send(Do("arm", [10.0]))
        await ada.room.flush()
        loop = asyncio.get_running_loop()
        due_at = loop.time() + 10.0
        await a_moment(4.0)

        await bench.restart()
        await until(lambda: any(line.startswith("ring") for line in kind.story))
        late_s = loop.time() - due_at
        await a_moment(20.0)

        assert abs(late_s) < 0.2
        rang = [line for line in kind.story if line.split()[0] in {"ring", "grant", "loose", "looser"}]
        assert sorted(rang) == ["grant Wish gold {3}", "loose x 2", "looser y", "ring plain ada"]


@pytest.mark.parametrize(
    ("clock_off_s", "waits_s"),
    [
        # Saved with 10 s to go, 4 s before the crash: set back, the clock does not say how much of it has passed.
        (-3600.0, 10.0),
        (-1.0, 7.0),
        (1.0, 5.0),
        # As if the server had been away for an hour.
        (3600.0, 0.0),
    ],
)
@in_virtual_time
async def test_a_clock_that_was_set_while_the_server_was_down_never_makes_a_timer_wait_longer_than_it_had_to(
    clock_off_s: float, waits_s: float
) -> None:
    kind = table(Busy)
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        await ada.send(Do("arm", [10.0]))
        await ada.room.flush()
        await a_moment(4.0)

        bench.clock_off_s = clock_off_s
        began_at = asyncio.get_running_loop().time()
        await bench.restart()
        await until(lambda: any(line.startswith("ring") for line in kind.story))

        assert asyncio.get_running_loop().time() - began_at == pytest.approx(waits_s, abs=0.2)


@in_virtual_time
async def test_a_timer_that_fell_due_while_nobody_was_there_rings_at_once_and_once() -> None:
    kind = table(Busy)
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        await ada.send(Do("arm", [1.0]))
        await ada.room.flush()

        bench.crash()
        await a_moment(5.0)
        await bench.start()
        await a_moment(0.1)
        rang = [line for line in kind.story if line == "ring plain ada"]
        await bench.restart()
        await a_moment(5.0)

        assert rang == ["ring plain ada"]
        assert [line for line in kind.story if line == "ring plain ada"] == rang
        assert kind.story.index("recover") < kind.story.index("ring plain ada")


@both_paces
@in_virtual_time
async def test_a_seat_is_freed_when_its_player_does_not_come_back_in_a_fresh_grace(pace: Pace) -> None:
    kind = table(grace_s=10.0)
    async with Bench(kind, recovery=pace) as bench:
        ada, bob = await bench.sit("ada"), await bench.sit("bob")
        bench.dialer(ada).is_down = True
        bench.link(ada).cut()
        await a_moment(8.0)

        await bench.restart()
        await bob.back()
        await a_moment(8.0)
        held = [player.id for player in bench.room(bob).players]
        await until(lambda: "leave ada grace_ended" in kind.story)

        assert held == ["ada", "bob"]
        assert [player.id for player in bench.room(bob).players] == ["bob"]
        await until(lambda: len(bench.store.keys_of("session/")) == 1)


@in_virtual_time
async def test_the_tick_goes_on() -> None:
    class Ticking(Table):
        def on_tick(self, dt_s: float) -> Any:
            self.state.said.append("tick")

    async with Bench(table(Ticking, tick_hz=10)) as bench:
        ada = await bench.sit("ada")
        await a_moment(1.0)

        await bench.restart()
        ticks = len(bench.server.rooms.get(ada.room.id).state.said)  # type: ignore[union-attr]
        await a_moment(1.0)

        assert 5 <= ticks <= 11
        assert 14 <= len(bench.room(ada).state.said) <= 22


@in_virtual_time
async def test_a_room_that_was_asked_for_comes_back_before_the_others() -> None:
    async with Bench(table(), recovery="lazy") as bench:
        rooms = [await bench.server.create_room("table") for _ in range(50)]
        client = await bench.connect("ada")
        await client.join(rooms[-1].id)
        await a_moment()

        bench.crash()
        await a_moment(1.0)
        await bench.start()
        at_once = len(bench.server.rooms)
        bob = await bench.connect("bob")
        await bob.join(rooms[-2].id)
        asked = len(bench.server.rooms)
        await a_moment(5.0)

        assert at_once <= 1
        assert asked < 50
        assert len(bench.server.rooms) == 50
        assert client.outcome is not None
        assert client.outcome.kind == "resumed"


@in_virtual_time
async def test_a_session_without_a_durable_room_is_reset() -> None:
    lounge = table(name="Lounge", durability="memory")
    async with Bench(table(), lounge) as bench:
        bob = await bench.sit("bob", "lounge")

        await bench.restart()
        outcome = await bob.back()

        assert outcome.kind == "reset"
        assert bob.room.left is not None


@in_virtual_time
async def test_an_agents_seat_is_held_and_can_be_taken_over_again() -> None:
    kind = table(keep_before_start=True)
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        robot = bench.server.open_agent("robot")
        seat = await robot.join(ada.room.id)
        await seat.send(Say("beep"))
        await ada.has_heard("agent:robot:beep")

        await bench.restart()
        await ada.back()
        held = bench.room(ada).player("agent:robot")
        seat = await bench.server.open_agent("robot").join(ada.room.id)
        await seat.send(Say("again"))
        await ada.has_heard("agent:robot:again")

        assert held is not None
        assert held.data.count == 2
        assert [player.id for player in bench.room(ada).players] == ["ada", "agent:robot"]
        assert kind.story.count("join agent:robot") == 1


@both_paces
@in_virtual_time
async def test_a_player_whose_session_is_lost_signs_in_again_and_has_the_seat(pace: Pace) -> None:
    async with Bench(table(), recovery=pace) as bench:
        ada = await bench.sit("ada")
        await ada.send(Say("x"))
        await ada.has_heard("ada:x")

        bench.crash()
        for key in bench.store.keys_of("session/"):
            del bench.data.entries[key]
        await bench.start()
        outcome = await ada.back()
        again = bench.reading(ada.session, await ada.session.join(ada.room.id))
        await again.send(Say("y"))
        await again.has_heard("ada:y")

        assert outcome.kind == "reset"
        assert bench.room(again).player("ada").data.count == 2


@in_virtual_time
async def test_a_board_of_another_shape_is_read_as_far_as_it_fits() -> None:
    kind = table()
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        await ada.send(Say("x"))
        await ada.has_heard("ada:x")
        bench.crash()

        class Newer(Board):
            fresh: int = 7

        class Next(Table):
            kind = "table"
            state: Newer

        bench.rooms = [table(Next, kind="table")]
        await bench.start()
        await ada.back()

        assert bench.room(ada).state.said == ["ada:x"]
        assert bench.room(ada).state.fresh == 7


@in_virtual_time
async def test_the_same_player_may_be_told_the_rest_of_a_long_stream() -> None:
    class Chatty(Table):
        def flood(self, player: Player[Hero], count: int) -> None:
            for number in range(count):
                player.send(Said(str(number)))

    async with Bench(table(Chatty)) as bench:
        ada = await bench.sit("ada")
        bench.link(ada).stop_reading("client")
        await ada.send(Do("flood", [3000]))
        await a_moment(1.0)

        await bench.restart()
        await ada.has_heard("2999")

        assert ada.texts == [str(number) for number in range(3000)]


@in_virtual_time
async def test_whoever_returns_waits_for_a_recovery_that_takes_its_time() -> None:
    class Thorough(Table):
        async def on_recover(self) -> Any:
            self.story.append("recovering")
            await self.door.wait()
            self.story.append("recovered")

    kind = table(Thorough)
    async with Bench(kind) as bench:
        ada = await bench.sit("ada")
        await a_moment()
        kind.door.clear()
        await bench.restart()
        await ada.send(Say("x"))
        await a_moment(3.0)
        early = list(ada.texts)
        kind.door.set()
        await ada.has_heard("ada:x")

        assert early == []
        assert kind.story == ["join ada", "recovering", "recovered", "rejoin ada"]


@both_paces
@in_virtual_time
async def test_the_same_player_on_two_seats_comes_back_to_both(pace: Pace) -> None:
    async with Bench(table(duplicate="allow"), recovery=pace) as bench:
        one, two = await bench.sit("ada"), await bench.sit("ada")
        await one.send(Say("1"))
        await two.send(Say("2"))
        await one.has_heard("ada:2")

        await bench.restart()
        await one.send(Say("3"))
        await two.send(Say("4"))
        await one.has_heard("ada:4")
        await two.has_heard("ada:4")

        assert one.texts == two.texts == bench.room(one).state.said
        assert [player.data.count for player in bench.room(one).players] == [2, 2]


@in_virtual_time
async def test_rooms_come_back_oldest_first() -> None:
    async with Bench(table()) as bench:
        made = []
        for _ in range(8):
            made.append((await bench.server.create_room("table")).id)
            await a_moment()
        ada = await bench.sit("ada")

        await bench.restart()

        assert [room.id for room in bench.server.rooms] == made
        assert ada.room.id == made[0]
