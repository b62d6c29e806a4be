"""What a room shares reaches every client in the order of its turns: read from the wire, as any SDK would."""

import asyncio
from typing import Any

import msgspec
import pytest

from holdfast import Message, Player, PlayerData, Refused, Room, Server, Throttled, on
from holdfast.core.channel import Channel
from holdfast.core.codec import JSON, MSGPACK, Codec
from holdfast.core.limits import Limits
from holdfast.schemas.frames import Ack, Data, Reply
from holdfast.schemas.room import SharedParts
from holdfast.state import Hidden, Mirror, Private
from holdfast.testing import UNLIMITED
from tests.server.state_follower import Follower, follower
from tests.server.world import World


class Card(msgspec.Struct):
    rank: int
    suit: str


class Board(msgspec.Struct):
    pile: list[Card] = []
    turns: int = 0
    note: str = ""
    deck: Hidden[list[Card]] = []
    named: dict[str, int] = {}


class Seat(PlayerData):
    score: int = 0
    hand: Private[list[Card]] = msgspec.field(default_factory=list)


class Play(Message):
    rank: int = 0
    say: bool = True
    note: str = ""


class Fail(Message):
    pass


class End(Message):
    """Say something and close the room, or give a seat to all spectators."""

    how: str = "close"


class Finish(Message):
    """Close the room, or kick who says it, with no word to anybody."""

    how: str


class Linger(Message):
    """Take a turn in which somebody comes, and close the room."""


class Played(Message):
    by: str
    turns: int


class Table(Room[Seat]):
    """Cards are played from a hand that only its player sees."""

    shares = ("state", "players")
    max_spectators = 10
    grace_s = 60.0
    state: Board

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Board(deck=[Card(99, "secret")])

    def on_join(self, player: Player[Seat]) -> None:
        player.data.hand = [Card(1, "red"), Card(2, "red")]

    @on(Play)
    def play(self, player: Player[Seat], play: Play) -> None:
        if play.say:
            # Before the state is changed: it arrives after that all the same.
            self.broadcast(Played(player.id, self.state.turns + 1))
        self.state.turns += 1
        self.state.note = play.note
        if play.rank:
            self.state.pile.append(Card(play.rank, "blue"))
            player.data.score += play.rank
            player.data.hand.append(Card(play.rank, "own"))

    @on(End)
    async def say_last(self, player: Player[Seat], end: End) -> None:
        self.broadcast(Played(player.id, self.state.turns + 1))
        if end.how == "close":
            self.close()
        elif end.how == "kick":
            player.kick()
        else:
            for spectator in self.spectators:
                self.promote(spectator)
        # It is still the same turn.
        await asyncio.sleep(0.1)
        self.state.turns += 1

    @on(Linger)
    async def linger(self, player: Player[Seat], linger: Linger) -> None:
        # Their hook waits for the end of this turn, so nothing tells the room of them.
        while len(self.players) + len(self.spectators) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        self.broadcast(Played(player.id, self.state.turns + 1))
        self.close()
        self.state.turns += 1

    @on(Finish)
    def finish(self, player: Player[Seat], finish: Finish) -> None:
        self.state.note = finish.how
        if finish.how == "close":
            self.close()
        else:
            player.kick()

    @on(Fail)
    def fail(self, player: Player[Seat], fail: Fail) -> None:
        self.state.note = "half done"
        raise Refused("no")


@pytest.mark.parametrize("codec", [MSGPACK, JSON])
async def test_a_newcomer_has_the_whole_view_and_then_every_change(world: World, codec: Codec) -> None:
    server = await world.serve(Table)
    ada, bob = await follower(world, server, codec=codec), await follower(world, server, codec=codec)
    await ada.join()
    assert ada.state == {"pile": [], "turns": 0, "note": "", "named": {}}
    assert ada.players == {ada.player: {"score": 0}}

    await ada.play(Play(7))
    await bob.join()
    await ada.read()

    assert bob.state == ada.state == {"pile": [{"rank": 7, "suit": "blue"}], "turns": 1, "note": "", "named": {}}
    assert bob.players == ada.players == {ada.player: {"score": 7}, bob.player: {"score": 0}}
    assert [card["rank"] for card in ada.mine["hand"]] == [1, 2, 7]
    assert [card["rank"] for card in bob.mine["hand"]] == [1, 2]


async def test_a_turns_change_comes_before_its_messages(world: World) -> None:
    server = await world.serve(Table)
    ada, bob = await follower(world, server), await follower(world, server)
    await ada.join()
    await bob.join()
    for _ in range(3):
        await ada.play(Play())
    await bob.read()

    assert [turns for name, turns in bob.seen if name == "played"] == [1, 2, 3]
    assert [turns for name, turns in ada.seen if name == "played"] == [1, 2, 3]


async def test_what_is_private_or_hidden_reaches_nobody_else(world: World) -> None:
    server = await world.serve(Table)
    ada, bob, eve = [await follower(world, server) for _ in range(3)]
    seat = await ada.join()
    await bob.join()
    await eve.watch(seat.room)
    await ada.play(Play(7))
    await bob.read()
    await eve.read()

    assert bob.state == eve.state == ada.state
    assert "mine" not in eve.mirror.root
    assert all(b"own" not in body and b"secret" not in body for body in [*bob.bodies, *eve.bodies])
    assert any(b"own" in body for body in ada.bodies)
    assert all(b"red" not in body for body in eve.bodies)


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("how", ["close", "kick", "promote"])
async def test_the_last_words_of_a_stream_come_with_the_state_of_their_turn(
    world: World, how: str, transactional: bool
) -> None:
    server = await world.serve(type("Table", (Table,), {"transactional": transactional}))
    ada, bob = await follower(world, server), await follower(world, server)
    await ada.join()
    await bob.watch(next(iter(server.rooms)).id)

    await ada.play(End(how))
    await asyncio.sleep(0.2)
    await ada.read()
    await bob.read()

    leaver = bob if how == "promote" else ada
    assert [each for each in leaver.seen if each[0] in {"played", "holdfast.left"}][:2] == [
        ("played", 1),
        ("holdfast.left", 1),
    ]


@pytest.mark.parametrize("settings", [{}, {"sync_hz": 0.1}, {"transactional": True}])
@pytest.mark.parametrize("how", ["play", "watch"])
async def test_a_newcomer_whose_room_closes_before_it_hears_of_them_sees_the_end_of_that_turn(
    world: World, how: str, settings: dict[str, Any]
) -> None:
    server = await world.serve(type("Table", (Table,), settings))
    ada, bob = await follower(world, server), await follower(world, server)
    await ada.join()
    room = next(iter(server.rooms)).id

    ada.raw.send(1, Linger())
    await ada.raw.request("mine")
    bob.raw.ask("join" if how == "play" else "spectate", room=room)
    await bob.raw.hear(Reply)
    await bob.read()

    assert bob.seen == [("played", 1), ("holdfast.left", 1)]


@pytest.mark.parametrize("settings", [{}, {"sync_hz": 0.1}, {"transactional": True}])
@pytest.mark.parametrize("how", ["close", "kick"])
async def test_a_turn_that_frees_a_seat_in_silence_is_seen_on_it_too(
    world: World, how: str, settings: dict[str, Any]
) -> None:
    server = await world.serve(type("Table", (Table,), settings))
    ada, bob = await follower(world, server), await follower(world, server)
    await ada.join()
    await bob.join()

    await ada.play(Finish(how))
    await bob.read()

    for each in (ada, bob) if how == "close" else (ada,):
        assert (each.state["note"], each.seen[-1][0]) == (how, "holdfast.left")


async def test_a_turn_without_a_message_is_seen_too_and_one_that_changes_nothing_costs_nothing(world: World) -> None:
    server = await world.serve(Table)
    ada = await follower(world, server)
    await ada.join()
    before = len(ada.bodies)

    await ada.play(Play(say=False))
    assert ada.state["turns"] == 1
    assert len(ada.bodies) == before + 1

    room = next(iter(server.rooms))
    assert isinstance(room, Table)
    room.state.turns = 1
    await ada.play(Fail())
    assert (ada.state["note"], ada.seen[-1][0]) == ("half done", "holdfast.refused")


async def test_a_client_that_is_away_gets_all_changes_at_once(world: World) -> None:
    server = await world.serve(Table, limits=UNLIMITED)
    ada, bob = await follower(world, server), await follower(world, server)
    await ada.join()
    seat = await bob.join()
    had = len(bob.bodies)
    bob.raw.cut()
    await bob.raw.ended()
    for number in range(50):
        await ada.play(Play(number + 1, say=False))
    assert server_channel(server, bob).kept <= 1

    await bob.resume(await world.raw(server), seat)
    await bob.read()

    assert (bob.state, bob.players) == (ada.state, ada.players)
    assert len(bob.bodies) == had + 1


async def shared_parts(server: Server, room_id: str) -> SharedParts | None:
    """As operators see them. On a busy machine, reading takes its time, and is refused for a moment after that."""
    while True:
        try:
            return server.operate.rooms.state(room_id).shared
        except Throttled:
            await asyncio.sleep(0.1)


async def test_operators_see_how_much_is_kept_for_clients_that_are_behind(world: World) -> None:
    server = await world.serve(Table, limits=UNLIMITED)
    ada, bob = await follower(world, server), await follower(world, server)
    await ada.join()
    await bob.join()
    room_id = next(iter(server.rooms)).id
    await ada.play(Play(1))
    await bob.read()
    nobody = await shared_parts(server, room_id)
    assert nobody is not None
    assert (nobody.behind, nobody.kept_bytes) == (0, 0)

    bob.raw.cut()
    await bob.raw.ended()
    await ada.play(Play(2, say=False))
    first = await shared_parts(server, room_id)
    for number in range(50):
        await ada.play(Play(number, say=False))
    last = await shared_parts(server, room_id)

    assert first is not None
    assert (first.behind, first.kept_bytes > 0) == (1, True)
    assert last == first


def server_channel(server: Server, client: Follower) -> Channel:
    session = next(each for each in server.sessions if each.player_id == client.player)
    assert session.channel is not None
    return session.channel


async def test_a_slow_reader_is_sent_no_pile_of_changes(world: World) -> None:
    server = await world.serve(Table, limits=Limits(window_messages_max=4, kept_messages_max=8))
    ada, bob = await follower(world, server), await follower(world, server)
    await ada.join()
    seat = await bob.join()
    for _ in range(30):
        await ada.play(Play(say=False))
        ada.raw.say(Ack(1, ada.received))
    await bob.read()
    assert bob.state["turns"] < 30

    bob.raw.say(Ack(seat.channel, bob.received))
    await bob.read()
    assert bob.state == ada.state


async def test_a_client_may_ask_for_the_whole_view_once_more(world: World) -> None:
    server = await world.serve(Table)
    ada = await follower(world, server)
    await ada.join()
    await ada.play(Play(3))
    ada.mirror = Mirror()

    reply = await ada.raw.request("view", purpose="seat")
    assert isinstance(reply, Reply)
    assert reply.problem is None
    ada.heard = next(i for i, frame in reversed(list(enumerate(ada.raw.heard))) if isinstance(frame, Data))
    await ada.read()

    assert ada.state["turns"] == 1
    assert [card["rank"] for card in ada.mine["hand"]] == [1, 2, 3]


async def test_a_client_that_asks_for_views_and_reads_none_is_sent_few(world: World) -> None:
    server = await world.serve(Table, limits=Limits(window_messages_max=4, kept_messages_max=8))
    ada = await follower(world, server)
    seat = await ada.join()

    for _ in range(20):
        await ada.raw.request("view", purpose="seat")
    await ada.read()
    assert len(ada.bodies) <= 4

    ada.raw.say(Ack(seat.channel, ada.received))
    await ada.play(Play(3))
    assert ada.state["turns"] == 1
    assert server.counters.streams_overflowed == 0


async def test_what_everybody_sees_and_what_a_player_alone_does_is_of_one_moment(world: World) -> None:
    server = await world.serve(type("Table", (Table,), {"sync_hz": 0.001}))
    ada = await follower(world, server)
    await ada.join()
    await ada.play(Play(3, say=False))
    assert ada.state["turns"] == 0

    # Between two turns, before the next change is due.
    await ada.raw.request("view", purpose="seat")
    await ada.read()

    assert [card["rank"] for card in ada.mine["hand"]] == [1, 2, 3]
    assert (ada.players[ada.player]["score"], ada.state["turns"]) == (3, 1)


async def test_a_large_view_comes_in_parts(world: World) -> None:
    server = await world.serve(Table, limits=Limits(payload_bytes_max=4096))
    ada, bob = await follower(world, server), await follower(world, server)
    await ada.join()
    for number in range(400):
        room = next(iter(server.rooms))
        assert isinstance(room, Table)
        room.state.pile.append(Card(number, "blue"))
    await ada.play(Play())
    await bob.join()

    assert len(bob.bodies) > 1
    assert bob.state == ada.state
    assert len(bob.state["pile"]) == 400


async def test_a_change_that_is_larger_than_the_whole_view_is_sent_as_the_whole(world: World) -> None:
    server = await world.serve(Table)
    ada = await follower(world, server)
    await ada.join()
    room = next(iter(server.rooms))
    assert isinstance(room, Table)
    room.state.named = {f"a name of many bytes {number}": number for number in range(500)}
    await ada.play(Play())
    assert len(ada.state["named"]) == 500

    room.state.named = {}
    await ada.play(Play())

    assert ada.state["named"] == {}
    assert len(ada.bodies[-1]) < 200


async def test_an_older_client_hears_its_messages_and_no_state(world: World) -> None:
    server = await world.serve(Table)
    ada = await follower(world, server, features=[])
    await ada.join()
    await ada.play(Play())

    assert ada.bodies == []
    assert [name for name, _ in ada.seen] == ["played"]


async def test_a_value_that_cannot_be_shared_is_logged_and_the_messages_arrive(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    server = await world.serve(Table)
    ada = await follower(world, server)
    await ada.join()
    room = next(iter(server.rooms))
    assert isinstance(room, Table)
    room.state.pile = 5  # type: ignore[assignment]
    await ada.play(Play())

    assert [name for name, _ in ada.seen] == ["played"]
    assert "state.pile" in caplog.text

    room.state.pile = []
    await ada.play(Play())
    assert ada.state["turns"] == 2


async def test_a_value_that_cannot_be_encoded_is_looked_for_once_for_all_clients(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    server = await world.serve(Table)
    clients = [await follower(world, server) for _ in range(4)]
    for each in clients:
        await each.join()
    room = next(iter(server.rooms))
    assert isinstance(room, Table)
    room.state.named = {"a": 2**70}

    await clients[0].play(Play())
    for each in clients:
        await each.read()

    assert caplog.text.count("Unshareable: state.named") == 1
    room.state.named = {}
    await clients[0].play(Play())
    for each in clients:
        await each.read()
        assert each.state["turns"] == 2


class Unnamed(Room[Seat]):
    shares = ("state",)


class Misspelt(Room[Seat]):
    shares = ("stat",)


class Owned(Room[Seat]):
    shares = ("state",)
    state: Seat


class Sealed(Room[Seat]):
    shares = ("state",)
    state: Hidden[Board]


@pytest.mark.parametrize(
    ("room", "says"),
    [
        (Unnamed, "state: Board"),
        (Misspelt, '"state", "players"'),
        (Owned, "belongs to nobody"),
        (Sealed, "nobody may see it"),
    ],
)
def test_what_cannot_be_shared_is_refused_at_the_start(room: type[Room[Any]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Server([room])
