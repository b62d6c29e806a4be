import pytest

from holdfast import NotSeated, Outcome, Reason, RoomFull, RoomLocked
from holdfast.schemas.frames import TEXT_CHARS_MAX
from tests.server.world import (
    Gate,
    Said,
    Say,
    World,
    chat,
    hear_the_end,
    player_in,
    room_of,
    texts_until,
    until_resumed,
)


async def test_a_kicked_player_is_told_why_and_may_go_elsewhere(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")

    player_in(server, ada_room, ada).kick("no swearing")

    with pytest.raises(NotSeated, match="no swearing"):
        await ada_room.receive()
    assert ada_room.left is not None
    assert (ada_room.left.reason, ada_room.left.message) == (Reason.KICKED, "no swearing")
    assert kind.story.lines[-1] == ("on_leave", ada.player_id, Reason.KICKED)
    assert (ada.room, ada.connected, ada.drops) == (None, True, 0)
    await bob_room.send(Say("peace"))
    assert await texts_until(bob_room, "peace") == ["peace"]
    other = await server.create_room("chat")
    assert (await ada.join(other.id)).id == other.id


async def test_what_was_sent_before_a_kick_is_read_before_it(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    player = player_in(server, room, session)

    player.send(Said("room", "last warning"))
    player.kick("that was it")

    assert [message async for message in room] == [Said("room", "last warning")]


async def test_a_player_kicked_while_away_is_told_on_return(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    gate = Gate()
    session = await world.connect(server, dial=gate)
    room = await session.join_or_create("chat")
    player = player_in(server, room, session)
    gate.shut()
    session.cut()
    await kind.story.has("on_drop")
    player.kick("away too long")

    outcome = await until_resumed(session, gate.open)

    assert outcome == Outcome("resumed", replayed=1)
    await hear_the_end(room)
    assert room.left is not None
    assert room.left.message == "away too long"


async def test_a_kick_with_too_many_words_is_shortened(world: World) -> None:
    server = await world.serve(chat())
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")

    player_in(server, ada_room, ada).kick("long " * 20_000)
    await hear_the_end(ada_room)
    await bob_room.send(Say("going on"))

    assert ada_room.left is not None
    assert ada_room.left.message.startswith("long long")
    assert len(ada_room.left.message) <= TEXT_CHARS_MAX
    assert await texts_until(bob_room, "going on") == ["going on"]
    assert ada.drops == 0


async def test_a_locked_room_takes_nobody_new_but_lets_its_players_return(world: World) -> None:
    server = await world.serve(chat())
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room = await ada.join_or_create("chat")
    room = room_of(server, ada_room)
    room.lock()

    with pytest.raises(RoomLocked):
        await bob.join(room.id)
    found = await bob.search("chat")
    elsewhere = await bob.join_or_create("chat")
    outcome = await until_resumed(ada, ada.cut)
    room.unlock()
    carol = await world.connect(server)
    await carol.join(room.id)

    assert found == []
    assert elsewhere.id != room.id
    assert outcome.kind == "resumed"
    assert [player.id for player in room.players] == [ada.player_id, carol.player_id]


async def test_another_player_cannot_take_the_seat_that_is_held_for_a_dropped_player(world: World) -> None:
    kind = chat(max_players=1)
    server = await world.serve(kind)
    gate = Gate()
    ada, bob = await world.connect(server, dial=gate), await world.connect(server)
    room = await ada.join_or_create("chat")
    gate.shut()
    ada.cut()
    await kind.story.has("on_drop")

    with pytest.raises(RoomFull):
        await bob.join(room.id)
    found = await bob.search("chat")
    outcome = await until_resumed(ada, gate.open)

    assert found == []
    assert outcome.kind == "resumed"
    assert [player.id for player in room_of(server, room).players] == [ada.player_id]


async def test_a_seat_is_free_again_when_the_grace_ends(world: World) -> None:
    kind = chat(max_players=1, grace_s=0.1)
    server = await world.serve(kind)
    gate = Gate()
    ada, bob = await world.connect(server, dial=gate), await world.connect(server)
    room = await ada.join_or_create("chat")
    gate.shut()
    ada.cut()
    await kind.story.has("on_leave")

    await bob.join(room.id)

    assert [player.id for player in room_of(server, room).players] == [bob.player_id]
