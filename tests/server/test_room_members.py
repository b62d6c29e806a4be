import asyncio

import pytest

from holdfast import NotSeated, Reason
from holdfast.schemas.frames import Close, Data
from tests.server.slow_room import Slow, gate_of
from tests.server.world import Said, Say, World, chat, hear, player_in, texts_until

# Who is not a member


async def test_a_message_from_who_has_no_seat_is_not_applied_and_breaks_the_protocol(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    stranger = await world.raw(server)
    await stranger.sign_in()

    stranger.send(1, Say("let me in"))
    close = await stranger.hear(Close)

    assert close.reason == Reason.PROTOCOL
    assert kind.story.of("said") == []


async def test_a_client_without_a_seat_is_told_when_it_sends(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    await room.leave()

    with pytest.raises(NotSeated):
        await room.send(Say("too late"))


async def test_what_a_player_said_before_a_kick_but_after_its_turn_is_not_applied(world: World) -> None:
    kind = chat(Slow, gate=asyncio.Event())
    server = await world.serve(kind)
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")
    await ada_room.send(Say("ada's"))
    await kind.story.has("begin", "ada's")
    await bob_room.send(Say("bob's"))
    await bob.search()

    player_in(server, bob_room, bob).kick("no more of that")
    gate_of(kind).set()

    assert await texts_until(ada_room, "ada's") == ["ada's"]
    await kind.story.has("on_leave")
    assert [message async for message in bob_room] == []
    await ada_room.send(Say("next"))
    await hear(ada_room, "next")
    assert kind.story.of("begin") == [("begin", "ada's"), ("begin", "next")]


async def test_speaking_to_a_player_who_has_left_does_nothing(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    player = player_in(server, room, session)
    player.kick()
    assert [message async for message in room] == []

    player.send(Said("room", "are you there?"))
    player.send_latest(Said("room", "are you there?"))
    player.kick("again")

    assert await session.search() != []
    assert session.drops == 0


async def test_the_last_message_of_a_seat_is_that_it_is_gone(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    client = await world.raw(server)
    welcome = await client.sign_in()
    seat = await client.join()
    room = server.rooms.get(seat.room)
    assert room is not None
    player = room.player(welcome.player)
    assert player is not None

    player.send(Said("room", "last warning"))
    player.kick()
    player.send(Said("room", "are you there?"))
    await client.request("search")

    assert [frame.type for frame in client.all_heard(Data)] == ["said", "holdfast.left"]
