"""A game may free the seat that is being taken over: whoever takes it over is told, and nothing breaks."""

import asyncio

import pytest

from holdfast import Limits, Message, NotSeated, Player, PlayerData, Room, on
from holdfast.core.session import seat_of
from holdfast.testing import MemoryServer, generous
from tests.server.durability.bench import in_virtual_time, until

LIMITS = generous(Limits(window_messages_max=4, window_bytes_max=4096))


class Say(Message):
    text: str = ""


class Strict(Room[PlayerData]):
    """Wants nobody who drops."""

    def on_drop(self, player: Player[PlayerData]) -> None:
        player.kick("who drops is out")


class Chatty(Room[PlayerData]):
    """Answers a lot, and kicks who asks for it."""

    @on(Say)
    def said(self, player: Player[PlayerData], say: Say) -> None:
        if say.text == "kick me":
            player.kick("as you wish")
        for _ in range(4):
            player.send(Say(say.text))


@in_virtual_time
async def test_a_seat_that_the_drop_costs_cannot_be_taken_over() -> None:
    async with MemoryServer([Strict]) as server:
        room = await server.create_room("strict")
        first, second = await server.connect("ada"), await server.connect("ada")
        await first.join(room.id)

        with pytest.raises(NotSeated, match="join again"):
            await second.join(room.id)

        assert (await second.join(room.id)).left is None
        assert [player.session.id for player in room.players] == [second.id]


@in_virtual_time
async def test_what_was_said_before_a_takeover_may_cost_the_seat() -> None:
    async with MemoryServer([Chatty], limits=LIMITS) as server:
        room = await server.create_room("chatty")
        first, second = await server.connect("ada"), await server.connect("ada")
        seat = await first.join(room.id)
        # More answers than a window, and nobody reads them: the last of these has to wait.
        for text in ("1", "2", "kick me"):
            await asyncio.wait_for(seat.send(Say(text)), 5)
        former = seat_of(room.players[0])
        await until(lambda: former.outlet.backlog is not None)

        again = await second.join(room.id)

        assert again.left is None
        assert [player.session.id for player in room.players] == [second.id]
        assert seat_of(room.players[0]) is not former
