import asyncio
from typing import Any

import pytest

from holdfast import Player, Reason, on
from tests.server.world import Chat, Hero, Said, Say, World, chat, hear, player_in, until_resumed

# Hooks


class Diary(Chat):
    def admit(self, player: Player[Hero]) -> Any:
        self.story.tell("admit", player.id)


class AsyncDiary(Diary):
    """The same with `async def` throughout, and another turn of the loop in each."""

    async def on_create(self, config: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        super().on_create(config)

    async def on_created(self) -> None:
        await asyncio.sleep(0)
        super().on_created()

    async def admit(self, player: Player[Hero]) -> None:
        await asyncio.sleep(0)
        super().admit(player)

    async def on_join(self, player: Player[Hero]) -> None:
        await asyncio.sleep(0)
        super().on_join(player)

    async def on_drop(self, player: Player[Hero]) -> None:
        await asyncio.sleep(0)
        super().on_drop(player)

    async def on_rejoin(self, player: Player[Hero]) -> None:
        await asyncio.sleep(0)
        super().on_rejoin(player)

    async def on_leave(self, player: Player[Hero], reason: Reason) -> None:
        await asyncio.sleep(0)
        super().on_leave(player, reason)

    async def on_start(self) -> None:
        await asyncio.sleep(0)
        super().on_start()

    async def on_end(self) -> None:
        await asyncio.sleep(0)
        super().on_end()

    async def on_destroy(self) -> None:
        await asyncio.sleep(0)
        super().on_destroy()

    async def on_destroyed(self) -> None:
        await asyncio.sleep(0)
        super().on_destroyed()

    @on(Say)
    async def said(self, player: Player[Hero], say: Say) -> None:
        await asyncio.sleep(0)
        super().said(player, say)


@pytest.mark.parametrize("diary", [Diary, AsyncDiary])
async def test_the_hooks_of_a_life_are_called_in_order_and_with_what_they_need(
    world: World, diary: type[Diary]
) -> None:
    kind = chat(diary)
    server = await world.serve(kind)
    room = await server.create_room("chat", config={"map": "castle"})
    session = await world.connect(server)
    ada = session.player_id

    client_room = await session.join(room.id)
    await client_room.send(Say("hello"))
    await hear(client_room, "hello")
    await until_resumed(session, session.cut)
    await kind.story.has("on_rejoin")
    room.start()
    await kind.story.has("on_start")
    room.end()
    await kind.story.has("on_end")
    await client_room.leave()
    await kind.story.has("on_leave")
    room.close()
    await kind.story.has("on_destroyed")

    assert kind.story.lines == [
        ("on_create", {"map": "castle"}),
        ("on_created",),
        ("admit", ada),
        ("on_join", ada),
        ("said", ada, "hello"),
        ("on_drop", ada),
        ("on_rejoin", ada),
        ("on_start",),
        ("on_end",),
        ("on_leave", ada, Reason.LEFT),
        ("on_destroy",),
        ("on_destroyed",),
    ]


class Census(Chat):
    def admit(self, player: Player[Hero]) -> None:
        self.story.tell("admit", self.ids(), player.data.hp)

    def on_join(self, player: Player[Hero]) -> None:
        self.story.tell("on_join", self.ids(), player.data.hp)

    def on_drop(self, player: Player[Hero]) -> None:
        self.story.tell("on_drop", self.ids(), player.connected)

    def on_rejoin(self, player: Player[Hero]) -> None:
        self.story.tell("on_rejoin", self.ids(), player.connected)

    def on_leave(self, player: Player[Hero], reason: Reason) -> None:
        self.story.tell("on_leave", self.ids(), player.connected)

    def ids(self) -> list[str]:
        return [player.id for player in self.players]


async def test_a_player_is_a_member_from_on_join_through_the_drop_until_before_on_leave(world: World) -> None:
    kind = chat(Census)
    server = await world.serve(kind)
    session = await world.connect(server)
    ada = session.player_id

    room = await session.join_or_create("chat")
    await until_resumed(session, session.cut)
    await room.leave()

    assert kind.story.lines[2:] == [
        ("admit", [], 100),
        ("on_join", [ada], 100),
        ("on_drop", [ada], False),
        ("on_rejoin", [ada], True),
        ("on_leave", [], False),
    ]


class Greeter(Chat):
    def on_join(self, player: Player[Hero]) -> None:
        self.broadcast(Said(player.id, "joined"))

    def on_leave(self, player: Player[Hero], reason: Reason) -> None:
        self.broadcast(Said(player.id, "left"))


async def test_a_broadcast_on_join_includes_the_joiner_and_one_on_leave_excludes_the_leaver(world: World) -> None:
    server = await world.serve(chat(Greeter))
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")

    player_in(server, bob_room, bob).kick()
    bobs = [message async for message in bob_room]
    await ada_room.send(Say("alone"))

    assert bobs == [Said(bob.player_id, "joined")]
    assert await hear(ada_room, "alone") == [
        Said(ada.player_id, "joined"),
        Said(bob.player_id, "joined"),
        Said(bob.player_id, "left"),
        Said(ada.player_id, "alone"),
    ]


class Selective(Chat):
    @on(Say)
    def said(self, player: Player[Hero], say: Say) -> None:
        self.broadcast(Said(player.id, say.text), exclude=[player])
        player.send(Said("room", f"you said {say.text}"))


async def test_a_broadcast_may_leave_players_out(world: World) -> None:
    server = await world.serve(chat(Selective))
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")

    await ada_room.send(Say("hello"))

    assert await ada_room.receive() == Said("room", "you said hello")
    assert await bob_room.receive() == Said(ada.player_id, "hello")
