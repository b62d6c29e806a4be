"""Timers of a room: they ring once, in a turn of their own, unless they are cancelled."""

import asyncio

import pytest

from holdfast import Limits, Message, Player, Throttled, on
from tests.log_lines import line_of
from tests.server.world import CLOCK_S, Chat, Hero, Say, World, bell, chat, chat_of, hear, texts_until


async def test_a_timer_calls_a_method_of_the_room_with_its_arguments(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    client_room = await session.join_or_create("chat")
    room = chat_of(server, client_room)
    loop = asyncio.get_running_loop()

    begun = loop.time()
    room.after(0.1, room.announce, "second")
    room.after(0.05, room.announce, "first")

    assert await texts_until(client_room, "second") == ["first", "second"]
    assert loop.time() - begun >= 0.1 - CLOCK_S


async def test_a_cancelled_timer_does_not_ring(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    client_room = await session.join_or_create("chat")
    room = chat_of(server, client_room)
    bomb = room.after(0.02, room.announce, "boom")
    room.after(0.06, room.announce, "safe")

    bomb.cancel()
    bomb.cancel()

    assert await texts_until(client_room, "safe") == ["safe"]
    bomb.cancel()


class Defuse(Message):
    pass


class Bombs(Chat):
    gate: asyncio.Event

    @on(Defuse)
    async def defused(self, player: Player[Hero], _: Defuse) -> None:
        bomb = self.after(0.0, self.announce, "boom")
        self.story.tell("defusing")
        await self.gate.wait()
        bomb.cancel()


async def test_a_timer_that_has_rung_in_the_middle_of_a_turn_can_still_be_cancelled_by_it(world: World) -> None:
    gate = asyncio.Event()
    kind = chat(Bombs, gate=gate)
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    await room.send(Defuse())
    await kind.story.has("defusing")
    asyncio.get_running_loop().call_later(0.05, gate.set)

    await room.send(Say("safe"))

    assert await texts_until(room, "safe") == ["safe"]


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -float("inf")])
async def test_a_time_that_never_comes_is_refused(world: World, seconds: float) -> None:
    server = await world.serve(chat())
    room = await server.create_room("chat")
    assert isinstance(room, Chat)

    with pytest.raises(ValueError, match=r"after\(\) takes a number of seconds"):
        room.after(seconds, room.announce, "never", name="never")
    with pytest.raises(ValueError, match=r"every\(\) takes 0\.001 seconds or more"):
        room.every(seconds, room.announce, "never", name="never")

    assert room.remaining("never") is None


async def test_a_timer_takes_a_method_of_its_own_room_only(world: World) -> None:
    server = await world.serve(chat())
    room, other = await server.create_room("chat"), await server.create_room("chat")
    assert isinstance(other, Chat)

    for wrong in (other.announce, print, lambda: None):
        with pytest.raises(TypeError, match=r"self\.after\(5, self\.explode"):
            room.after(0.0, wrong)


class Alarmed(Chat):
    def fail(self) -> None:
        self.story.tell("fail")
        raise ZeroDivisionError("a bug of the game")

    async def fail_later(self) -> None:
        await asyncio.sleep(0)
        self.fail()


@pytest.mark.parametrize("method", ["fail", "fail_later"])
async def test_a_timer_that_raises_is_logged_by_its_name_and_the_room_goes_on(
    world: World, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    kind = chat(Alarmed)
    server = await world.serve(kind)
    session = await world.connect(server)
    client_room = await session.join_or_create("chat")
    room = chat_of(server, client_room)

    room.after(0.0, getattr(room, method))
    await kind.story.has("fail")
    await client_room.send(Say("going on"))
    await hear(client_room, "going on")

    (record,) = caplog.records
    assert line_of(record) == ("the game's code failed", {"where": method, "room": room.id, "kind": "chat"})
    assert server.counters.turns_failed == 1


async def test_timers_end_with_their_room(world: World) -> None:
    class Fused(Chat):
        def announce(self, text: str) -> None:
            self.story.tell("announced", text)

    kind = chat(Fused)
    server = await world.serve(kind, bell(kind.story))
    room = await server.create_room("chat")
    assert isinstance(room, Chat)
    room.after(0.02, room.announce, "boom")

    room.close()
    await server.create_room("bell")
    await kind.story.has("rang")

    assert kind.story.of("announced") == []


async def test_a_room_has_no_more_timers_than_its_limit(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(timers_max=3))
    session = await world.connect(server)
    client_room = await session.join_or_create("chat")
    room = chat_of(server, client_room)
    timers = [room.after(60, room.announce, "one day") for _ in range(3)]

    with pytest.raises(Throttled, match="timers_max"):
        room.after(60, room.announce, "one too many")
    timers[0].cancel()
    room.after(0.0, room.announce, "now there is space")
    await hear(client_room, "now there is space")

    room.after(60, room.announce, "and again")
