"""Agents that a room opens itself: their seats, their brains, and what becomes of both."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar

import pytest

from holdfast import (
    ClientRoom,
    Duplicate,
    Invalid,
    Limits,
    Message,
    MessageRefused,
    NotFound,
    NotSeated,
    Player,
    PlayerData,
    Reason,
    Refused,
    Room,
    RoomAgent,
    RoomFull,
    RoomUpdated,
    SessionEnded,
    Throttled,
    on,
)
from holdfast.core.room import context_of
from holdfast.events import Ended, Event, PlayerJoined, PlayerLeft, Restored, Resumed, SessionOpened
from holdfast.schemas.events import RoomEvent
from holdfast.testing import FaultyStore, MemoryServer
from tests.log_lines import line_of
from tests.server.durability.bench import in_virtual_time, until


class Say(Message):
    text: str


class Said(Message):
    who: str
    text: str


class Turn(Message):
    number: int


class Hand(PlayerData):
    cards: int = 0

    def reset(self) -> None:
        self.cards = 0


Agent = RoomAgent[Hand]


class Table(Room[Hand]):
    """Repeats what is said; opens the agents in `bots` when it is created."""

    max_players = 4
    bots: ClassVar[tuple[str, ...]] = ()
    brain: ClassVar[Any]

    def on_create(self, config: dict[str, Any]) -> Any:
        self.lines: list[Any] = []
        for name in self.bots:
            self.open_agent(name, self.play)

    def on_recover(self) -> None:
        self.lines = ["on_recover"]
        for name in self.bots:
            self.open_agent(name, self.play)

    def on_created(self) -> None:
        self.lines.append("on_created")

    def on_join(self, player: Player[Hand]) -> Any:
        self.lines.append(("on_join", player.id))
        player.data.cards += 7

    def on_drop(self, player: Player[Hand]) -> None:
        self.lines.append(("on_drop", player.id))

    def on_rejoin(self, player: Player[Hand]) -> None:
        self.lines.append(("on_rejoin", player.id, player.connected))

    def on_resync(self, player: Player[Hand]) -> None:
        self.lines.append(("on_resync", player.id))
        player.send(Said("room", f"you have {player.data.cards} cards"))

    def on_leave(self, player: Player[Hand], reason: Reason) -> None:
        self.lines.append(("on_leave", player.id, reason))

    def on_destroyed(self) -> None:
        self.lines.append("on_destroyed")

    @on(Say)
    def said(self, player: Player[Hand], say: Say) -> None:
        if say.text == "a bad word":
            raise Refused("not in here")
        self.broadcast(Said(player.id, say.text))

    async def play(self, agent: Agent) -> None:
        """Repeats what people say, in capitals."""
        async for message in agent:
            if isinstance(message, Said) and not message.who.startswith(("agent:", "room")):
                agent.send(Say(message.text.upper()))


def table(brain: Callable[..., Any] | None = None, *bots: str, **settings: Any) -> type[Table]:
    """A kind of room called "table" whose agents are played by this."""
    play = {"play": brain} if brain is not None else {}
    return type("Table", (Table,), {"kind": "table", "bots": bots, **play, **settings})


async def created(server: MemoryServer) -> Table:
    room = await server.create_room("table")
    assert isinstance(room, Table)
    return room


def opened(server: MemoryServer, room: Table, name: str, brain: Any) -> Player[Hand]:
    """An agent that the room opens now."""
    found: list[Player[Hand]] = []
    server.machine.call(lambda: found.append(room.open_agent(name, brain)))
    return found[0]


async def idle(room: Table, agent: Agent) -> None:
    await asyncio.Event().wait()


async def sleeping(agent: Agent) -> None:
    await asyncio.Event().wait()


async def a_moment() -> None:
    await asyncio.sleep(0.1)


async def _first(room: ClientRoom, count: int) -> AsyncIterator[Said]:
    """The next words that somebody says."""
    while count:
        message = await room.receive()
        if isinstance(message, Said) and message.who != "room":
            count -= 1
            yield message


def host_of(room: Room[Any]) -> str:
    return room.host.id if room.host is not None else ""


def ids(room: Room[Any]) -> list[str]:
    return [player.id for player in room.players]


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
async def test_wrong_arguments_are_refused_at_once() -> None:
    def not_async(agent: Agent) -> None: ...

    async with MemoryServer([table()]) as server:
        room = await created(server)

        for name in ("", "two\nlines", "x" * 123):
            with pytest.raises(Invalid, match="an agent's name"):
                room.open_agent(name, sleeping)
        for brain in (not_async, None, sleeping(None)):  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="async def"):
                room.open_agent("bot", brain)  # type: ignore[arg-type]
            if asyncio.iscoroutine(brain):
                brain.close()

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


# Drops


@in_virtual_time
async def test_an_agent_that_is_disconnected_is_held_and_may_be_opened_again() -> None:
    brains: list[str] = []

    async def brain(room: Table, agent: Agent) -> None:
        brains.append("begins")
        try:
            while True:
                brains.append(str(await agent.receive()))
        except asyncio.CancelledError:
            brains.append("ends")
            raise

    async with MemoryServer([table(brain, "bot", grace_s=10.0)]) as server:
        room = await created(server)
        await a_moment()
        (player,) = room.players
        server.machine.call(room.own, player, "sword")

        server.machine.call(player.session.disconnect)
        await a_moment()
        assert [each.connected for each in room.players] == [False]
        assert brains == ["begins", "ends"]
        again = opened(server, room, "bot", room.play)
        await a_moment()

        assert again is player
        assert player.connected
        assert player.owned == {"sword"}
        assert room.lines[2:] == [
            ("on_drop", "agent:bot"),
            ("on_resync", "agent:bot"),
            ("on_rejoin", "agent:bot", True),
        ]
        assert brains[2] == "begins"
        assert "you have 7 cards" in brains[3]

        server.machine.call(player.session.disconnect)
        await asyncio.sleep(11.0)

        assert room.lines[-1] == ("on_leave", "agent:bot", Reason.GRACE_ENDED)
        assert brains[-1] == "ends"
        assert len(server.sessions) == 0


@in_virtual_time
async def test_the_game_may_open_a_disconnected_agent_again_as_soon_as_it_hears_of_it() -> None:
    def on_drop(room: Table, player: Player[Hand]) -> None:
        room.open_agent("bot", room.play)

    async with MemoryServer([table(None, "bot", on_drop=on_drop)]) as server:
        ada = await server.connect("ada", messages=[Said])
        joined = await ada.join_or_create("table")
        (room,) = server.rooms
        for _ in range(2):
            server.machine.call(room.players[0].session.disconnect)
            await a_moment()

        await joined.send(Say("hello"))

        assert [message.text async for message in _first(joined, 2)] == ["hello", "HELLO"]
        assert len(server.sessions) == 2


@in_virtual_time
async def test_a_room_with_hard_disconnects_loses_an_agent_that_is_disconnected() -> None:
    async with MemoryServer([table(idle, "bot", disconnect="hard")]) as server:
        room = await created(server)
        await a_moment()
        (player,) = room.players

        server.machine.call(player.session.disconnect)
        await a_moment()

        assert room.lines[-1] == ("on_leave", "agent:bot", Reason.DROPPED)
        assert len(server.sessions) == 0


@in_virtual_time
async def test_agents_stay_for_the_next_round() -> None:
    async with MemoryServer([table(idle, "bot")]) as server:
        room = await created(server)
        await a_moment()
        for step in (room.start, room.end, room.start):
            server.machine.call(step)

        assert [(player.id, player.data.cards) for player in room.players] == [("agent:bot", 0)]


# Recovery


class State(PlayerData):
    rounds: int = 0


class Lasting(Table):
    state: State

    def on_create(self, config: dict[str, Any]) -> Any:
        self.state = State()
        return super().on_create(config)


def lasting(durability: str, *bots: str, **settings: Any) -> type[Lasting]:
    known = {"kind": "table", "bots": bots, "durability": durability, "checkpoint_s": 0.1, "grace_s": 10.0}
    return type("Lasting", (Lasting,), {**known, **settings})


@pytest.mark.parametrize("durability", ["commit", "checkpoint"])
@pytest.mark.parametrize("is_crash", [True, False])
@in_virtual_time
async def test_a_recovered_room_opens_its_agents_again_at_the_same_seats(durability: str, is_crash: bool) -> None:
    async with MemoryServer([lasting(durability, "one", "two")], store=FaultyStore()) as server:
        ada = await server.connect("ada", messages=[Said])
        joined = await ada.join_or_create("table")
        (room,) = server.rooms
        before = ids(room)
        player = room.player("agent:two")
        assert player is not None

        def play() -> None:
            player.data.cards = 3
            room.own(player, "sword")

        server.machine.call(context_of(room).commands.follow, play)
        await asyncio.sleep(1.0)
        events: list[Event] = []
        if is_crash:
            server.crash()
        else:
            await server.stop()
        server.on(Restored, events.append)
        server.on(Resumed, events.append)
        await server.start()
        await asyncio.sleep(5.0)

        (room,) = server.rooms
        assert isinstance(room, Lasting)
        assert ids(room) == before == ["agent:one", "agent:two", "ada"]
        assert [each.connected for each in room.players] == [True, True, True]
        again = room.player("agent:two")
        assert again is not None
        assert (again.data.cards, again.owned, again.is_agent) == (3, {"sword"}, True)
        assert room.lines[:5] == [
            "on_recover",
            ("on_resync", "agent:one"),
            ("on_rejoin", "agent:one", True),
            ("on_resync", "agent:two"),
            ("on_rejoin", "agent:two", True),
        ]
        told = [each.name for each in events if getattr(each, "player", "") == "agent:one"]
        assert told == ["session.restored", "session.resumed"]
        await joined.send(Say("hello"))
        heard = [message async for message in _first(joined, 3)]
        assert [message.text for message in heard] == ["hello", "HELLO", "HELLO"]


@in_virtual_time
async def test_a_held_seat_that_no_agent_takes_again_is_freed_after_the_grace_and_keeps_no_room() -> None:
    def on_recover(room: Lasting) -> None:
        room.lines = []

    async with MemoryServer([lasting("commit", "bot", on_recover=on_recover)], store=FaultyStore()) as server:
        ada = await server.connect("ada")
        joined = await ada.join_or_create("table")
        await a_moment()
        server.crash()
        await server.start()
        await asyncio.sleep(5.0)
        (room,) = server.rooms
        assert isinstance(room, Lasting)
        assert [(player.id, player.connected) for player in room.players] == [("agent:bot", False), ("ada", True)]

        await asyncio.sleep(6.0)

        assert ("on_leave", "agent:bot", Reason.GRACE_ENDED) in room.lines
        assert ids(room) == ["ada"]
        assert joined.left is None


@in_virtual_time
async def test_a_recovered_room_with_only_agents_ends_when_its_time_is_up() -> None:
    async with MemoryServer([lasting("commit", "bot", empty_ttl_s=20.0)], store=FaultyStore()) as server:
        ada = await server.connect("ada")
        joined = await ada.join_or_create("table")
        await joined.leave()
        await a_moment()
        server.crash()
        await server.start()
        await a_moment()
        assert [ids(room) for room in server.rooms] == [["agent:bot"]]

        await asyncio.sleep(21.0)

        assert len(server.rooms) == 0
        await until(lambda: len(server.sessions) == 1)
        server.crash()
        await server.start()
        assert len(server.rooms) == 0


@in_virtual_time
async def test_a_new_agent_and_one_that_has_left_are_saved_with_the_room() -> None:
    def on_recover(room: Lasting) -> None:
        room.lines = []

    async with MemoryServer([lasting("commit", on_recover=on_recover)], store=FaultyStore()) as server:
        ada = await server.connect("ada")
        await ada.join_or_create("table")
        (room,) = server.rooms
        assert isinstance(room, Lasting)
        opened(server, room, "stays", sleeping)
        leaving = opened(server, room, "leaves", sleeping)
        await a_moment()
        server.machine.call(leaving.kick)
        await a_moment()

        server.crash()
        await server.start()

        (room,) = server.rooms
        assert ids(room) == ["ada", "agent:stays"]


# Who else has such an id


@in_virtual_time
async def test_nobody_takes_the_seat_of_an_agent() -> None:
    for duplicate in ("takeover", "reject", "allow"):
        async with MemoryServer([table(idle, "bot", duplicate=duplicate)]) as server:
            room = await created(server)
            await a_moment()
            guest = server.open_agent("bot")
            assert guest.session.player_id == "agent:bot"

            with pytest.raises(Duplicate, match="of its own"):
                await guest.join(room.id)

            assert [player.session is guest.session for player in room.players] == [False]
            other = server.open_agent("other")
            await server.machine.do(other.join(room.id))
            with pytest.raises(Duplicate):
                room.open_agent("other", sleeping)
            for agent in (guest, other):
                server.machine.call(agent.end)


@in_virtual_time
async def test_no_person_signs_in_with_the_id_of_an_agent() -> None:
    async with MemoryServer([table(idle, "bot")], allow_errors=ValueError) as server:
        for name in ("agent:bot", "Agent:bot", "AGENT:", "agent:somebody"):
            with pytest.raises(SessionEnded):
                await server.connect(name, give_up_s=0.0)

        assert len(server.sessions) == 0
        await server.connect("agent")
        await server.connect("an agent: bot")


# What operators and other parts see


@in_virtual_time
async def test_operators_see_who_is_an_agent() -> None:
    async with MemoryServer([table(idle, "bot")]) as server:
        ada = await server.connect("ada")
        joined = await ada.join_or_create("table")
        operate = server.operate

        seats = {seat.player: seat.is_agent for seat in operate.rooms.seats(joined.id)}
        sessions = operate.sessions.list(limit=10, cursor="").sessions

        assert seats == {"agent:bot": True, "ada": False}
        assert {(each.player, each.is_agent, each.transport) for each in sessions} == {
            ("agent:bot", True, "agent"),
            ("ada", False, "memory"),
        }


@in_virtual_time
async def test_agents_of_rooms_are_found_by_room_and_session_and_not_by_player() -> None:
    """Every room may have a "bot": what is done to a player of that name must not be done to all of them."""
    async with MemoryServer([table(idle, "bot")]) as server:
        for _ in range(3):
            await created(server)
        await a_moment()
        npc = server.open_agent("npc")

        assert server.sessions.of_player("agent:bot") == []
        assert server.rooms.rooms_of("agent:bot") == []
        assert [(each.id, each.is_agent) for each in server.operate.players.list(limit=10, cursor="").players] == [
            ("agent:npc", True)
        ]
        assert len(server.sessions) == 4
        server.machine.call(npc.end)


@in_virtual_time
async def test_the_data_of_an_agent_is_not_saved_to_an_account() -> None:
    saved: list[str] = []

    def save(room: Table, player_id: str, data: Hand) -> None:
        saved.append(player_id)

    async with MemoryServer([table(idle, "bot", save=save, save_s=1.0)]) as server:
        ada = await server.connect("ada")
        await ada.join_or_create("table")

        await asyncio.sleep(1.5)
        server.machine.call(next(iter(server.rooms)).players[0].kick)
        await a_moment()

        assert saved == ["ada"]
