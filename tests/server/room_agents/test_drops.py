"""Agents of a room that are disconnected, or whose server crashes."""

import asyncio
from typing import Any

import pytest

from holdfast import (
    Player,
    PlayerData,
    Reason,
)
from holdfast.core.room import context_of
from holdfast.events import Event, Restored, Resumed
from holdfast.testing import FaultyStore, MemoryServer
from tests.server.durability.bench import in_virtual_time, until
from tests.server.room_agents.table import (
    Agent,
    Hand,
    Said,
    Say,
    Table,
    a_moment,
    created,
    first_words,
    idle,
    ids,
    opened,
    sleeping,
    table,
)

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

        assert [message.text async for message in first_words(joined, 2)] == ["hello", "HELLO"]
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
        heard = [message async for message in first_words(joined, 3)]
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
