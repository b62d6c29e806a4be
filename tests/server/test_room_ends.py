import asyncio

import pytest

from holdfast import Limits, Player, Reason, Refused, on
from tests.server.world import (
    CLOCK_S,
    Chat,
    Gate,
    Hero,
    Said,
    Say,
    World,
    chat,
    hear,
    hear_the_end,
    room_of,
    until_resumed,
)


async def test_a_room_ends_with_its_last_player_when_it_may_not_stay_empty(world: World) -> None:
    kind = chat(empty_ttl_s=0.0)
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.leave()
    await kind.story.has("on_destroyed")

    assert [line[0] for line in kind.story.lines[2:]] == ["on_join", "on_leave", "on_destroy", "on_destroyed"]
    assert len(server.rooms) == 0


async def test_an_empty_room_waits_for_its_time_and_then_ends(world: World) -> None:
    kind = chat(empty_ttl_s=0.2)
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.leave()
    assert len(server.rooms) == 1
    await kind.story.has("on_destroyed")

    (left_at,), (ended_at,) = kind.story.when("on_leave"), kind.story.when("on_destroyed")
    assert ended_at - left_at >= 0.2 - CLOCK_S


async def test_a_room_that_is_joined_again_in_time_does_not_end(world: World) -> None:
    kind = chat(empty_ttl_s=0.1)
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    await room.leave()
    again = await session.join(room.id)
    server_room = room_of(server, again)
    assert isinstance(server_room, Chat)

    server_room.after(0.2, server_room.announce, "much later")

    await hear(again, "much later")
    assert kind.story.of("on_destroy") == []


async def test_a_seat_that_is_held_keeps_the_room(world: World) -> None:
    kind = chat(empty_ttl_s=0.0, grace_s=0.2)
    server = await world.serve(kind)
    gate = Gate()
    session = await world.connect(server, dial=gate)
    await session.join_or_create("chat")
    gate.shut()
    session.cut()

    await kind.story.has("on_destroyed")

    (dropped_at,), (ended_at,) = kind.story.when("on_drop"), kind.story.when("on_destroyed")
    assert ended_at - dropped_at >= 0.2 - CLOCK_S


async def test_a_room_nobody_ever_joined_ends_too(world: World) -> None:
    kind = chat(empty_ttl_s=0.0)
    server = await world.serve(kind, limits=Limits(unjoined_s=0.2))

    await server.create_room("chat")
    await kind.story.has("on_destroyed")

    (created_at,), (ended_at,) = kind.story.when("on_created"), kind.story.when("on_destroyed")
    assert ended_at - created_at >= 0.2 - CLOCK_S
    assert len(server.rooms) == 0


class Members(Chat):
    """Lets in who has the password, which here is to have signed in first."""

    async def admit(self, player: Player[Hero]) -> None:
        self.story.tell("admit", player.id)
        await asyncio.sleep(0)
        if player.id != self.properties["owner"]:
            raise Refused("members only")


async def test_a_player_who_is_refused_does_not_end_a_room_that_waits_for_its_first_player(world: World) -> None:
    kind = chat(Members, empty_ttl_s=0.0)
    server = await world.serve(kind)
    owner, stranger = await world.connect(server), await world.connect(server)
    room = await server.create_room("chat", properties={"owner": owner.player_id})

    with pytest.raises(Refused):
        await stranger.join(room.id)
    await stranger.search()

    assert (await owner.join(room.id)).id == room.id


async def test_a_room_does_not_end_under_a_player_it_is_about_to_admit(world: World) -> None:
    decided = asyncio.Event()

    class Deciding(Chat):
        async def admit(self, player: Player[Hero]) -> None:
            self.story.tell("admit")
            await decided.wait()

    kind = chat(Deciding)
    server = await world.serve(kind, limits=Limits(unjoined_s=0.1))
    session = await world.connect(server)
    room = await server.create_room("chat")
    joining = asyncio.create_task(session.join(room.id))
    await kind.story.has("admit")

    asyncio.get_running_loop().call_later(0.2, decided.set)

    assert (await joining).id == room.id


async def test_a_room_that_closes_tells_everybody_and_their_sessions_live_on(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    gate = Gate()
    ada, bob = await world.connect(server), await world.connect(server, dial=gate)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")
    gate.shut()
    bob.cut()
    await kind.story.has("on_drop")

    room_of(server, ada_room).close()
    await until_resumed(bob, gate.open)

    for session, room in ((ada, ada_room), (bob, bob_room)):
        await hear_the_end(room)
        assert room.left is not None
        assert room.left.reason == Reason.ROOM_CLOSED
        assert ("on_leave", session.player_id, Reason.ROOM_CLOSED) in kind.story.lines
        assert await session.search() == []
    assert [line[0] for line in kind.story.lines[-2:]] == ["on_destroy", "on_destroyed"]
    assert len(server.rooms) == 0


class Fuse(Chat):
    @on(Say)
    def said(self, player: Player[Hero], say: Say) -> None:
        super().said(player, say)
        self.close()
        self.close()
        self.story.tell("said it")


async def test_a_room_that_closes_itself_finishes_its_turn_first_and_closes_once(world: World) -> None:
    kind = chat(Fuse)
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.send(Say("the last word"))

    assert [message async for message in room] == [Said(session.player_id, "the last word")]
    assert [line[0] for line in kind.story.lines[3:]] == ["said", "said it", "on_leave", "on_destroy", "on_destroyed"]
