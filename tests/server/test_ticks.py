"""Ticks of a room: at their rate, and never two at a time."""

import asyncio
import logging
import time
from typing import Any

import pytest

from holdfast import Player, on
from holdfast.testing import MemoryServer, run
from tests.log_lines import line_of
from tests.server.world import CLOCK_S, Chat, Hero, Say, World, bell, chat, chat_of, hear


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

    # The first one comes within a period.
    first, *told = [dt_s for _, dt_s in kind.story.of("tick")]
    assert 0 < first <= 0.01
    assert told == pytest.approx([0.01] * len(told))
    assert len(told) in {99, 100}
    assert skipped == 0


def test_rooms_that_were_created_together_tick_at_different_moments() -> None:
    async def a_period_passes() -> list[float]:
        began = asyncio.get_running_loop().time()
        moments: list[float] = []

        class Spread(Chat):
            tick_hz = 10

            def on_tick(self, dt_s: float) -> Any:
                moments.append(asyncio.get_running_loop().time() - began)

        async with MemoryServer([chat(Spread)]) as server:
            for _ in range(20):
                await server.create_room("chat")
            await asyncio.sleep(0.1)
        return moments

    moments = run(a_period_passes())

    assert len(moments) == 20
    assert len({int(moment / 0.01) for moment in moments}) > 5


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
    assert sentence == "ticks were skipped: the room cannot keep its rate"
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
    other = bell(kind.story)
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
