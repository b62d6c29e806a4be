"""Brains of a room's agents: how they end, and what becomes of one that does not read."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from holdfast import (
    Limits,
    NotSeated,
    Player,
    Reason,
    Refused,
    RoomUpdated,
    on,
)
from holdfast.core.room import context_of
from holdfast.events import Ended, PlayerLeft
from holdfast.testing import FaultyStore, MemoryServer
from tests.log_lines import line_of
from tests.server.durability.bench import in_virtual_time
from tests.server.room_agents.table import (
    Agent,
    Hand,
    Said,
    Say,
    Table,
    Turn,
    a_moment,
    created,
    idle,
    ids,
    opened,
    table,
)

# The end of a brain


@in_virtual_time
async def test_a_brain_that_returns_leaves() -> None:
    ended: list[Ended] = []

    async def brain(agent: Agent) -> None:
        agent.send(Say("good bye"))

    async with MemoryServer([table()]) as server:
        server.on(Ended, ended.append)
        room = await created(server)
        opened(server, room, "bot", brain)
        await a_moment()

        assert room.lines[1:] == [("on_join", "agent:bot"), ("on_leave", "agent:bot", Reason.LEFT)]
        assert [(each.player, each.reason) for each in ended] == [("agent:bot", Reason.BYE)]
        assert len(server.sessions) == 0


@in_virtual_time
async def test_a_brain_that_crashes_frees_its_seat_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def brain(agent: Agent) -> None:
        await asyncio.sleep(1.0)
        raise ZeroDivisionError("a bug of the bot")

    async def cancelled(agent: Agent) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.cancel()
        await waiting

    caplog.set_level(logging.ERROR)
    left: list[PlayerLeft] = []
    async with MemoryServer([table()], allow_errors=(ZeroDivisionError, RuntimeError)) as server:
        server.on(PlayerLeft, left.append)
        room = await created(server)
        opened(server, room, "bot", brain)
        opened(server, room, "odd", cancelled)
        await asyncio.sleep(2.0)

        assert room.lines[-2:] == [
            ("on_leave", "agent:odd", Reason.AGENT_FAILED),
            ("on_leave", "agent:bot", Reason.AGENT_FAILED),
        ]
        assert [each.reason for each in left] == [Reason.AGENT_FAILED] * 2
        assert len(server.sessions) == 0
        assert context_of(room).seats.used == 0
        lines = [line_of(record)[1] for record in caplog.records if record.levelno == logging.ERROR]
        assert [(line["where"], line["room"], line["player"]) for line in lines] == [
            (f"the brain of agent {name!r}", room.id, f"agent:{name}") for name in ("odd", "bot")
        ]


@in_virtual_time
async def test_the_game_may_open_a_crashed_agent_again() -> None:
    async def brain(room: Table, agent: Agent) -> None:
        agent.data.cards += 1
        await asyncio.sleep(1.0)
        raise ZeroDivisionError

    def on_leave(room: Table, player: Player[Hand], reason: Reason) -> None:
        if reason is Reason.AGENT_FAILED:
            room.lines.append(player.data.cards)
            room.open_agent("bot", room.play)

    async with MemoryServer([table(brain, "bot", on_leave=on_leave)], allow_errors=ZeroDivisionError) as server:
        room = await created(server)
        await asyncio.sleep(3.5)

        assert room.lines[1:] == [("on_join", "agent:bot"), *[8, ("on_join", "agent:bot")] * 3]
        assert len(server.sessions) == 1


@pytest.mark.parametrize("is_crash", [True, False])
@in_virtual_time
async def test_a_brain_that_ends_at_once_and_is_opened_again_and_again_does_not_take_all_time(is_crash: bool) -> None:
    starts: list[float] = []

    async def brain(room: Table, agent: Agent) -> None:
        starts.append(asyncio.get_running_loop().time())
        if len(starts) > 20:
            await asyncio.Event().wait()
        if is_crash:
            raise ZeroDivisionError

    def on_leave(room: Table, player: Player[Hand], reason: Reason) -> None:
        if reason in {Reason.AGENT_FAILED, Reason.LEFT}:
            room.open_agent("bot", room.play)

    async with MemoryServer([table(brain, "bot", on_leave=on_leave)], allow_errors=ZeroDivisionError) as server:
        await created(server)
        await asyncio.sleep(3.5)

        assert [round(start - starts[0], 1) for start in starts] == [0.0, 1.0, 2.0, 3.0]


@in_virtual_time
async def test_who_kicks_an_agent_or_ends_its_session_ends_its_brain() -> None:
    ends: list[str] = []

    async def brain(agent: Agent) -> None:
        try:
            await agent.receive(Turn)
        finally:
            ends.append(agent.id)
            with pytest.raises(NotSeated):
                agent.send(Say("still here"))
            with pytest.raises(NotSeated):
                await agent.receive()

    async with MemoryServer([table()]) as server:
        room = await created(server)
        one, two, three = (opened(server, room, name, brain) for name in ("one", "two", "three"))
        await a_moment()

        server.machine.call(one.kick, "away with you")
        await server.machine.do(server.operate.sessions.end(two.session.id, ""))
        await server.machine.do(server.operate.rooms.kick(room.id, three.id, ""))
        await a_moment()

        assert ends == ["agent:one", "agent:two", "agent:three"]
        assert [line[2] for line in room.lines if line[0] == "on_leave"] == [Reason.KICKED] * 3
        assert len(server.sessions) == 0


@in_virtual_time
async def test_a_brain_may_be_kicked_by_its_own_message_and_may_end_the_room() -> None:
    ends: list[Any] = []

    class Strict(Table):
        @on(Say)
        def said(self, player: Player[Hand], say: Say) -> None:
            player.kick()

    async def rude(agent: Agent) -> None:
        try:
            agent.send(Say("nonsense"))
            ends.append("sent")
            await asyncio.sleep(0)
            ends.append("never")
        finally:
            ends.append("over")

    async def closing(agent: Agent) -> None:
        try:
            agent.room.close()
            await asyncio.sleep(5.0)
        finally:
            ends.append("closed")

    kind = type("Table", (Strict,), {"kind": "table"})
    async with MemoryServer([kind]) as server:
        room = await created(server)
        opened(server, room, "rude", rude)
        await a_moment()
        assert ends == ["sent", "over"]

        opened(server, room, "last", closing)
        await a_moment()

        assert ends[2:] == ["closed"]
        assert len(server.rooms) == len(server.sessions) == 0


@in_virtual_time
async def test_the_end_of_a_room_waits_for_its_brains() -> None:
    async def tidy(room: Table, agent: Agent) -> None:
        try:
            await agent.receive(Turn)
        finally:
            await asyncio.sleep(0.5)
            room.lines.append("tidied up")

    async with MemoryServer([table(tidy, "bot")]) as server:
        room = await created(server)
        await a_moment()

        server.machine.call(room.close)
        await asyncio.sleep(1.0)

        assert room.lines[-3:] == [("on_leave", "agent:bot", Reason.ROOM_CLOSED), "tidied up", "on_destroyed"]


@in_virtual_time
async def test_a_brain_that_does_not_end_does_not_keep_its_room(caplog: pytest.LogCaptureFixture) -> None:
    stop = asyncio.Event()

    async def stubborn(room: Table, agent: Agent) -> None:
        while not stop.is_set():
            try:
                await stop.wait()
            except asyncio.CancelledError:
                room.lines.append("no")

    async with MemoryServer([table(stubborn, "bot")]) as server:
        room = await created(server)
        await a_moment()

        server.machine.call(room.close)
        await asyncio.sleep(5.0)

        assert room.lines[-1] == "on_destroyed"
        assert len(server.rooms) == 0
        assert "brains of agents do not end" in caplog.text
        stop.set()


@in_virtual_time
async def test_a_server_that_stops_ends_the_brains_of_all_rooms() -> None:
    ends: list[str] = []

    async def brain(room: Table, agent: Agent) -> None:
        try:
            await agent.receive(Turn)
        finally:
            await asyncio.sleep(0.1)
            ends.append(room.kind)

    memory = table(brain, "bot")
    lasting = type("Lasting", (Table,), {"bots": ("bot",), "play": brain, "durability": "commit", "state": None})
    async with MemoryServer([memory, lasting], store=FaultyStore()) as server:
        await server.create_room("table")
        await server.create_room("lasting")
        await a_moment()

        await server.stop()

        assert sorted(ends) == ["lasting", "table"]


@in_virtual_time
async def test_a_room_that_its_game_refuses_leaves_no_agent_behind() -> None:
    def on_create(room: Table, config: dict[str, Any]) -> None:
        room.lines = []
        room.open_agent("bot", room.play)
        raise Refused("no such map")

    async with MemoryServer([table(on_create=on_create)]) as server:
        with pytest.raises(Refused, match="no such map"):
            await server.create_room("table")
        await a_moment()

        assert len(server.sessions) == 0


@in_virtual_time
async def test_an_agent_that_is_gone_before_its_room_is_open_is_never_heard_of() -> None:
    def on_created(room: Table) -> None:
        room.player("agent:kicked")
        for name in ("kicked", "ended"):
            player = room.open_agent(name, room.play)
            if name == "kicked":
                player.kick()
            else:
                player.session.end()

    async with MemoryServer([table(on_created=on_created)]) as server:
        room = await created(server)
        await a_moment()

        assert room.lines == []
        assert context_of(room).seats.used == 0
        assert len(server.sessions) == 0


# What an agent does not read


async def _answers_itself(agent: Agent, go_on: Callable[[], bool]) -> None:
    agent.send(Say("hello"))
    async for message in agent:
        if isinstance(message, Said) and go_on():
            agent.send(Say("hello"))


async def _is_refused(agent: Agent, go_on: Callable[[], bool]) -> None:
    while go_on():
        with suppress(Refused):
            await agent.ask(Say("a bad word"))


async def _waits_for_what_is_true(agent: Agent, go_on: Callable[[], bool]) -> None:
    while go_on():
        await agent.until(lambda: True)


@pytest.mark.parametrize("brain", [_answers_itself, _is_refused, _waits_for_what_is_true])
@in_virtual_time
async def test_a_brain_that_never_has_to_wait_leaves_others_their_time(brain: Any) -> None:
    times = iter(range(20_000))

    async def play(room: Table, agent: Agent) -> None:
        await brain(agent, lambda: next(times, None) is not None)

    async with MemoryServer([table(play, "bot")]) as server:
        await created(server)
        await server.connect("ada")

        assert next(times, None) is not None, "nobody had a turn before the brain ended"


@in_virtual_time
async def test_a_brain_that_never_reads_lives_on() -> None:
    async with MemoryServer([table(idle, "bot")], limits=Limits(kept_messages_max=8)) as server:
        room = await created(server)
        await a_moment()

        for number in range(100):
            room.broadcast(Said("room", str(number)))
        await asyncio.sleep(1.0)

        assert ids(room) == ["agent:bot"]
        assert not [line for line in room.lines if line[0] == "on_resync"]


@in_virtual_time
async def test_a_brain_that_reads_too_slowly_is_sent_the_current_state() -> None:
    heard: list[Any] = []

    async def slow(room: Table, agent: Agent) -> None:
        await asyncio.sleep(1.0)
        while True:
            heard.append(await agent.receive())

    async with MemoryServer([table(slow, "bot")], limits=Limits(kept_messages_max=8)) as server:
        room = await created(server)
        await a_moment()
        for number in range(100):
            room.broadcast(Said("room", str(number)))
        await asyncio.sleep(1.0)
        room.broadcast(Said("room", "afterwards"))
        await a_moment()

        state, update, after = heard
        assert state == Said("room", "you have 7 cards")
        assert isinstance(update, RoomUpdated)
        assert after == Said("room", "afterwards")

        heard.clear()
        # More at once than fits, while it waits.
        for number in range(9):
            room.broadcast(Said("room", str(number)))
        await a_moment()

        assert heard[0] == Said("room", "you have 7 cards")
        assert server.counters.streams_overflowed == 2
