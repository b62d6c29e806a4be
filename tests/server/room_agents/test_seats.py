"""Agents that a room opens itself: how they play, their seats, and the room that has them."""

import asyncio
from typing import Any

import pytest

from holdfast import (
    Duplicate,
    Invalid,
    Limits,
    Message,
    MessageRefused,
    NotFound,
    Player,
    Reason,
    Refused,
    RoomFull,
    Throttled,
    on,
)
from holdfast.core.room import context_of
from holdfast.events import Event, PlayerJoined, SessionOpened
from holdfast.schemas.events import RoomEvent
from holdfast.testing import MemoryServer
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
    host_of,
    idle,
    ids,
    opened,
    sleeping,
    table,
)

# Playing


@in_virtual_time
async def test_an_agent_plays_with_people() -> None:
    async with MemoryServer([table(None, "bot")]) as server:
        ada = await server.connect("ada", messages=[Said])
        joined = await ada.join_or_create("table")

        await joined.send(Say("hello"))

        assert [await joined.receive(), await joined.receive()] == [Said("ada", "hello"), Said("agent:bot", "HELLO")]
        (room,) = server.rooms
        assert [(player.id, player.is_agent) for player in room.players] == [("agent:bot", True), ("ada", False)]


@in_virtual_time
async def test_a_brain_has_its_room_its_player_its_data_and_reads_one_type_or_all() -> None:
    seen: list[Any] = []

    async def brain(agent: Agent) -> None:
        seen.append((agent.id, agent.player.id, agent.data.cards, agent.room.kind))
        turn = await agent.receive(Turn)
        seen.append(turn.number)
        seen.append(await agent.receive())
        agent.data.cards -= turn.number

    async with MemoryServer([table()]) as server:
        room = await created(server)
        player = opened(server, room, "bot", brain)

        player.send(Said("room", "skipped"))
        player.send(Turn(3))
        player.send(Said("room", "read"))
        await a_moment()

        assert seen == [("agent:bot", "agent:bot", 7, "table"), 3, Said("room", "read")]
        assert player.data.cards == 4


@in_virtual_time
async def test_what_an_agent_sends_wrongly_is_an_error_and_what_the_game_refuses_is_answered() -> None:
    seen: list[Any] = []

    async def brain(agent: Agent) -> None:
        for wrong in (Turn(1), "text"):
            try:
                agent.send(wrong)  # type: ignore[arg-type]
            except (NotFound, TypeError) as error:
                seen.append(type(error))
        agent.send(Say("a bad word"))
        seen.append(await agent.receive(MessageRefused))

    async with MemoryServer([table()]) as server:
        opened(server, await created(server), "bot", brain)
        await a_moment()

        assert seen == [NotFound, TypeError, MessageRefused(0, "say", "refused", "not in here")]


@in_virtual_time
async def test_an_agent_may_have_roles() -> None:
    class Gm(Message):
        pass

    class Guarded(Table):
        @on(Gm, role="gm")
        def gm(self, player: Player[Hand], gm: Gm) -> None:
            self.lines.append(("gm", player.id))

    async def brain(agent: Agent) -> None:
        agent.send(Gm())
        await sleeping(agent)

    kind = type("Table", (Guarded,), {"kind": "table"})
    async with MemoryServer([kind]) as server:
        room = await created(server)
        server.machine.call(lambda: room.open_agent("master", brain, roles=["gm"]))
        await a_moment()

        assert ("gm", "agent:master") in room.lines
        assert [player.roles for player in room.players] == [{"gm"}]


@in_virtual_time
async def test_an_agent_waits_until_something_is_so_after_any_turn_and_no_message_is_needed() -> None:
    async def play(room: Table, agent: Agent) -> None:
        await agent.until(lambda: agent.data.cards == 9)
        agent.send(Say("nine"))
        with pytest.raises(ZeroDivisionError):
            await agent.until(lambda: 1 / 0)
        with pytest.raises(TypeError, match="plain function"):
            await agent.until(sleeping)  # type: ignore[arg-type]
        await agent.until(lambda: False)

    async with MemoryServer([table(play, "bot", max_players=4)]) as server:
        ada = await server.connect("ada", messages=[Said])
        room = await created(server)
        seat = await ada.join(room.id)
        await a_moment()
        bot = room.player("agent:bot")
        assert bot is not None

        for cards in (8, 9):
            server.machine.call(room.after, 1.0, room.give, bot.id, cards)
        assert await seat.receive(Said) == Said("agent:bot", "nine")


@in_virtual_time
async def test_an_agent_hears_its_session_and_broadcasts_to_all_beside_its_room() -> None:
    heard: list[Message] = []

    async def listen(room: Table, agent: Agent) -> None:
        while True:
            heard.append(await agent.receive())

    async with MemoryServer([table(listen, "bot")]) as server:
        room = await created(server)
        await a_moment()
        heard.clear()

        is_sent = server.machine.result_of(lambda: room.players[0].session.send(Turn(1)))
        count = server.machine.result_of(lambda: server.broadcast(Turn(2)))
        server.machine.call(room.broadcast, Turn(3))
        await a_moment()

        assert (is_sent, count) == (True, 1)
        assert heard == [Turn(1), Turn(2), Turn(3)]
        session = room.players[0].session
        server.machine.call(session.disconnect)
        assert server.machine.result_of(lambda: session.send(Turn(4))) is False


# Seats


@in_virtual_time
async def test_an_agent_takes_a_seat_and_the_room_hears_of_it_after_its_turn() -> None:
    async with MemoryServer([table(idle)]) as server:
        room = await created(server)

        def both() -> None:
            room.open_agent("one", room.play)
            room.open_agent("two", room.play)
            room.lines.append("the turn is over")

        server.machine.call(context_of(room).commands.follow, both)
        await a_moment()

        assert room.lines[1:] == ["the turn is over", ("on_join", "agent:one"), ("on_join", "agent:two")]
        info = server.operate.rooms.get(room.id)
        assert (info.players, info.open_seats) == (2, 2)


@in_virtual_time
async def test_agents_that_a_room_opens_while_it_is_created_come_when_it_is_open() -> None:
    events: list[Event] = []
    server = MemoryServer([table(None, "bot")])
    server.on(Event, events.append)
    async with server:
        room = await created(server)
        await a_moment()

        assert room.lines == ["on_created", ("on_join", "agent:bot")]
        of_room = [event.name for event in events if isinstance(event, RoomEvent | PlayerJoined)]
        assert of_room == ["room.created", "seat.taken", "player.joined"]
        assert [each.transport for each in events if isinstance(each, SessionOpened)] == ["agent"]


@in_virtual_time
async def test_a_full_room_has_no_seat_for_an_agent() -> None:
    async with MemoryServer([table(idle, max_players=1)]) as server:
        ada = await server.connect("ada")
        await ada.join_or_create("table")
        (room,) = server.rooms

        with pytest.raises(RoomFull, match="all 1 seats"):
            room.open_agent("bot", sleeping)

        assert len(server.sessions) == 1


@in_virtual_time
async def test_an_agent_fills_a_seat_and_makes_way_when_it_is_kicked() -> None:
    async with MemoryServer([table(idle, "bot", max_players=1)]) as server:
        room = await created(server)
        ada = await server.connect("ada")
        with pytest.raises(RoomFull):
            await ada.join(room.id)

        server.machine.call(room.players[0].kick)
        await ada.join(room.id)

        assert ids(room) == ["ada"]
        assert ("on_leave", "agent:bot", Reason.KICKED) in room.lines


@in_virtual_time
async def test_a_name_is_used_once_in_a_room_and_again_after_it() -> None:
    async with MemoryServer([table(idle)]) as server:
        room, other = await created(server), await created(server)
        player = opened(server, room, "bot", sleeping)
        opened(server, other, "bot", sleeping)

        with pytest.raises(Duplicate, match="'bot' is in the room"):
            room.open_agent("bot", sleeping)
        server.machine.call(player.kick)
        again = opened(server, room, "bot", sleeping)

        assert again is not player
        assert ids(room) == ids(other) == ["agent:bot"]


@in_virtual_time
async def test_an_agent_may_be_named_by_its_id() -> None:
    async with MemoryServer([table(idle)]) as server:
        room = await created(server)

        bot = opened(server, room, "agent:bot", room.play)

        assert (bot.id, bot.name) == ("agent:bot", "bot")


@in_virtual_time
async def test_wrong_arguments_are_refused_at_once() -> None:
    def not_async(agent: Agent) -> None: ...

    async with MemoryServer([table()]) as server:
        room = await created(server)

        for name in ("", "agent:", "two\nlines", "x" * 123):
            with pytest.raises(Invalid, match="an agent's name"):
                room.open_agent(name, sleeping)
        for brain in (not_async, None, sleeping(None)):  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="async def"):
                room.open_agent("bot", brain)  # type: ignore[arg-type]
            if asyncio.iscoroutine(brain):
                brain.close()
        with pytest.raises(TypeError, match="named by text"):
            room.open_agent(7, sleeping)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r'write roles=\["gm"\]'):
            room.open_agent("bot", sleeping, roles="gm")

        assert len(server.sessions) == 0
        assert context_of(room).seats.used == 0


@in_virtual_time
async def test_a_room_has_a_bounded_number_of_agents_and_so_has_the_node() -> None:
    limits = Limits(agents_max=2, sessions_max=3)
    async with MemoryServer([table()], limits=limits) as server:
        room, other = await created(server), await created(server)
        opened(server, room, "one", sleeping)
        opened(server, room, "two", sleeping)

        with pytest.raises(Throttled, match="agents_max"):
            room.open_agent("three", sleeping)
        opened(server, other, "one", sleeping)
        with pytest.raises(Throttled, match="this node"):
            other.open_agent("two", sleeping)


@in_virtual_time
async def test_a_locked_room_may_open_agents_and_a_closing_one_may_not() -> None:
    async with MemoryServer([table()]) as server:
        room = await created(server)
        server.machine.call(room.lock)
        opened(server, room, "bot", sleeping)

        server.machine.call(room.close)

        with pytest.raises(NotFound, match="closing"):
            room.open_agent("late", sleeping)
        await a_moment()
        assert len(server.sessions) == 0


@in_virtual_time
async def test_an_agent_whom_on_join_refuses_never_plays() -> None:
    played: list[str] = []

    async def brain(agent: Agent) -> None:
        played.append(agent.id)

    def on_join(room: Table, player: Player[Hand]) -> None:
        raise Refused("no bots") if player.id == "agent:one" else ZeroDivisionError

    async with MemoryServer([table(on_join=on_join)], allow_errors=ZeroDivisionError) as server:
        room = await created(server)
        for name in ("one", "two"):
            opened(server, room, name, brain)
        await a_moment()

        assert played == []
        assert room.lines[1:] == [("on_leave", f"agent:{name}", Reason.JOIN_FAILED) for name in ("one", "two")]
        assert len(server.sessions) == 0
        assert len(server.failures.errors) == 1


# Emptiness, host


@in_virtual_time
async def test_a_room_with_only_agents_is_empty() -> None:
    async with MemoryServer([table(None, "bot", empty_ttl_s=10.0)]) as server:
        ada = await server.connect("ada")
        joined = await ada.join_or_create("table")
        (room,) = server.rooms
        assert isinstance(room, Table)

        await joined.leave()
        await asyncio.sleep(9.0)
        assert len(server.rooms) == 1
        await asyncio.sleep(2.0)

        assert room.lines[-2:] == [("on_leave", "agent:bot", Reason.ROOM_CLOSED), "on_destroyed"]
        assert len(server.rooms) == 0
        assert [session.player_id for session in server.sessions] == ["ada"]


@in_virtual_time
async def test_a_room_that_only_agents_have_joined_was_never_joined() -> None:
    async with MemoryServer([table(None, "bot", empty_ttl_s=1000.0)], limits=Limits(unjoined_s=5.0)) as server:
        room = await created(server)

        await asyncio.sleep(6.0)

        assert server.operate.rooms.get(room.id).reason == "never_joined"
        assert len(server.sessions) == 0


@in_virtual_time
async def test_agents_that_come_and_go_do_not_extend_the_time_of_an_empty_room() -> None:
    async def restless(room: Table, agent: Agent) -> None:
        await asyncio.sleep(3.0)

    def on_leave(room: Table, player: Player[Hand], reason: Reason) -> None:
        if reason is Reason.LEFT and player.is_agent:
            room.open_agent("bot", room.play)

    async with MemoryServer([table(restless, "bot", on_leave=on_leave, empty_ttl_s=10.0)]) as server:
        ada = await server.connect("ada")
        joined = await ada.join_or_create("table")
        await joined.leave()

        await asyncio.sleep(11.0)

        assert len(server.rooms) == 0
        assert len(server.sessions) == 1


@in_virtual_time
async def test_an_agent_is_host_only_if_the_game_says_so() -> None:
    async with MemoryServer([table(None, "bot", election="oldest")]) as server:
        room = await created(server)
        await a_moment()
        assert host_of(room) == ""
        ada = await server.connect("ada")
        await ada.join(room.id)
        assert host_of(room) == "ada"

        bot = room.player("agent:bot")
        assert bot is not None
        server.machine.call(room.name_host, bot)
        assert host_of(room) == "agent:bot"
        server.machine.call(bot.kick)
        assert host_of(room) == "ada"

        bot = opened(server, room, "bot", sleeping)
        room.successor = "agent:bot"
        server.machine.call(room.players[0].kick)
        assert room.host is bot


@in_virtual_time
async def test_a_server_that_drains_does_not_wait_for_agents() -> None:
    async with MemoryServer([table(None, "bot")]) as server:
        await created(server)
        await a_moment()
        before = asyncio.get_running_loop().time()

        await server.machine.do(server.drain(60.0))

        assert asyncio.get_running_loop().time() - before < 1.0
