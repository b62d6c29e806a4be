"""Shared state in whole games: what a client reads is what the room was at the end of a turn, whatever happens to the
connection, the session, the room or the server."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from holdfast import ClientRoom, ClientSession, Limits, Message, Player, PlayerData, Private, Room, SessionEnded, on
from holdfast.core.codec import JSON, MSGPACK
from holdfast.testing import FaultyStore, MemoryServer, run
from tests.server.durability.bench import until


class Board(msgspec.Struct):
    turns: int = 0
    pile: list[int] = []
    by: dict[str, int] = {}


class Hand(PlayerData):
    score: int = 0
    cards: Private[list[int]] = msgspec.field(default_factory=list)


class Play(Message):
    card: int
    is_said: bool = True


class Played(Message):
    turns: int
    sum: int


class Table(Room[Hand]):
    """Everybody plays cards; some turns are announced."""

    shares = ("state", "players")
    max_spectators = 4
    grace_s = 120.0
    state: Board

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Board()

    def on_join(self, player: Player[Hand]) -> None:
        player.data.cards = [ord(player.id[0])]

    @on(Play)
    def play(self, player: Player[Hand], play: Play) -> None:
        if play.is_said:
            self.broadcast(Played(self.state.turns + 1, sum(self.state.pile) + play.card))
        self.state.turns += 1
        self.state.pile.append(play.card)
        if len(self.state.pile) > 8:
            del self.state.pile[:3]
        self.state.by[player.id] = play.card
        player.data.score += play.card
        player.data.cards.append(play.card)


class Game:
    """A server with one table, and clients that check each message against the state they have then."""

    def __init__(self, server: MemoryServer) -> None:
        self.server = server
        self.wrong: list[str] = []
        self.reading: list[asyncio.Future[None]] = []
        self.sessions: dict[str, ClientSession] = {}

    @property
    def room(self) -> Table:
        (room,) = self.server.rooms
        assert isinstance(room, Table)
        return room

    async def join(self, name: str, codec: str = MSGPACK.name) -> ClientRoom:
        session = await self.connect(name, codec)
        return self.read(await session.join_or_create("table", state=Board, data=Hand))

    async def watch(self, session: ClientSession, room: ClientRoom) -> ClientRoom:
        return self.read(await session.spectate(room.id, state=Board, data=Hand))

    async def connect(self, name: str, codec: str = MSGPACK.name) -> ClientSession:
        session = self.sessions[name] = await self.server.connect(name, messages=[Played], codec=codec)
        return session

    def read(self, room: ClientRoom) -> ClientRoom:
        """Read everything, and look at the state with each message."""

        async def read() -> None:
            with suppress(SessionEnded):
                await read_all()

        async def read_all() -> None:
            async for message in room:
                if isinstance(message, Played) and room.state.turns != message.turns:
                    self.wrong.append(f"{room} heard of turn {message.turns} with the state of {room.state.turns}")

        self.reading.append(asyncio.ensure_future(read()))
        return room

    def exact(self, room: ClientRoom) -> bool:
        """Whether the client has what the room is now."""
        here = self.room
        public = {player.id: player.data.score for player in here.players}
        return bool(room.state == here.state and {each: data.score for each, data in room.players.items()} == public)

    async def until_exact(self, *rooms: ClientRoom) -> None:
        await until(lambda: all(self.exact(room) for room in rooms))
        assert self.wrong == []

    def drop(self, name: str) -> None:
        self.server.dialer(self.sessions[name]).is_down = True
        self.server.link(self.sessions[name]).cut()

    def back(self, name: str) -> None:
        self.server.dialer(self.sessions[name]).is_down = False

    async def crash(self) -> None:
        self.server.crash()
        await asyncio.sleep(1.0)
        await self.server.start()


DURABILITIES = pytest.mark.parametrize("durability", ["memory", "checkpoint", "commit"])


def play(test: Callable[[Game], Coroutine[Any, Any, None]], durability: str = "memory", **settings: Any) -> None:
    async def main() -> None:
        kind = type("Table", (Table,), {"durability": durability, "checkpoint_s": 3.0, **settings})
        limits = Limits(window_messages_max=16, kept_messages_max=64)
        async with MemoryServer([kind], store=FaultyStore(), limits=limits) as server:
            await test(Game(server))

    run(main())


async def many(room: ClientRoom, turns: int) -> None:
    for number in range(turns):
        await room.send(Play(number, is_said=number % 3 == 0))
        if number % 5 == 0:
            await asyncio.sleep(0.05)


@DURABILITIES
@pytest.mark.parametrize("codec", [MSGPACK.name, JSON.name])
def test_every_message_is_heard_with_the_state_of_its_turn(durability: str, codec: str) -> None:
    async def test(game: Game) -> None:
        ada, bob = await game.join("ada", codec), await game.join("bob", codec)
        await asyncio.gather(many(ada, 60), many(bob, 60))

        await game.until_exact(ada, bob)
        assert ada.mine.cards == [ord("a"), *range(60)]
        assert all(data.cards == [] for data in ada.players.values())

    play(test, durability)


@DURABILITIES
def test_a_client_that_drops_again_and_again_has_the_exact_state(durability: str) -> None:
    async def test(game: Game) -> None:
        ada, bob = await game.join("ada"), await game.join("bob")
        playing = asyncio.ensure_future(many(ada, 150))
        for number in range(8):
            game.drop("bob")
            await asyncio.sleep(0.3 * (number % 3))
            game.back("bob")
            await asyncio.sleep(0.5)
        await playing

        await game.until_exact(ada, bob)

    play(test, durability)


@pytest.mark.parametrize("durability", ["checkpoint", "commit"])
def test_the_state_is_exact_after_a_crash_of_the_server(durability: str) -> None:
    async def test(game: Game) -> None:
        ada, bob = await game.join("ada"), await game.join("bob", JSON.name)
        watching = await game.watch(await game.connect("eve"), ada)
        for _ in range(3):
            await many(ada, 20)
            await bob.send(Play(7, is_said=False))
            await asyncio.sleep(4.0)
            await many(ada, 5)
            await game.crash()
            await ada.send(Play(1))
            await ada.flush()

        await game.until_exact(ada, bob, watching)
        assert ada.mine.cards == game.room.players[0].data.cards

    play(test, durability)


def test_a_new_session_that_takes_the_seat_over_has_the_whole_state() -> None:
    async def test(game: Game) -> None:
        ada = await game.join("ada")
        await many(ada, 10)
        await ada.flush()

        again = await game.join("ada")

        await game.until_exact(again)
        assert again.mine.cards == game.room.players[0].data.cards

    play(test)


def test_a_client_whose_stream_overflowed_has_the_exact_state_first() -> None:
    async def test(game: Game) -> None:
        ada, bob = await game.join("ada"), await game.join("bob")
        game.drop("bob")
        await asyncio.sleep(0.5)
        for number in range(200):
            await ada.send(Play(number % 10))
            await ada.flush()
        assert game.server.counters.streams_overflowed == 1
        game.back("bob")

        await game.until_exact(ada, bob)

    play(test)


def test_turns_that_say_nothing_wait_for_the_rate() -> None:
    async def test(game: Game) -> None:
        ada, bob = await game.join("ada"), await game.join("bob")
        changes: list[Any] = []
        bob.on_change(changes.append)
        for number in range(100):
            await ada.send(Play(number, is_said=False))
            await asyncio.sleep(0.01)
        await asyncio.sleep(1.0)
        assert 1 < len(changes) <= 15

        await game.until_exact(ada, bob)

    play(test, sync_hz=10.0)


def test_a_spectator_who_gets_a_seat_has_their_own_data_too() -> None:
    async def test(game: Game) -> None:
        ada = await game.join("ada")
        session = await game.connect("eve")
        watching = await game.watch(session, ada)
        await many(ada, 5)
        await game.until_exact(watching)
        assert watching.mine is None

        seat = game.read(await session.join(ada.id, state=Board, data=Hand))

        await game.until_exact(ada, seat)
        assert seat.mine.cards == [ord("e")]

    play(test)
