"""A turn that fails never happened: one test for each kind of thing that is rolled back."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import msgspec
import pytest

from holdfast import (
    Duplicate,
    Effect,
    Message,
    MessageRefused,
    NotSeated,
    Parts,
    Player,
    PlayerData,
    Refused,
    Room,
    RoomAgent,
    Spectator,
    Timer,
    on,
)
from holdfast.testing import MemoryServer, run


class Card(msgspec.Struct):
    rank: int


class Board(msgspec.Struct):
    pile: list[Card] = []
    by_name: dict[str, Card] = {}
    chunks: Parts[Card] = msgspec.field(default_factory=Parts)
    more: Parts[Card] = msgspec.field(default_factory=Parts)


class Hand(PlayerData):
    cards: list[Card] = msgspec.field(default_factory=list)


class Do(Message):
    """Do what the test has put under this name, and then fail or not."""

    what: str
    fails: bool = True


class Said(Message):
    text: str


class Table(Room[Hand]):
    """Does what its test says."""

    transactional = True
    max_spectators = 4
    state: Board
    acts: dict[str, Callable[["Table", Player[Hand]], Any]]
    heard: list[Any]

    def on_create(self, config: dict[str, Any]) -> None:
        self.acts, self.heard = {}, []
        self.state = Board(pile=[Card(1)], by_name={"boss": Card(13)})

    def on_start(self) -> None:
        self.heard.append("on_start")

    def on_end(self) -> None:
        self.heard.append("on_end")

    def on_update(self) -> None:
        self.heard.append("on_update")

    def on_host_changed(self, old: Player[Hand] | None, new: Player[Hand] | None) -> None:
        self.heard.append(("on_host_changed", new.id if new is not None else ""))

    def on_leave(self, player: Player[Hand], reason: Any) -> None:
        self.heard.append(("on_leave", player.id, str(reason)))

    def ring(self, what: str) -> None:
        self.heard.append(("ring", what))

    def on_join(self, player: Player[Hand]) -> Any:
        if "on_join" in self.acts:
            self.acts["on_join"](self, player)

    @on(Do)
    def do(self, player: Player[Hand], do: Do) -> Message | None:
        self.acts[do.what](self, player)
        if do.fails:
            raise Refused("not like this")
        return None


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def plain(*args: Any, **kwargs: Any) -> None:
        run(test(*args, **kwargs))

    return plain


class Seated:
    """A server with a table, and two players at it."""

    def __init__(self, server: MemoryServer, kind: type[Table]) -> None:
        self.server = server
        self.kind = kind

    async def sit(self) -> "Seated":
        self.ada = await self.server.connect("ada", messages=[Do, Said])
        self.bob = await self.server.connect("bob", messages=[Do, Said])
        self.at = await self.ada.join_or_create(self.kind.kind)
        self.beside = await self.bob.join(self.at.id)
        return self

    @property
    def room(self) -> Any:
        return self.server.rooms.get(self.at.id)

    async def fails(self, act: Callable[[Any, Player[Hand]], Any]) -> None:
        """Do it in a turn that is refused."""
        self.room.acts["it"] = act
        await self.at.send(Do("it"))
        refused = await self.at.receive()
        assert isinstance(refused, MessageRefused)
        assert refused.message == "not like this"
        await asyncio.sleep(0.1)

    async def succeeds(self, act: Callable[[Any, Player[Hand]], Any]) -> None:
        """Do it in a turn that succeeds."""
        self.room.acts["it"] = act
        await self.at.send(Do("it", fails=False))
        await self.at.flush()
        await asyncio.sleep(0.1)


async def seated(server: MemoryServer, kind: type[Table] = Table) -> Seated:
    return await Seated(server, kind).sit()


@in_virtual_time
async def test_the_state_and_the_data_of_players_are_what_they_were_and_the_same_objects() -> None:
    async with MemoryServer([Table]) as server:
        table = await seated(server)
        room, ada = table.room, table.room.player("ada")
        state, data, pile, boss = room.state, ada.data, room.state.pile, room.state.by_name["boss"]

        def act(room: Table, player: Player[Hand]) -> None:
            room.state.pile.append(Card(2))
            boss.rank = 1
            del room.state.by_name["boss"]
            player.data.cards.append(Card(3))
            player.data = Hand([Card(4)])
            room.state = Board()

        await table.fails(act)

        assert room.state is state
        assert (room.state.pile, room.state.by_name) == ([Card(1)], {"boss": Card(13)})
        assert room.state.pile is pile
        assert room.state.by_name["boss"] is boss
        assert ada.data is data
        assert ada.data.cards == []


@in_virtual_time
async def test_the_parts_of_a_state_are_what_they_were() -> None:
    async with MemoryServer([Table]) as server:
        table = await seated(server)
        chunks = table.room.state.chunks

        def fill(room: Table, _: Player[Hand]) -> None:
            room.state.chunks.update({name: Card(number) for number, name in enumerate("abcd")})

        await table.succeeds(fill)
        b = chunks.peek("b")

        def act(room: Table, _: Player[Hand]) -> None:
            room.state.chunks["b"].rank = 99
            del room.state.chunks["a"]
            room.state.chunks["a"] = Card(98)
            room.state.chunks["c"] = Card(97)
            room.state.chunks["e"] = Card(96)

        await table.fails(act)

        assert chunks.peek("b") is b
        assert [(name, chunks.peek(name).rank) for name in chunks] == [("a", 0), ("b", 1), ("c", 2), ("d", 3)]


@in_virtual_time
async def test_an_object_in_several_parts_is_what_it_was() -> None:
    async with MemoryServer([Table]) as server:
        table = await seated(server)
        card = Card(1)

        def fill(room: Table, player: Player[Hand]) -> None:
            room.state.chunks["a"] = room.state.chunks["b"] = room.state.more["c"] = card

        await table.succeeds(fill)

        def act(room: Table, _: Player[Hand]) -> None:
            room.state.chunks["a"].rank = 2
            room.state.more["c"].rank = 3
            room.state.chunks["b"].rank = 4

        await table.fails(act)

        assert card.rank == 1


class Stubborn(dict[str, Card]):
    """Cannot be emptied."""

    def clear(self) -> None:
        raise TypeError("never")


@in_virtual_time
async def test_a_state_that_resists_being_restored_harms_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async with MemoryServer([Table]) as server:
        table = await seated(server)
        table.room.state.by_name = Stubborn()

        def act(room: Table, player: Player[Hand]) -> None:
            room.state.by_name["boss"] = Card(1)
            room.properties["level"] = 2
            player.data = Hand([Card(4)])

        await table.fails(act)
        await table.succeeds(lambda room, _: room.state.pile.append(Card(2)))

        assert "the state cannot be restored: never" in caplog.text
        assert (table.room.properties, table.room.player("ada").data) == ({}, Hand())
        assert table.room.state.pile == [Card(1), Card(2)]


@in_virtual_time
async def test_properties_name_phase_lock_host_successor_and_random_numbers_are_what_they_were() -> None:
    async with MemoryServer([Table]) as server:
        table = await seated(server)
        room = table.room
        room.properties["maps"] = ["a"]
        await table.at.receive()
        known = await search(table)
        numbers = room.random.getstate()

        def act(room: Table, player: Player[Hand]) -> None:
            room.properties["maps"].append("b")
            room.properties["more"] = 1
            room.start()
            room.lock()
            room.successor = "bob"
            room.name_host(player)
            room.update(name="another", max_players=3)
            room.max_players = 5
            room.random.random()
            assert (room.phase, room.is_locked, room.successor, room.host) == ("playing", True, "bob", player)

        await table.fails(act)

        assert room.properties == {"maps": ["a"]}
        assert (room.phase, room.is_locked, room.successor, room.host) == ("lobby", False, "", None)
        assert (room.name, room.max_players) == ("", 16)
        assert room.random.getstate() == numbers
        assert room.heard == []
        await asyncio.sleep(2.0)
        assert await search(table) == known


async def search(table: Seated) -> Any:
    return list(await table.bob.search("table"))


@in_virtual_time
async def test_what_succeeds_is_carried_out() -> None:
    async with MemoryServer([Table]) as server:
        table = await seated(server)

        def act(room: Table, player: Player[Hand]) -> None:
            room.start()
            room.name_host(player)
            room.update(name="another")
            room.after(1.0, room.ring, "later")

        await table.succeeds(act)
        await asyncio.sleep(2.0)

        assert table.room.name == "another"
        assert table.room.heard == ["on_start", ("on_host_changed", "ada"), "on_update", ("ring", "later")]


@in_virtual_time
async def test_owners_and_groups_are_what_they_were_in_the_same_order() -> None:
    async with MemoryServer([Table]) as server:
        table = await seated(server)
        room = table.room

        def set_up(room: Table, player: Player[Hand]) -> None:
            for name in ("sword", "door", "gem"):
                room.own(player, name)
            room.own(None, "rock")
            room.group("red").add(player)

        await table.succeeds(set_up)
        objects, red = room.objects, room.group("red")

        def act(room: Table, player: Player[Hand]) -> None:
            bob = room.player("bob")
            room.disown("sword")
            room.own(bob, "door")
            room.own(bob, "shield")
            room.own(player, "sword")
            room.group("red").remove(player)
            room.group("blue").add(player)
            assert bob is not None
            assert (list(red), bob.owned) == ([], {"door", "shield"})

        await table.fails(act)

        ada, bob = room.player("ada"), room.player("bob")
        assert list(objects.items()) == [("sword", ada), ("door", ada), ("gem", ada), ("rock", None)]
        assert (set(ada.owned), set(bob.owned)) == ({"sword", "door", "gem"}, set())
        assert (list(red), list(room.groups)) == ([ada], ["red"])


@in_virtual_time
async def test_timers_that_it_set_never_ring_and_those_that_it_cancelled_do() -> None:
    async with MemoryServer([Table]) as server:
        table = await seated(server)
        room = table.room
        kept: list[Timer] = []

        def set_up(room: Table, _: Player[Hand]) -> None:
            kept.extend([room.after(1.0, room.ring, "a"), room.after(1.5, room.ring, "b", name="b")])
            room.every(2.0, room.ring, "c", name="c")

        await table.succeeds(set_up)

        def act(room: Table, _: Player[Hand]) -> None:
            kept[0].cancel()
            kept[0].cancel()
            room.after(0.5, room.ring, "new")
            room.after(0.5, room.ring, "new b", name="b")
            room.every(0.5, room.ring, "new d", name="d")
            assert room.cancel("c")
            assert room.remaining("c") is None
            room.after(0.7, room.ring, "new c", name="c")

        await table.fails(act)
        await asyncio.sleep(4.5)

        rings = [what for _, what in room.heard]
        assert rings == ["a", "b", "c", "c"]
        assert not kept[0].is_cancelled


@in_virtual_time
async def test_nobody_hears_what_it_said() -> None:
    async with MemoryServer([Table]) as server:
        table = await seated(server)
        eve = await server.connect("eve", messages=[Said])
        watched = await eve.spectate(table.at.id)
        agent = server.open_agent("bot")
        seat = await agent.join(table.at.id)
        heard: list[Message] = []
        listening = asyncio.ensure_future(listen(agent, heard))
        await asyncio.sleep(0.1)

        def act(room: Table, player: Player[Hand]) -> None:
            room.broadcast(Said("broadcast"))
            player.send(Said("send"))
            player.send_latest(Said("latest"))
            room.broadcast_latest(Said("latest to all"))
            room.group("red").add(player)
            room.group("red").send(Said("group"))
            player.session.send(Said("session"))
            bot = room.player("agent:bot")
            assert bot is not None
            bot.session.send(Said("agent's session"))
            server.broadcast(Said("to all sessions"))

        await table.fails(act)
        await table.succeeds(lambda room, _: room.broadcast(Said("now")))

        now = [Said("now")]
        assert [await each.receive() for each in (table.at, table.beside, watched)] == now * 3
        assert [await anext(aiter(seat))] == now
        await table.succeeds(lambda _, player: player.session.send(Said("at last")))
        assert await table.ada.receive() == Said("at last")
        assert heard == []
        listening.cancel()


async def listen(agent: Any, heard: list[Message]) -> None:
    while True:
        heard.append(await agent.receive())


@in_virtual_time
async def test_kicks_closing_spawned_work_and_effects_do_not_happen() -> None:
    paid: list[Any] = []

    async def pay(effect: Effect) -> None:
        paid.append(effect.payload)

    async with MemoryServer([Table], effects={"pay": pay}) as server:
        table = await seated(server)
        room = table.room

        async def work() -> None:
            room.heard.append("worked")

        def act(room: Table, _: Player[Hand]) -> None:
            bob = room.player("bob")
            assert bob is not None
            bob.kick()
            bob.session.end()
            room.spawn(work())
            room.effect("pay", 5)
            room.close()

        await table.fails(act)

        assert (room.heard, paid) == ([], [])
        assert table.bob.connected
        await table.succeeds(lambda room, _: room.effect("pay", 6))
        await table.succeeds(lambda room, _: room.spawn(work()))
        await table.succeeds(lambda room, _: room.player("bob").kick())
        assert (room.heard, paid) == (["worked", ("on_leave", "bob", "kicked")], [6])


@in_virtual_time
async def test_agents_are_not_opened_and_spectators_not_promoted() -> None:
    async with MemoryServer([Table]) as server:
        table = await seated(server)
        eve = await server.connect("eve", messages=[Said])
        watched = await eve.spectate(table.at.id)
        room, sessions = table.room, len(server.sessions)

        async def play(agent: RoomAgent[Hand]) -> None:
            room.heard.append("plays")
            async for message in agent:
                room.heard.append(message)

        def act(room: Table, _: Player[Hand]) -> None:
            bot = room.open_agent("bot", play)
            bot.send(Said("hello"))
            (spectator,) = room.spectators
            room.promote(spectator).send(Said("welcome"))

        await table.fails(act)

        assert [player.id for player in room.players] == ["ada", "bob"]
        assert (len(server.sessions), room.heard) == (sessions, [])
        assert [each.id for each in room.spectators] == ["eve"]

        await table.succeeds(act)
        assert [player.id for player in room.players] == ["ada", "bob", "agent:bot", "eve"]
        assert room.heard == ["plays", Said("hello")]
        assert watched.left is not None
        assert eve.room is not None
        assert await eve.room.receive(Said) == Said("welcome")


class Shown(Table):
    shares = ("players",)


@in_virtual_time
async def test_who_is_refused_in_on_join_was_never_there() -> None:
    async with MemoryServer([Shown]) as server:
        table = await seated(server, Shown)
        room = table.room

        def full(room: Table, player: Player[Hand]) -> None:
            room.state.by_name[player.id] = Card(5)
            room.broadcast(Said("welcome"))
            raise Refused("we are complete")

        room.acts["on_join"] = full
        eve = await server.connect("eve")
        with pytest.raises(Refused, match="complete"):
            await eve.join(table.at.id)

        assert list(room.state.by_name) == ["boss"]
        assert [player.id for player in room.players] == ["ada", "bob"]
        assert room.heard == []
        assert list(table.at.players) == ["ada", "bob"]
        await table.succeeds(lambda room, _: room.broadcast(Said("now")))
        assert await table.at.receive() == Said("now")


@in_virtual_time
async def test_who_is_refused_in_on_spectate_was_never_there() -> None:
    async with MemoryServer([Watched]) as server:
        table = await seated(server, Watched)
        eve = await server.connect("eve")

        with pytest.raises(Refused, match="private"):
            await eve.spectate(table.at.id)

        assert (table.room.spectators, table.room.heard, table.room.state.pile) == ((), [], [Card(1)])


class Watched(Table):
    def on_spectate(self, spectator: Spectator) -> None:
        self.state.pile.clear()
        raise Refused("a private table")

    def on_unspectate(self, spectator: Spectator, reason: Any) -> None:
        self.heard.append("on_unspectate")


class Asking(Table):
    @on(Said)
    def answer(self, player: Player[Hand], said: Said) -> Any:
        self.state.pile.append(Card(9))
        if said.text == "go":
            player.kick("out")
        return said if said.text in {"echo", "go"} else object()


@in_virtual_time
async def test_an_answer_that_cannot_be_sent_undoes_its_turn() -> None:
    async with MemoryServer([Asking], allow_errors=RuntimeError) as server:
        table = await seated(server, Asking)

        assert await table.at.ask(Said("echo")) == Said("echo")
        with pytest.raises(Refused, match="failed"):
            await table.at.ask(Said("something else"))

        assert len(table.room.state.pile) == 2
        with pytest.raises(NotSeated, match="out"):
            await table.at.ask(Said("go"))


@in_virtual_time
async def test_an_agent_that_is_opened_and_ended_in_one_turn_never_plays() -> None:
    async with MemoryServer([Table]) as server:
        table = await seated(server)
        sessions = len(server.sessions)

        async def play(_: RoomAgent[Hand]) -> None:
            table.room.heard.append("plays")

        def act(room: Table, _: Player[Hand]) -> None:
            room.open_agent("one", play).session.end()
            room.open_agent("two", play).kick()
            with pytest.raises(Duplicate):
                room.open_agent("two", play)

        await table.succeeds(act)

        assert [player.id for player in table.room.players] == ["ada", "bob"]
        assert (len(server.sessions), "plays" in table.room.heard) == (sessions, False)
