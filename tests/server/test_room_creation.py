import asyncio
from typing import Any

import pytest

from holdfast import Failed, Invalid, NotFound, Refused
from tests.server.slow_room import gate_of
from tests.server.world import Chat, Say, World, chat, texts_until

# Creating


class Picky(Chat):
    async def on_create(self, config: dict[str, Any]) -> None:
        if config.get("map") == "nowhere":
            self.spawn(self.never_ends())
            await asyncio.sleep(0)
            self.after(0.02, self.announce, "a timer of a room that is not")
            raise Refused("no such map")
        self.after(0.1, self.announce, "a timer of a room that is")
        if config.get("map") == "broken":
            raise ZeroDivisionError("a bug of the game")

    async def never_ends(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.story.tell("cancelled")

    def announce(self, text: str) -> None:
        self.story.tell("announced", text)


async def test_a_game_may_refuse_to_create_a_room(world: World) -> None:
    kind = chat(Picky)
    server = await world.serve(kind)
    session = await world.connect(server)

    with pytest.raises(Refused, match="no such map"):
        await session.create("chat", config={"map": "nowhere"})
    with pytest.raises(Refused, match="no such map"):
        await session.join_or_create("chat", config={"map": "nowhere"})

    assert (len(server.rooms), server.counters.rooms_created) == (0, 0)
    assert await session.search() == []
    await kind.story.has("cancelled", times=2)
    await session.join_or_create("chat", config={"map": "castle"})
    await kind.story.has("announced")
    assert kind.story.of("announced") == [("announced", "a timer of a room that is")]


async def test_a_room_whose_creation_fails_is_not_there(world: World) -> None:
    server = await world.serve(chat(Picky))
    session = await world.connect(server)

    with pytest.raises(Failed):
        await session.create("chat", config={"map": "broken"})
    with pytest.raises(Invalid, match="must be finite"):
        await session.create("chat", config={"map": "castle", "scale": [float("nan")]})

    assert len(server.rooms) == 0
    assert server.counters.turns_failed == 1


class Undecided(Chat):
    gate: asyncio.Event

    async def on_create(self, config: dict[str, Any]) -> None:
        self.story.tell("on_create", config)
        await self.gate.wait()
        if config:
            raise Refused("no")


async def test_nobody_gets_into_a_room_that_is_not_created_yet(world: World) -> None:
    kind = chat(Undecided, gate=asyncio.Event())
    server = await world.serve(kind)
    creator, other = await world.connect(server), await world.connect(server)
    creating = asyncio.create_task(creator.create("chat", config={"map": "nowhere"}))
    await kind.story.has("on_create")

    found = await other.search()
    joining = asyncio.create_task(other.join_or_create("chat"))
    await kind.story.has("on_create", times=2)
    gate_of(kind).set()

    with pytest.raises(Refused):
        await creating
    room = await joining
    assert found == []
    assert [there.id for there in server.rooms] == [room.id]
    await room.send(Say("alive"))
    assert await texts_until(room, "alive") == ["alive"]


async def test_a_room_of_an_unknown_kind_is_refused_with_the_kinds_there_are(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)

    for asking in (session.create, session.join_or_create):
        with pytest.raises(NotFound, match=r"'chess'.*chat"):
            await asking("chess")


@pytest.mark.parametrize("max_players", [0, -1, 17])
async def test_a_room_with_more_seats_than_its_kind_allows_is_refused(world: World, max_players: int) -> None:
    server = await world.serve(chat(max_players=16))
    session = await world.connect(server)

    with pytest.raises(Refused, match="max_players must be from 1 to 16"):
        await session.create("chat", max_players=max_players)
