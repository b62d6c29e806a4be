"""Agents of a room, and who else sees them: nobody has such an id, operators find them."""

import asyncio

import pytest

from holdfast import (
    Duplicate,
    SessionEnded,
)
from holdfast.testing import MemoryServer
from tests.server.durability.bench import in_virtual_time
from tests.server.room_agents.table import Hand, Table, a_moment, created, idle, sleeping, table

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
