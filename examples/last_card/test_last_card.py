"""The card game under drops and crashes, in virtual time and without sockets. Run it with: pytest examples/last_card"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest
from examples.last_card.game import (
    TURN_S,
    Cheer,
    Cheered,
    Deal,
    Draw,
    Drawn,
    Holder,
    LastCard,
    Play,
    Rematch,
    fits,
)

from holdfast import ClientRoom, Message, MessageRefused, Refused, SessionEnded
from holdfast.testing import FaultyStore, MemoryServer, run


class Guest:
    """Somebody at the table, or watching: reads what comes, and looks at what the room shares."""

    def __init__(self, player_id: str, room: ClientRoom) -> None:
        self.id = player_id
        self.room = room
        self._heard: asyncio.Queue[Message] = asyncio.Queue()
        self._changed = asyncio.Event()
        room.on_change(lambda _: self._changed.set())
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        with suppress(SessionEnded):
            async for message in self.room:
                await self._heard.put(message)

    async def until(self, holds: Callable[["Guest"], bool]) -> None:
        while self.room.state is None or not holds(self):
            self._changed.clear()
            await self._changed.wait()

    async def until_dealt(self) -> None:
        await self.until(lambda guest: guest.table.turn != "")

    async def hear(self, kind: type[Message]) -> Message:
        while not isinstance(message := await self._heard.get(), kind):
            pass
        return message

    @property
    def table(self) -> Deal:
        table: Deal = self.room.state
        return table

    @property
    def hand(self) -> list[str]:
        hand: list[str] = self.room.mine.hand
        return hand

    @property
    def has_turn(self) -> bool:
        return self.table.turn == self.id

    @property
    def bots(self) -> list[bool]:
        return [player.is_bot for player in self.room.players.values()]

    async def play_to_the_end(self) -> str:
        """Play as the bots do; the winner."""
        while True:
            await self.until(lambda guest: guest.has_turn or guest.table.winner != "")
            if self.table.winner:
                return self.table.winner
            card = next((card for card in self.hand if fits(card, self.table.pile[-1])), "")
            await self.room.send(Play(card) if card else Draw())
            await self.until(lambda guest: not guest.has_turn)


async def sit_down(server: MemoryServer, name: str) -> Guest:
    session = await server.connect(name.lower(), messages=[Cheered, Drawn], name=name, state=Deal, data=Holder)
    return Guest(session.player_id, await session.join_or_create("last_card"))


def test_bots_take_the_empty_seats_and_a_game_is_played_to_its_end_and_again() -> None:
    async def play() -> None:
        async with MemoryServer([LastCard], store=FaultyStore()) as server:
            ada = await sit_down(server, "Ada")
            await ada.until_dealt()
            assert ada.bots == [False, True, True, True]

            assert await ada.play_to_the_end()
            await ada.room.send(Rematch())

            await ada.until_dealt()
            assert [player.cards for player in ada.room.players.values()] == [5, 5, 5, 5]

    run(play())


def test_nobody_receives_another_players_cards() -> None:
    async def play() -> None:
        async with MemoryServer([LastCard], store=FaultyStore()) as server:
            ada, bob = await sit_down(server, "Ada"), await sit_down(server, "Bob")
            await ada.until_dealt()
            await bob.until_dealt()

            assert len(ada.hand) == len(bob.hand) == 5
            assert not set(ada.hand) & set(bob.hand)
            for guest in (ada, bob):
                assert guest.table.deck == []
                assert {tuple(player.hand) for player in guest.room.players.values()} == {()}

    run(play())


def test_a_game_goes_on_after_a_crash_with_the_same_cards() -> None:
    async def play() -> None:
        async with MemoryServer([LastCard], store=FaultyStore()) as server:
            ada = await sit_down(server, "Ada")
            await ada.until_dealt()
            hand = ada.hand

            server.crash()
            await server.start()
            await ada.until(lambda ada: all(player.is_here for player in ada.room.players.values()))

            assert ada.hand == hand
            assert await ada.play_to_the_end()

    run(play())


def test_a_player_who_is_away_draws_when_the_time_is_up() -> None:
    async def play() -> None:
        async with MemoryServer([LastCard], store=FaultyStore()) as server:
            ada = await sit_down(server, "Ada")
            await ada.until(lambda ada: ada.has_turn)

            await ada.until(lambda ada: not ada.has_turn)

            assert ada.room.players[ada.id].cards == len(ada.hand) == 6

    run(play())


def test_drawing_is_answered_and_out_of_turn_refused() -> None:
    async def play() -> None:
        async with MemoryServer([LastCard], store=FaultyStore()) as server:
            ada = await sit_down(server, "Ada")
            await ada.until(lambda ada: ada.has_turn)

            drawn = await ada.room.ask(Draw())

            await ada.until(lambda ada: not ada.has_turn)
            assert drawn == Drawn(ada.hand[5])
            with pytest.raises(Refused, match="it is not your turn"):
                await ada.room.ask(Draw())

    run(play())


def test_a_spectator_sees_the_table_and_no_hand_and_may_cheer() -> None:
    async def play() -> None:
        async with MemoryServer([LastCard], store=FaultyStore()) as server:
            ada = await sit_down(server, "Ada")
            await ada.until_dealt()
            session = await server.connect("cleo", messages=[Cheered], name="Cleo", state=Deal, data=Holder)
            cleo = Guest(session.player_id, await session.spectate(ada.room.id))

            await cleo.until(lambda cleo: cleo.table.spectators == 1)
            await cleo.room.send(Cheer("Go!"))
            await cleo.room.send(Draw())

            assert len(cleo.room.players) == 4
            assert cleo.room.mine is None
            assert await ada.hear(Cheered) == Cheered("Cleo", "Go!")
            refused = await cleo.hear(MessageRefused)
            assert isinstance(refused, MessageRefused)
            assert refused.type == "draw"

    run(play())


def test_a_player_who_is_called_like_a_bot_does_not_keep_it_from_its_seat_after_a_crash() -> None:
    async def play() -> None:
        async with MemoryServer([LastCard], store=FaultyStore()) as server:
            ada = await sit_down(server, "B0t 1")
            await ada.until_dealt()
            names = [player.name for player in ada.room.players.values()]
            assert names == ["B0t 1", "Bot 1 (2)", "Bot 2", "Bot 3"]

            server.crash()
            await server.start()

            assert await ada.play_to_the_end()

    run(play())


def test_a_bot_takes_the_seat_of_a_player_who_left_before_the_next_game() -> None:
    async def play() -> None:
        async with MemoryServer([LastCard], store=FaultyStore()) as server:
            ada, bob = await sit_down(server, "Ada"), await sit_down(server, "Bob")
            await ada.until_dealt()
            await bob.room.leave()
            await ada.play_to_the_end()

            await ada.room.send(Rematch())

            await ada.until_dealt()
            assert ada.bots == [False, True, True, True]

    run(play())


def test_a_newcomer_does_not_begin_the_next_game_for_those_who_do_not_want_it_yet() -> None:
    async def play() -> None:
        async with MemoryServer([LastCard], store=FaultyStore()) as server:
            ada, bob = await sit_down(server, "Ada"), await sit_down(server, "Bob")
            await ada.until_dealt()
            await bob.room.leave()
            await ada.play_to_the_end()

            await sit_down(server, "Cleo")
            await ada.until(lambda ada: len(ada.room.players) == 4)
            assert ada.table.turn == ""
            await ada.room.send(Rematch())

            await ada.until_dealt()

    run(play())


def test_a_reserved_seat_delays_the_game_and_does_not_stop_it() -> None:
    async def play() -> None:
        async with MemoryServer([LastCard], store=FaultyStore()) as server:
            ada = await sit_down(server, "Ada")
            await server.clients[0].reserve(ada.room.id, players=["bob"], ttl_s=60.0)

            await ada.until_dealt()

            assert ada.bots == [False, True, True, True]

    run(play())


def test_bots_keep_their_pace_however_many_come_to_watch() -> None:
    async def play() -> None:
        async with MemoryServer([LastCard], store=FaultyStore()) as server:
            ada = await sit_down(server, "Ada")
            await ada.until(lambda ada: ada.table.turn.startswith("agent:"))
            bot = ada.table.turn
            cleo = await server.connect("cleo")
            for _ in range(30):
                watched = await cleo.spectate(ada.room.id)
                await watched.leave()
            await ada.until(lambda ada: ada.table.turn != bot)
            while ada.table.turn != bot:
                before = ada.table.turn
                if ada.has_turn:
                    await ada.room.send(Draw())
                await ada.until(lambda ada, before=before: ada.table.turn != before)  # type: ignore[misc]  # bound now
            began = asyncio.get_running_loop().time()

            await ada.until(lambda ada: ada.table.turn != bot)

            assert asyncio.get_running_loop().time() - began < TURN_S / 2

    run(play())
