import asyncio
import functools
import logging
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from holdfast import ClientRoom, Limits, Message, MessageRefused, Player, Server, Throttled, on
from holdfast.testing import MemoryServer, run
from tests.log_lines import line_of
from tests.server.world import CLOCK_S, Chat, Hero, Said, Say, Story, World, chat, hear, room_of, texts_until


def chat_of(server: Server, client_room: ClientRoom) -> Chat:
    room = room_of(server, client_room)
    assert isinstance(room, Chat)
    return room


# Ticks


class Clock(Chat):
    tick_hz = 100

    def on_tick(self, dt_s: float) -> Any:
        self.story.tell("tick", dt_s)


def test_ticks_come_at_their_rate_and_are_told_how_long_it_was_since_the_last_one() -> None:
    kind = chat(Clock)

    async def a_second_passes() -> int:
        async with MemoryServer([kind]) as server:
            await server.create_room("chat")
            await asyncio.sleep(1.005)
            return server.counters.ticks_skipped

    skipped = run(a_second_passes())

    told = [dt_s for _, dt_s in kind.story.of("tick")]
    assert told == pytest.approx([0.01] * 100)
    assert skipped == 0


async def test_a_room_without_a_rate_has_no_ticks(world: World) -> None:
    kind = chat(Clock, tick_hz=0)
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    chat_of(server, room).after(0.05, chat_of(server, room).announce, "later")
    await hear(room, "later")

    assert kind.story.of("tick") == []


class Hiccup(Clock):
    """Blocks the whole loop in its third tick, as a game with a slow algorithm would."""

    BLOCKED_S = 0.3

    def on_tick(self, dt_s: float) -> None:
        super().on_tick(dt_s)
        if len(self.story.of("tick")) == 3:
            time.sleep(self.BLOCKED_S)


async def test_ticks_that_are_late_are_skipped_and_do_not_pile_up(world: World) -> None:
    kind = chat(Hiccup)
    server = await world.serve(kind)
    await server.create_room("chat")

    await kind.story.has("tick", times=10)

    told = [dt_s for _, dt_s in kind.story.of("tick")]
    times = kind.story.when("tick")
    assert told[3] >= Hiccup.BLOCKED_S - CLOCK_S, "the one after the hiccup is told how long it was"
    assert times[9] - times[3] >= 5 * 0.01 - 0.005, "the others come at their rate and not in a burst"
    assert server.counters.ticks_skipped >= 25


async def test_skipped_ticks_are_complained_about_once_in_a_while_and_not_each(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    class TooSlow(Clock):
        tick_hz = 200

        def on_tick(self, dt_s: float) -> None:
            super().on_tick(dt_s)
            time.sleep(0.012)

    kind = chat(TooSlow)
    server = await world.serve(kind)
    room = await server.create_room("chat")

    await kind.story.has("tick", times=10)

    assert server.counters.ticks_skipped >= 5
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    sentence, fields = line_of(record)
    assert sentence == "ticks were skipped: so many a second are too many"
    assert (fields["room"], fields["kind"]) == (room.id, "chat")


async def test_a_tick_that_is_not_over_when_the_next_is_due_makes_it_skip(world: World) -> None:
    may_go_on = asyncio.Event()

    class Long(Clock):
        async def on_tick(self, dt_s: float) -> None:
            self.story.tell("begin")
            await may_go_on.wait()
            self.story.tell("end")

    kind = chat(Long)
    server = await world.serve(kind)
    await server.create_room("chat")
    await kind.story.has("begin")
    asyncio.get_running_loop().call_later(0.1, may_go_on.set)

    await kind.story.has("begin", times=3)

    assert [line[0] for line in kind.story.lines[2:7]] == ["begin", "end", "begin", "end", "begin"]
    assert server.counters.ticks_skipped >= 5


async def test_a_tick_that_raises_is_logged_and_the_next_one_comes(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    class Stumbling(Clock):
        def on_tick(self, dt_s: float) -> None:
            super().on_tick(dt_s)
            if len(self.story.of("tick")) == 2:
                raise ZeroDivisionError("a bug of the game")

    kind = chat(Stumbling)
    server = await world.serve(kind)
    room = await server.create_room("chat")

    await kind.story.has("tick", times=4)

    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert line_of(record) == ("the game's code failed", {"where": "on_tick", "room": room.id, "kind": "chat"})
    assert server.counters.turns_failed == 1


async def test_a_closed_room_ticks_no_more(world: World) -> None:
    kind = chat(Clock)
    server = await world.serve(kind)
    first, second = await server.create_room("chat"), await server.create_room("chat")
    await kind.story.has("tick", times=4)

    first.close()
    second.close()
    ticks = len(kind.story.of("tick"))
    other = chat_room_that_says(kind.story)
    await (await world.serve(other)).create_room("bell")
    await kind.story.has("rang")

    assert len(kind.story.of("tick")) == ticks
    assert (len(server.rooms), server.counters.rooms_ended) == (0, 2)


class Finale(Clock):
    """Closes in the middle of a long turn, while ticks and timers wait."""

    @on(Say)
    async def said(self, player: Player[Hero], say: Say) -> None:
        self.after(0.0, self.announce, "never")
        await asyncio.sleep(0.05)
        self.close()


async def test_what_still_waits_when_a_room_ends_is_dropped_without_a_complaint(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    kind = chat(Finale)
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    await room.send(Say("the end"))
    await room.send(Say("too late"))
    assert [message async for message in room] == []
    await kind.story.has("on_destroyed")

    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert server.counters.turns_failed == 0


def chat_room_that_says(story: Story) -> type[Chat]:
    """A room that rings once, long after: what has not happened by then does not happen."""

    class Bell(Chat):
        kind = "bell"

        def on_created(self) -> None:
            self.after(0.1, self.ring)

        def ring(self) -> None:
            self.story.tell("rang")

    Bell.story = story
    return Bell


# Timers


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
    server = await world.serve(kind, chat_room_that_says(kind.story))
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


# Outside work


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
