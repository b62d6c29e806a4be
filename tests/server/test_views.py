"""A view per player: what `view` returns is what a client has as `state`, and nothing else ever leaves."""

import asyncio
from typing import Any

import msgspec
import pytest

from holdfast import Hidden, Message, Player, PlayerData, Private, Room, Server, on
from holdfast.core.codec import JSON, MSGPACK, Codec
from holdfast.core.limits import Limits
from holdfast.schemas.frames import Ack, SeatFrame
from tests.server.state_follower import Follower, follower
from tests.server.world import World


class Unit(msgspec.Struct):
    owner: str
    x: int = 0
    orders: Hidden[str] = ""


class Battle(msgspec.Struct):
    units: dict[str, Unit] = {}
    turns: int = 0


class Fog(msgspec.Struct):
    """What one player sees of a battle."""

    you: str = ""
    units: dict[str, Unit] = {}
    turns: int = 0


class General(PlayerData):
    gold: int = 0
    plan: Private[str] = ""


class Step(Message):
    to: int
    say: bool = False


class Trip(Message):
    """From now on `view` raises for whoever sends it, or returns what it must not."""

    how: str


class Said(Message):
    turns: int


class Field(Room[General]):
    """A player sees their own units, and those of others that are near one of theirs."""

    shares = ("state", "players")
    max_spectators = 10
    grace_s = 60.0
    state: Battle

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Battle()
        self.tripped: dict[str, str] = {}
        self.asked: list[str] = []

    def on_join(self, player: Player[General]) -> None:
        player.data.plan = f"plan of {player.id}"
        self.state.units[player.id] = Unit(player.id, 100 * len(self.players), f"orders of {player.id}")

    @on(Step)
    def step(self, player: Player[General], step: Step) -> None:
        self.state.units[player.id].x = step.to
        self.state.turns += 1
        player.data.gold += 1
        if step.say:
            self.broadcast(Said(self.state.turns))

    @on(Trip)
    def trip(self, player: Player[General], trip: Trip) -> None:
        self.tripped[player.id] = trip.how

    def view(self, player: Player[General] | None) -> Fog:
        self.asked.append(player.id if player is not None else "")
        how = self.tripped.get(player.id if player is not None else "", "")
        if how == "raises":
            raise RuntimeError("fog machine broke")
        if how == "cancelled":
            raise asyncio.CancelledError
        if how == "whole":
            return self.state  # type: ignore[return-value]
        if how == "sends" and player is not None:
            player.send(Said(0))
        if player is None:
            return Fog(turns=self.state.turns)
        here = self.state.units[player.id].x
        return Fog(player.id, {key: unit for key, unit in self.state.units.items() if abs(unit.x - here) < 50})


def the_room(server: Server) -> Field:
    (room,) = server.rooms
    assert isinstance(room, Field)
    return room


def units(client: Follower) -> dict[str, int]:
    return {key: unit["x"] for key, unit in client.state["units"].items()}


async def two(world: World, server: Server, codec: Codec = MSGPACK) -> tuple[Follower, Follower, SeatFrame]:
    ada, bob = await follower(world, server, codec=codec), await follower(world, server, codec=codec)
    await ada.join("field")
    seat = await bob.join("field")
    await ada.read()
    return ada, bob, seat


@pytest.mark.parametrize("codec", [MSGPACK, JSON])
async def test_each_player_sees_their_own_view_as_the_state(world: World, codec: Codec) -> None:
    server = await world.serve(Field)
    ada, bob, _ = await two(world, server, codec)

    assert (ada.state["you"], bob.state["you"]) == (ada.player, bob.player)
    assert (units(ada), units(bob)) == ({ada.player: 100}, {bob.player: 200})
    assert ada.mine["plan"] == f"plan of {ada.player}"

    await bob.play(Step(120))
    await ada.read()
    assert units(ada) == units(bob) == {ada.player: 100, bob.player: 120}

    await bob.play(Step(300))
    await ada.read()
    assert units(ada) == {ada.player: 100}
    assert ada.players[bob.player] == {"gold": 2}


async def test_what_a_view_leaves_out_or_hides_is_in_no_byte(world: World) -> None:
    server = await world.serve(Field)
    ada, bob, seat = await two(world, server)
    eve = await follower(world, server)
    await eve.watch(seat.room)
    for step in (120, 300, 110, 500):
        await bob.play(Step(step))
    await ada.read()
    await eve.read()

    assert all(b"orders" not in body for client in (ada, bob, eve) for body in client.bodies)
    assert all(f"plan of {bob.player}".encode() not in body for client in (ada, eve) for body in client.bodies)
    assert eve.state == {"you": "", "units": {}, "turns": 4}
    assert "mine" not in eve.mirror.root


async def test_the_view_of_spectators_is_asked_for_once_and_is_one_for_all(world: World) -> None:
    server = await world.serve(Field)
    ada, _, seat = await two(world, server)
    watching = [await follower(world, server) for _ in range(3)]
    for each in watching:
        await each.watch(seat.room)
    room = the_room(server)
    room.asked.clear()

    await ada.play(Step(7))
    for each in watching:
        await each.read()

    assert room.asked.count("") == 1
    assert len({each.bodies[-1] for each in watching}) == 1
    assert [each.state["turns"] for each in watching] == [1, 1, 1]


async def test_a_turns_view_comes_before_its_messages(world: World) -> None:
    server = await world.serve(Field)
    ada, bob, _ = await two(world, server)
    room = the_room(server)
    seen: list[int] = []
    for number in range(3):
        await ada.play(Step(180 + number, say=True))
        await bob.read()
        seen.append(units(bob)[ada.player])

    assert seen == [180, 181, 182]
    assert [name for name, _ in bob.seen] == ["said"] * 3
    assert room.state.turns == 3


@pytest.mark.parametrize("how", ["raises", "cancelled", "whole", "sends"])
async def test_a_view_that_fails_shows_nothing_more_and_harms_nobody_else(
    world: World, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    server = await world.serve(Field)
    ada, bob, _ = await two(world, server)
    before = dict(ada.mirror.root["state"])
    await ada.play(Trip(how))
    had = len(ada.bodies)

    await bob.play(Step(110, say=True))
    await ada.read()

    assert ada.state == before
    assert len(ada.bodies) == had
    assert [name for name, _ in ada.seen] == ["said"]
    assert units(bob) == {ada.player: 100, bob.player: 110}
    assert "view" in caplog.text
    assert ada.player in caplog.text

    await ada.play(Trip(""))
    assert units(ada) == {ada.player: 100, bob.player: 110}


async def test_who_was_away_gets_the_changes_of_their_own_view_at_once(world: World) -> None:
    server = await world.serve(Field)
    ada, bob, seat = await two(world, server)
    had = len(bob.bodies)
    bob.raw.cut()
    await bob.raw.ended()
    for step in range(160, 190):
        await ada.play(Step(step))

    await bob.resume(await world.raw(server), seat)
    await bob.read()

    assert units(bob) == {ada.player: 189, bob.player: 200}
    assert len(bob.bodies) == had + 1


async def test_a_change_that_only_one_player_sees_reaches_them_when_they_have_read(world: World) -> None:
    server = await world.serve(Field, limits=Limits(window_messages_max=4, kept_messages_max=8))
    ada, bob, seat = await two(world, server)
    for _ in range(6):
        await ada.play(Step(190))
        ada.raw.say(Ack(1, ada.received))
    room = the_room(server)
    room.state.units[bob.player].x = 201
    await ada.play(Step(191))
    await bob.read()
    assert units(bob).get(bob.player) == 200

    bob.raw.say(Ack(seat.channel, bob.received))
    await bob.read()
    assert units(bob) == {ada.player: 191, bob.player: 201}


class Unsaid(Room[General]):
    shares = ("state",)

    def view(self, player):  # type: ignore[no-untyped-def]
        return Fog()


class Unnamed(Room[General]):
    shares = ("players",)

    def view(self, player: Player[General] | None) -> Fog:
        return Fog()


class Mine(Room[General]):
    shares = ("state",)

    def view(self, player: Player[General] | None) -> General:
        return General()


@pytest.mark.parametrize(
    ("room", "says"), [(Unsaid, "-> BoardView"), (Unnamed, r'shares = \("state",\)'), (Mine, "Hidden")]
)
def test_a_view_that_cannot_be_shared_is_refused_at_the_start(room: type[Room[Any]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Server([room])
