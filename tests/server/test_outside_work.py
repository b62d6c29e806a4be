"""What a room has done outside its turns, and how the result comes back to it."""

import asyncio
import functools
from collections.abc import Coroutine
from typing import Any

import pytest

from holdfast import Limits, Message, MessageRefused, Player, Throttled, on
from tests.log_lines import line_of
from tests.server.world import Chat, Hero, Said, Say, World, chat, hear, texts_until


class Fetch(Message):
    how: str = ""


class Librarian(Chat):
    """Asks the outside world for things."""

    gate: asyncio.Event

    @on(Fetch)
    def fetch(self, player: Player[Hero], fetch: Fetch) -> None:
        match fetch.how:
            case "partial":
                self.spawn(self.look_up(), functools.partial(self.found_for, player))
            case "fail":
                self.spawn(self.fail())
            case "fail then":
                self.spawn(self.look_up(), self.fail_then)
            case _:
                self.spawn(self.look_up(), self.found)

    @on(Say)
    async def said(self, player: Player[Hero], say: Say) -> None:
        self.story.tell("begin")
        await self.gate.wait()
        self.story.tell("end")
        self.broadcast(Said(player.id, say.text))

    async def look_up(self) -> str:
        self.story.tell("look_up")
        await asyncio.sleep(0)
        self.story.tell("looked_up")
        return "the answer"

    async def fail(self) -> None:
        raise ZeroDivisionError("a bug of the game")

    def found(self, result: str) -> None:
        self.story.tell("found", result)
        self.announce(result)

    def found_for(self, player: Player[Hero], result: str) -> None:
        player.send(Said("room", f"{result} for you"))

    def fail_then(self, result: str) -> None:
        raise ZeroDivisionError("a bug of the game")


@pytest.mark.parametrize(("how", "heard"), [("", "the answer"), ("partial", "the answer for you")])
async def test_the_result_of_outside_work_comes_back_to_the_room(world: World, how: str, heard: str) -> None:
    server = await world.serve(chat(Librarian, gate=asyncio.Event()))
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.send(Fetch(how))

    assert await texts_until(room, heard) == [heard]


async def test_the_result_of_outside_work_waits_for_its_turn(world: World) -> None:
    gate = asyncio.Event()
    kind = chat(Librarian, gate=gate)
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    await room.send(Fetch())
    await room.send(Say("long"))
    await kind.story.has("looked_up")
    await session.search()

    gate.set()
    await texts_until(room, "the answer")

    order = [line[0] for line in kind.story.lines if line[0] in {"begin", "looked_up", "end", "found"}]
    assert order == ["begin", "looked_up", "end", "found"]


@pytest.mark.parametrize(("how", "what"), [("fail", "spawned work"), ("fail then", "fail_then")])
async def test_outside_work_that_fails_is_logged_and_the_room_goes_on(
    world: World, caplog: pytest.LogCaptureFixture, how: str, what: str
) -> None:
    gate = asyncio.Event()
    gate.set()
    server = await world.serve(chat(Librarian, gate=gate))
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.send(Fetch(how))
    await room.send(Fetch())
    await hear(room, "the answer")

    (record,) = caplog.records
    assert line_of(record) == ("the game's code failed", {"where": what, "room": room.id, "kind": "chat"})
    assert server.counters.turns_failed == 1


class Endless(Chat):
    async def work(self) -> None:
        self.story.tell("working")
        try:
            await asyncio.Event().wait()
        finally:
            self.story.tell("cancelled")

    def done(self, _: None) -> None:
        self.story.tell("done")


async def test_outside_work_is_cancelled_with_the_room(world: World) -> None:
    kind = chat(Endless)
    server = await world.serve(kind)
    room = await server.create_room("chat")
    assert isinstance(room, Endless)
    room.spawn(room.work(), room.done)
    await kind.story.has("working")

    room.spawn(room.work(), room.done)
    room.close()
    await kind.story.has("cancelled")

    assert kind.story.of("done") == []
    assert server.counters.turns_failed == 0
    assert len(kind.story.of("working")) == 1, "what had not begun never does, without a warning"


async def test_a_room_has_no_more_outside_work_than_its_limit(world: World) -> None:
    kind = chat(Endless)
    server = await world.serve(kind, limits=Limits(spawned_max=2))
    room = await server.create_room("chat")
    assert isinstance(room, Endless)
    room.spawn(room.work())
    room.spawn(room.work())
    one_too_many: Coroutine[Any, Any, None] = room.work()

    with pytest.raises(Throttled, match="spawned_max"):
        room.spawn(one_too_many)

    assert one_too_many.cr_frame is None, "it is closed: nobody else will await it"  # type: ignore[attr-defined]
    await kind.story.has("working", times=2)


async def test_a_limit_that_a_handler_runs_into_is_told_to_its_client(world: World) -> None:
    server = await world.serve(chat(Librarian, gate=asyncio.Event()), limits=Limits(spawned_max=0))
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.send(Fetch())
    refused = await room.receive()

    assert isinstance(refused, MessageRefused)
    assert refused.code == "throttled"
