"""Areas of interest: a client has the entries in the areas that it sees, whatever moves, comes and goes."""

from collections.abc import Iterable
from random import Random
from typing import Any

import msgspec
import pytest

from holdfast import Areas, Hidden, Message, Player, PlayerData, Room, Server, on
from holdfast.core.codec import JSON, MSGPACK, Codec
from holdfast.core.limits import Limits
from holdfast.testing import UNLIMITED
from tests.server.state_follower import Follower, follower
from tests.server.world import World


class Orc(msgspec.Struct):
    x: int
    hp: int = 10
    plan: Hidden[str] = ""


class Land(msgspec.Struct):
    orcs: Areas[Orc] = {}
    turns: int = 0


class Eyes(PlayerData):
    at: int = 0


class Look(Message):
    at: int


class Wild(Room[Eyes]):
    """Ten steps are an area; a player sees the one where they are, and its neighbours."""

    shares = ("state", "players")
    max_spectators = 4
    grace_s = 60.0
    state: Land
    is_blind = False

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Land()

    def area(self, entity: Orc) -> str:
        return str(entity.x // 10)

    def sees(self, player: Player[Eyes] | None) -> Iterable[str]:
        if self.is_blind:
            raise RuntimeError("it is dark")
        if player is None:
            return ["0"]
        here = player.data.at // 10
        return [str(area) for area in (here - 1, here, here + 1)]

    @on(Look)
    def look(self, player: Player[Eyes], look: Look) -> None:
        player.data.at = look.at
        self.state.turns += 1


def the_room(server: Server) -> Wild:
    (room,) = server.rooms
    assert isinstance(room, Wild)
    return room


async def look(client: Follower, at: int) -> None:
    await client.play(Look(at))


def expected(room: Wild, at: int) -> dict[str, Any]:
    areas = {at // 10 - 1, at // 10, at // 10 + 1}
    return {key: {"x": orc.x, "hp": orc.hp} for key, orc in room.state.orcs.items() if orc.x // 10 in areas}


@pytest.mark.parametrize("codec", [MSGPACK, JSON])
async def test_random_worlds_are_exact_for_every_player(world: World, codec: Codec) -> None:
    server = await world.serve(Wild, limits=UNLIMITED)
    ada, bob, eve = [await follower(world, server, codec=codec) for _ in range(3)]
    await ada.join("wild")
    seat = await bob.join("wild")
    await eve.watch(seat.room)
    room, random = the_room(server), Random(5)
    changes: list[Any] = []
    ada.mirror.on_change("state.orcs.*", lambda orc, key: changes.append((orc, key)))
    at = {ada: 0, bob: 0}
    for number in range(300):
        for _ in range(random.randrange(4)):
            _change(room, random, number)
        client = random.choice([ada, bob])
        at[client] = random.randrange(100) if random.random() < 0.3 else at[client]
        await look(client, at[client])
        for each in (ada, bob):
            await each.read()
            assert each.state["orcs"] == expected(room, at[each])
    await eve.read()
    assert eve.state["orcs"] == {key: orc for key, orc in expected(room, 0).items() if orc["x"] < 10}
    assert all(b"plan" not in body for each in (ada, bob, eve) for body in each.bodies)


def _change(room: Wild, random: Random, number: int) -> None:
    orcs = room.state.orcs
    what = random.randrange(4)
    if what == 0 or not orcs:
        orcs[f"orc{number}"] = Orc(random.randrange(100), plan="plan")
    elif what == 1 and len(orcs) > 20:
        del orcs[random.choice(list(orcs))]
    elif what == 2:
        random.choice(list(orcs.values())).hp -= 1
    else:
        orc = random.choice(list(orcs.values()))
        orc.x = max(0, orc.x + random.randrange(-9, 10))


async def test_an_entity_that_moves_between_areas_that_are_seen_has_changed_and_was_never_gone(world: World) -> None:
    server = await world.serve(Wild)
    ada = await follower(world, server)
    await ada.join("wild")
    room = the_room(server)
    room.state.orcs["grom"] = Orc(9)
    await look(ada, 0)
    heard: list[Any] = []
    ada.mirror.on_change("state.orcs.*", lambda orc, key: heard.append((key, orc and orc["x"])))
    ada.mirror.receive = _with_calls(ada.mirror.receive)  # type: ignore[method-assign]

    room.state.orcs["grom"].x = 10
    await look(ada, 1)
    assert heard == [("grom", 10)]

    room.state.orcs["grom"].x = 25
    await look(ada, 2)
    assert heard == [("grom", 10), ("grom", None)]

    await look(ada, 12)
    assert heard[2:] == [("grom", 25)]


def _with_calls(receive: Any) -> Any:
    def received(body: Any) -> list[Any]:
        for call in receive(body):
            call()
        return []

    return received


async def test_a_large_land_comes_in_parts(world: World) -> None:
    server = await world.serve(Wild, limits=Limits(payload_bytes_max=4096))
    ada = await follower(world, server)
    await ada.join("wild")
    room = the_room(server)
    for number in range(1000):
        room.state.orcs[f"orc{number}"] = Orc(number % 10)
    await look(ada, 0)

    assert len(ada.bodies) > 2
    assert ada.state["orcs"] == expected(room, 0)
    assert len(ada.state["orcs"]) == 1000


async def test_if_the_room_cannot_say_what_somebody_sees_they_keep_what_they_had(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    server = await world.serve(Wild)
    ada = await follower(world, server)
    await ada.join("wild")
    room = the_room(server)
    room.state.orcs["grom"] = Orc(9)
    await look(ada, 0)

    room.is_blind = True
    room.state.orcs["grom"].x = 8
    await look(ada, 1)
    assert ada.state["orcs"]["grom"]["x"] == 9
    assert "sees" in caplog.text

    room.is_blind = False
    await look(ada, 1)
    assert ada.state["orcs"]["grom"]["x"] == 8


async def test_an_entity_of_another_type_is_named_and_the_clients_keep_what_they_had(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    server = await world.serve(Wild)
    ada = await follower(world, server)
    await ada.join("wild")
    room = the_room(server)
    room.state.orcs["grom"] = "here"  # type: ignore[assignment]
    room.area = lambda entity: "0"  # type: ignore[method-assign]
    await look(ada, 0)

    assert ada.state["orcs"] == {}
    assert "state.orcs.grom" in caplog.text


class Unsaid(Room[Eyes]):
    shares = ("state",)
    state: Land


class Deep(msgspec.Struct):
    land: Land


class Nested(Room[Eyes]):
    shares = ("state",)
    state: Deep


class Viewed(Room[Eyes]):
    shares = ("state",)

    def view(self, player: Player[Eyes] | None) -> Land:
        return Land()


@pytest.mark.parametrize(("room", "says"), [(Unsaid, "def area"), (Nested, "state itself"), (Viewed, "state itself")])
def test_areas_that_nobody_can_see_are_refused_at_the_start(room: type[Room[Any]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Server([room])
