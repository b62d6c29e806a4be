"""Which turns are undone: hooks, timers, ticks, `async def`, those that time out or are cut off; and durable ones."""

import asyncio
import logging
from typing import Any, ClassVar

import msgspec
import pytest

from holdfast import ClientRoom, Message, MessageRefused, Parts, Player, PlayerData, Private, Refused, Room, Server, on
from holdfast.core.limits import Limits
from holdfast.testing import Disk, FaultyStore, MemoryServer
from tests.server.test_transactional import in_virtual_time


class Board(msgspec.Struct):
    marks: list[str] = []


class Hand(PlayerData):
    cards: Private[list[str]] = msgspec.field(default_factory=list)


class Mark(Message):
    what: str


class Stay(Message):
    """An `async def` turn that marks, and waits."""


class Said(Message):
    text: str


class Game(Room[Hand]):
    transactional = True
    state: Board
    failing: ClassVar[set[str]] = set()
    went_on: ClassVar[asyncio.Event]

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Board()

    def mark(self, what: str) -> None:
        self.state.marks.append(what)
        self.broadcast(Said(what))
        if what in self.failing:
            raise Refused(what)

    def on_join(self, player: Player[Hand]) -> None:
        self.mark(f"on_join {player.id}")

    def on_drop(self, player: Player[Hand]) -> None:
        self.mark("on_drop")

    def on_rejoin(self, player: Player[Hand]) -> None:
        self.mark("on_rejoin")

    def on_start(self) -> None:
        self.mark("on_start")

    def on_tick(self, dt_s: float) -> None:
        self.mark("on_tick")

    @on(Mark)
    def marked(self, player: Player[Hand], mark: Mark) -> None:
        match mark.what:
            case "after":
                self.after(0.1, self.mark, "timer")
            case "every":
                self.every(0.1, self.mark, "timer", name="every")
            case "start":
                self.start()
            case "spawn":
                self.spawn(self.say_beside())
            case _:
                self.mark(mark.what)

    async def say_beside(self) -> None:
        await asyncio.sleep(0.1)
        self.broadcast(Said("beside"))
        await asyncio.sleep(0.2)
        self.broadcast(Said("beside again"))

    @on(Stay)
    async def stay(self, player: Player[Hand], stay: Stay) -> None:
        self.state.marks.append("stay")
        player.data.cards.append("stay")
        self.broadcast(Said("stay"))
        self.after(0.0, self.mark, "set in stay")
        await asyncio.sleep(0.2)
        self.broadcast(Said("stayed"))
        if "stay" in self.failing:
            raise Refused("stay")


class Ticking(Game):
    tick_hz = 10.0


@pytest.fixture(autouse=True)
def _nothing_fails() -> None:
    Game.failing.clear()


def marks_of(server: MemoryServer, room: ClientRoom) -> list[str]:
    game: Any = server.rooms.get(room.id)
    marks: list[str] = game.state.marks
    return marks


async def texts(room: Any, within_s: float = 1.0) -> list[str]:
    """What is said in this time; refusals by their message."""
    heard: list[str] = []
    try:
        async with asyncio.timeout(within_s):
            while True:
                message = await room.receive()
                heard.append(message.message if isinstance(message, MessageRefused) else message.text)
    except TimeoutError:
        return heard


@pytest.mark.parametrize("how", ["after", "every", "start"])
@in_virtual_time
async def test_timers_and_hooks_are_undone(how: str) -> None:
    Game.failing |= {"timer", "on_start"}
    async with MemoryServer([Game], allow_errors=Refused) as server:
        ada = await server.connect("ada", messages=[Said])
        room = await ada.join_or_create("game")
        await texts(room)

        await room.send(Mark(how))

        assert await texts(room) == []
        assert marks_of(server, room) == ["on_join ada"]


@in_virtual_time
async def test_a_repeated_timer_goes_on_after_a_call_that_failed() -> None:
    Game.failing.add("timer")
    async with MemoryServer([Game], allow_errors=Refused) as server:
        ada = await server.connect("ada", messages=[Said])
        room = await ada.join_or_create("game")
        await room.send(Mark("every"))
        await texts(room, 0.35)

        Game.failing.clear()

        assert await texts(room, 0.3) == ["timer"] * 3


@in_virtual_time
async def test_a_tick_that_fails_is_undone_and_the_next_one_comes() -> None:
    Game.failing.add("on_tick")
    async with MemoryServer([Ticking], allow_errors=Refused) as server:
        ada = await server.connect("ada", messages=[Said])
        room = await ada.join_or_create("ticking")
        assert await texts(room, 1.0) == ["on_join ada"]

        Game.failing.clear()

        assert set(await texts(room, 0.5)) == {"on_tick"}


@in_virtual_time
async def test_a_drop_has_happened_though_on_drop_failed() -> None:
    Game.failing.add("on_drop")
    async with MemoryServer([Game], allow_errors=Refused) as server:
        ada, bob = await server.connect("ada", messages=[Said]), await server.connect("bob", messages=[Said])
        room = await ada.join_or_create("game")
        beside = await bob.join(room.id)

        server.link(ada).cut()
        await asyncio.sleep(5.0)

        assert ada.drops == 1
        game: Any = server.rooms.get(room.id)
        assert game.state.marks == ["on_join ada", "on_join bob", "on_rejoin"]
        assert await texts(beside) == ["on_join bob", "on_rejoin"]


@in_virtual_time
async def test_an_async_turn_speaks_at_its_end_and_not_at_all_if_it_fails() -> None:
    async with MemoryServer([Game]) as server:
        ada = await server.connect("ada", messages=[Said])
        room = await ada.join_or_create("game")
        await texts(room)
        game: Any = server.rooms.get(room.id)

        await room.send(Stay())
        during = await texts(room, 0.15)
        after = await texts(room)
        Game.failing.add("stay")
        await room.send(Stay())

        assert (during, after) == ([], ["stay", "stayed", "set in stay"])
        assert await texts(room) == ["stay"], "the refusal, and nothing else"
        assert game.state.marks == ["on_join ada", "stay", "set in stay"]
        assert game.player("ada").data.cards == ["stay"]


@in_virtual_time
async def test_what_runs_beside_an_async_turn_that_fails_is_no_part_of_it() -> None:
    Game.failing.add("stay")
    async with MemoryServer([Game]) as server:
        ada = await server.connect("ada", messages=[Said])
        room = await ada.join_or_create("game")
        await texts(room)
        await room.send(Mark("spawn"))

        await room.send(Stay())
        eve = await server.connect("eve", messages=[Said])
        joining = asyncio.ensure_future(eve.join(room.id))

        assert await texts(room) == ["beside", "stay", "on_join eve", "beside again"]
        game: Any = server.rooms.get(room.id)
        assert [player.id for player in game.players] == ["ada", "eve"]
        assert await texts(await joining) == ["beside", "on_join eve", "beside again"]


class Choosy(Game):
    """Considers everybody for a while."""

    async def admit(self, player: Player[Hand]) -> None:
        await asyncio.sleep(0.05)

    @on(Stay)
    async def stay(self, player: Player[Hand], stay: Stay) -> None:
        await asyncio.sleep(0.2)
        for each in self.players:
            each.data.cards.append("stay")
        raise Refused("stay")


@in_virtual_time
async def test_the_data_of_a_player_who_is_admitted_during_a_turn_that_fails_is_undone_too() -> None:
    async with MemoryServer([Choosy]) as server:
        ada = await server.connect("ada", messages=[Said])
        room = await ada.join_or_create("choosy")
        eve = await server.connect("eve", messages=[Said])
        joining = asyncio.ensure_future(eve.join(room.id))
        await asyncio.sleep(0.01)

        await room.send(Stay())
        await joining

        game: Any = server.rooms.get(room.id)
        assert [player.data.cards for player in game.players] == [[], []]


@in_virtual_time
async def test_a_turn_that_takes_too_long_is_undone() -> None:
    async with MemoryServer([Game], limits=Limits(turn_s=0.1), allow_errors=TimeoutError) as server:
        ada = await server.connect("ada", messages=[Said])
        room = await ada.join_or_create("game")
        await texts(room)

        await room.send(Stay())

        assert await texts(room) == ["the game's handler failed"]
        assert marks_of(server, room) == ["on_join ada"]


@in_virtual_time
async def test_a_turn_that_is_cut_off_with_its_server_is_undone() -> None:
    async with MemoryServer([Game], limits=Limits(close_s=0.01)) as server:
        ada = await server.connect("ada", messages=[Said])
        room = await ada.join_or_create("game")
        game: Any = server.rooms.get(room.id)
        await room.send(Stay())
        await asyncio.sleep(0.05)
        before = list(game.state.marks)

        await server.stop()

        assert before == ["on_join ada", "stay"]
        assert game.state.marks == ["on_join ada"]


class Saved(Game):
    durability = "commit"
    shares = ("state", "players")


@in_virtual_time
async def test_a_failed_turn_sends_nothing_and_nothing_of_it_is_there_after_a_crash() -> None:
    Game.failing.add("bad")
    async with MemoryServer([Saved], store=FaultyStore(Disk(), latency_s=0.01)) as server:
        ada = await server.connect("ada", messages=[Said])
        room = await ada.join_or_create("saved")
        await room.send(Mark("good"))
        await room.send(Mark("bad"))
        await room.flush()
        assert await texts(room) == ["on_join ada", "good", "bad"]
        assert room.state["marks"] == ["on_join ada", "good"]

        server.crash()
        await server.start()
        await room.send(Mark("good again"))

        await texts(room, 5.0)
        game: Any = server.rooms.get(room.id)
        assert "bad" not in game.state.marks
        assert game.state.marks[-1] == "good again"
        assert room.state["marks"] == game.state.marks


class Closing(Saved):
    def on_leave(self, player: Player[Hand], reason: str) -> None:
        self.mark("on_leave")

    @on(Stay)
    async def stay(self, player: Player[Hand], stay: Stay) -> None:
        await asyncio.sleep(0.2)
        self.mark("closing")
        self.close()


@in_virtual_time
async def test_a_turn_that_a_commit_waits_for_is_over_before_what_it_sets_off_begins() -> None:
    async with MemoryServer([Closing], store=FaultyStore(Disk(), latency_s=0.01)) as server:
        ada = await server.connect("ada", messages=[Said])
        room = await ada.join_or_create("closing")
        await room.flush()
        # The commit of the first message finds the room in the middle of the second.
        await room.send(Mark("before"))
        await room.send(Stay())

        async for said in room:
            if said == Said("closing"):
                assert room.state["marks"] == ["on_join ada", "before", "closing"]
                break
        else:
            pytest.fail("the room never said that it closes")


@in_virtual_time
async def test_a_turn_that_was_not_over_in_a_crash_never_happened() -> None:
    async with MemoryServer([Saved], store=FaultyStore(Disk(), latency_s=0.01)) as server:
        ada = await server.connect("ada", messages=[Said])
        room = await ada.join_or_create("saved")
        await room.flush()
        await room.send(Stay())
        await asyncio.sleep(0.1)

        server.crash()
        await server.start()
        await room.flush()

        game: Any = server.rooms.get(room.id)
        assert game.state.marks.count("stay") == 1, "its message was not acknowledged, and is handled again"
        assert (await texts(room, 5.0)).count("stay") == 1


class Clock:
    """A class of the game's own."""

    seconds = 0


class Loose(Game):
    state: Any

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = {"marks": [], "clocks": [Clock()]}

    def mark(self, what: str) -> None:
        self.state["clocks"][0].seconds += 1
        self.state["marks"].append(what)
        if what in self.failing:
            raise Refused(what)


@in_virtual_time
async def test_an_object_that_cannot_be_rolled_back_is_named_once_and_all_else_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Game.failing.add("bad")
    with caplog.at_level(logging.ERROR):
        async with MemoryServer([Loose]) as server:
            ada = await server.connect("ada", messages=[Said])
            room = await ada.join_or_create("loose")
            for _ in range(3):
                await room.send(Mark("bad"))

            assert await texts(room) == ["bad"] * 3
            game: Any = server.rooms.get(room.id)
            state = game.state
            assert (state["marks"], state["clocks"][0].seconds) == (["on_join ada"], 4)

    (line,) = [
        each.getMessage()
        for each in caplog.records
        if "left behind" in each.getMessage() or "leave" in each.getMessage()
    ]
    assert "state['clocks'][0]" in line
    assert "Clock" in line


class Chunks(msgspec.Struct):
    by_name: Parts[Any] = msgspec.field(default_factory=Parts)


class LooseParts(Game):
    state: Any

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Chunks(Parts({"a": [Clock()]}))

    def mark(self, what: str) -> None:
        self.state.by_name["a"].append(what)
        if what in self.failing:
            raise Refused(what)


@in_virtual_time
async def test_an_entry_of_parts_that_cannot_be_rolled_back_is_named_too(caplog: pytest.LogCaptureFixture) -> None:
    Game.failing.add("bad")
    with caplog.at_level(logging.ERROR):
        async with MemoryServer([LooseParts]) as server:
            ada = await server.connect("ada", messages=[Said])
            room = await ada.join_or_create("loose_parts")
            await room.send(Mark("bad"))

            assert await texts(room) == ["bad"]
            game: Any = server.rooms.get(room.id)
            assert game.state.by_name.peek("a")[1:] == ["on_join ada"]

    assert "Clock objects cannot be rolled back" in caplog.text


def test_a_type_that_cannot_be_rolled_back_is_refused() -> None:
    class Wrong(Room[Hand]):
        transactional = True
        state: dict[str, Clock]

    with pytest.raises(ValueError, match="Wrong is transactional, but its state cannot be rolled back: Clock"):
        Server([Wrong])
