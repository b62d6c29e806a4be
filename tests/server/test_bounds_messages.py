"""The sizes of messages, and how many unreliable ones wait."""

import pytest

from holdfast import (
    ClientRoom,
    Invalid,
    Limits,
    Message,
    MessageRefused,
    Outcome,
    Player,
    PlayerData,
    Room,
    Server,
    WebSocket,
    connect,
    on,
)
from holdfast.core.limits import KIB
from holdfast.schemas.frames import FRAME_HEAD_BYTES
from tests.server.world import Chat, Gate, Hero, Said, Say, World, chat, hear, player_in, texts_until, until_resumed

# Sizes


async def test_a_message_too_large_to_send_is_an_error_that_says_so_and_harms_nothing(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    with pytest.raises(Invalid, match=r"'say' has \d+ bytes.*in parts"):
        await room.send(Say("x" * 64 * KIB))

    await room.send(Say("small"))
    assert await texts_until(room, "small") == ["small"]
    assert session.drops == 0


async def test_the_largest_message_that_may_be_sent_arrives(world: World) -> None:
    server = await world.serve(chat(Quiet))
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    largest = 64 * KIB - FRAME_HEAD_BYTES - len(session.protocol.codec.encode(Say(""))) - 2

    await room.send(Say("x" * largest))
    await room.flush()

    with pytest.raises(Invalid):
        await room.send(Say("x" * (largest + 1)))
    assert session.drops == 0


class Quiet(Chat):
    @on(Say)
    def said(self, player: Player[Hero], say: Say) -> None:
        self.story.tell("said", player.id, len(say.text))


class Shout(Message):
    """Answered with more than fits."""

    how: str


class Loud(Chat):
    @on(Shout)
    def shouted(self, player: Player[Hero], shout: Shout) -> None:
        message = Said(player.id, "x" * 64 * KIB)
        match shout.how:
            case "send":
                player.send(message)
            case "send_latest":
                player.send_latest(message)
            case "broadcast_latest":
                self.broadcast_latest(message)
            case _:
                self.broadcast(message)


@pytest.mark.parametrize("how", ["send", "send_latest", "broadcast", "broadcast_latest"])
async def test_a_room_that_sends_too_large_a_message_gets_the_error_and_goes_on(world: World, how: str) -> None:
    server = await world.serve(chat(Loud))
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.send(Shout(how))
    refused = await room.receive()

    assert isinstance(refused, MessageRefused)
    assert (refused.type, refused.code) == ("shout", "invalid")
    assert "'said' has 65" in refused.message
    assert "in parts" in refused.message
    await room.send(Say("small"))
    assert await texts_until(room, "small") == ["small"]


async def test_a_message_that_one_codec_cannot_carry_reaches_nobody_rather_than_some() -> None:
    class Count(Message):
        n: int

    class Counting(Room[PlayerData]):
        @on(Count)
        def count(self, player: Player[PlayerData], count: Count) -> None:
            self.broadcast(count)

    async with Server([Counting], listen=[WebSocket(port=0)]) as server:
        json = await connect(server.url, messages=[Count], codec="holdfast.v1.json")
        msgpack = await connect(server.url, messages=[Count])
        rooms = [await session.join_or_create("counting") for session in (json, msgpack)]

        await rooms[0].send(Count(2**70))
        await rooms[0].send(Count(1))

        assert isinstance(await rooms[0].receive(), MessageRefused)
        assert [await room.receive() for room in rooms] == [Count(1), Count(1)]
        for session in (json, msgpack):
            await session.close()


# Unreliable messages


class Moved(Message):
    who: str
    x: int


async def moves(room: ClientRoom) -> list[Message]:
    """The moves that come; they may be overtaken by what is reliable, so one word is not enough to be sure."""
    heard: list[Message] = []
    for text in ("that was all", "really"):
        await room.send(Say(text))
        heard += await hear(room, text)
    return [message for message in heard if isinstance(message, Moved)]


async def test_of_unreliable_messages_only_the_newest_per_key_is_sent(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server, messages=[Moved])
    room = await session.join_or_create("chat")
    player = player_in(server, room, session)

    for x in range(5):
        player.send_latest(Moved("ada", x), key="ada")
        player.send_latest(Moved("bob", x), key="bob")

    assert await moves(room) == [Moved("ada", 4), Moved("bob", 4)]


async def test_unreliable_messages_are_not_kept_for_who_is_away(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    gate = Gate()
    session = await world.connect(server, dial=gate, messages=[Moved])
    room = await session.join_or_create("chat")
    player = player_in(server, room, session)
    gate.shut()
    session.cut()
    await kind.story.has("on_drop")
    player.send_latest(Moved("ada", 1))
    player.send(Said("room", "reliable"))

    outcome = await until_resumed(session, gate.open)

    assert outcome == Outcome("resumed", replayed=1)
    assert await hear(room, "reliable") == [Said("room", "reliable")]


async def test_no_more_unreliable_messages_wait_than_the_limit(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(latest_kept_max=3))
    session = await world.connect(server, messages=[Moved])
    room = await session.join_or_create("chat")
    player = player_in(server, room, session)

    for x in range(10):
        player.send_latest(Moved("ada", x), key=str(x))

    assert await moves(room) == [Moved("ada", 7), Moved("ada", 8), Moved("ada", 9)]
