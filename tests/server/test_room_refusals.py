import asyncio
import logging
from typing import Any, Literal

import pytest
from msgspec import Raw

from holdfast import Message, MessageRefused, Player, Refused, RoomFull, on
from holdfast.schemas.frames import TEXT_CHARS_MAX, Data
from tests.log_lines import line_of
from tests.server.world import Chat, Hero, Said, Say, World, chat, hear, texts_until

# Refusals and failures


class Break(Message):
    how: str


class Colour(Message):
    name: Literal["red", "green"]


class Fragile(Chat):
    @on(Colour)
    def painted(self, player: Player[Hero], colour: Colour) -> None:
        self.story.tell("painted", colour.name)

    @on(Break)
    def broken(self, player: Player[Hero], order: Break) -> Any:
        match order.how:
            case "raise":
                raise ZeroDivisionError("a bug of the game")
            case "raise later":
                return self.fail_later()
            case "cancelled":
                return self.await_something_cancelled()
            case "cancelled at once":
                return self.something_cancelled().result()
            case "refuse in words that are none":
                raise Refused("\ud800!")
            case "kick and raise":
                player.kick("out")
                raise ZeroDivisionError("a bug of the game")
            case "refuse":
                raise Refused("you have no key")
            case "refuse by kind":
                raise RoomFull("no space on the cart")
            case _:
                raise Refused("long " * 20_000)

    async def fail_later(self) -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError("a bug of the game")

    async def await_something_cancelled(self) -> None:
        await self.something_cancelled()

    def something_cancelled(self) -> asyncio.Future[None]:
        cancelled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        cancelled.cancel()
        return cancelled


@pytest.mark.parametrize("how", ["raise", "raise later", "cancelled", "cancelled at once"])
async def test_a_handler_that_raises_harms_only_its_message(
    world: World, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    server = await world.serve(chat(Fragile))
    ada, bob = await world.connect(server), await world.connect(server)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")

    await ada_room.send(Say("before"))
    await ada_room.send(Break(how))
    await ada_room.send(Say("after"))

    before, refused, after = await hear(ada_room, "after")
    assert before == Said(ada.player_id, "before")
    assert after == Said(ada.player_id, "after")
    assert refused == MessageRefused(2, "break", "failed", "the game's handler failed")
    assert await texts_until(bob_room, "after") == ["before", "after"], "the other one hears nothing of it"
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    where = {"where": "the handler of 'break'", "room": ada_room.id, "kind": "chat", "player": ada.player_id}
    assert line_of(record) == ("the game's code failed", where)
    assert record.exc_info is not None
    assert server.counters.turns_failed == 1
    assert server.counters.internal_errors == 0


async def test_a_handler_that_kicks_its_player_and_then_raises_is_logged_too(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    server = await world.serve(chat(Fragile))
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.send(Break("kick and raise"))

    assert [message async for message in room] == []
    assert room.left is not None
    assert room.left.message == "out"
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert server.counters.turns_failed == 1


@pytest.mark.parametrize(
    ("how", "code", "text"),
    [("refuse", "refused", "you have no key"), ("refuse by kind", "room_full", "no space on the cart")],
)
async def test_what_a_handler_refuses_reaches_the_client_with_its_words(
    world: World, caplog: pytest.LogCaptureFixture, how: str, code: str, text: str
) -> None:
    server = await world.serve(chat(Fragile))
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.send(Break(how))

    assert await room.receive() == MessageRefused(1, "break", code, text)
    assert server.counters.messages_refused == 1
    assert server.counters.turns_failed == 0
    assert caplog.records == []


async def test_a_refusal_with_too_many_words_is_shortened(world: World) -> None:
    server = await world.serve(chat(Fragile))
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.send(Break("at length"))
    await room.send(Say("after"))

    refused, after = await hear(room, "after")
    assert isinstance(refused, MessageRefused)
    assert refused.message.startswith("long long")
    assert len(refused.message) <= TEXT_CHARS_MAX
    assert after == Said(session.player_id, "after")


async def test_a_refusal_in_words_that_are_no_unicode_is_said_as_well_as_can_be(world: World) -> None:
    server = await world.serve(chat(Fragile))
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.send(Break("refuse in words that are none"))

    assert await room.receive() == MessageRefused(1, "break", "refused", "?!")
    assert session.drops == 0


async def test_a_message_no_handler_knows_is_refused_by_its_name(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.send(Break("raise"))
    refused = await room.receive()

    assert refused == MessageRefused(1, "break", "not_found", "rooms of the kind 'chat' have no handler for 'break'")


async def test_a_body_that_does_not_fit_its_type_is_refused_and_not_applied(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    client = await world.raw(server)
    await client.sign_in()
    await client.join()

    client.say(Data(1, 1, 0, "say", Raw(client.codec.encode({"text": 5}))))
    refused = client.codec.body_decoder(MessageRefused).decode((await client.hear(Data)).body)

    assert (refused.type, refused.code) == ("say", "invalid")
    assert "text" in refused.message
    client.send(2, Say("well formed"))
    await client.hear(Data)
    assert [text for _, _, text in kind.story.of("said")] == ["well formed"]


async def test_a_body_whose_error_quotes_it_at_length_does_not_stop_the_room(world: World) -> None:
    kind = chat(Fragile)
    server = await world.serve(kind)
    client = await world.raw(server)
    await client.sign_in()
    await client.join()
    other = await world.connect(server)
    room = await other.join_or_create("chat")

    client.say(Data(1, 1, 0, "colour", Raw(client.codec.encode({"name": "x" * 65_000}))))
    refused = client.codec.body_decoder(MessageRefused).decode((await client.hear(Data)).body)
    await room.send(Say("going on"))

    assert (refused.type, refused.code) == ("colour", "invalid")
    assert await texts_until(room, "going on") == ["going on"]
    assert server.counters.internal_errors == 0


async def test_an_unreliable_message_is_handled_and_a_bad_one_dropped_without_a_word(world: World) -> None:
    kind = chat(Fragile)
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    room.send_latest(Colour("red"), key="sky")
    room.send_latest(Colour("mauve"), key="sea")  # type: ignore[arg-type] # on purpose
    room.send_latest(Break("raise"))
    await room.send(Say("after"))

    assert await hear(room, "after") == [Said(session.player_id, "after")]
    assert kind.story.of("painted") == [("painted", "red")]
    assert server.counters.turns_failed == 1
