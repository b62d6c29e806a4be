"""Agents ask, too."""

import asyncio
from typing import Any

import pytest

from holdfast import (
    Failed,
    Invalid,
    NotAllowed,
    NotFound,
    NotSeated,
    PlayerData,
    Refused,
    RoomAgent,
)
from holdfast.testing import MemoryServer
from tests.server.asks.shop import Bought, Buy, Goodbye, Haggle, Look, Shop, Steal, Wait, Wrong, serve
from tests.simulation.stage import in_virtual_time


@pytest.mark.parametrize("kind", ["shop", "ledger"])
@in_virtual_time
async def test_an_agent_asks_as_a_client_does(kind: str) -> None:
    async with serve(allow_errors=(ZeroDivisionError, TypeError)) as server:

        async def story() -> None:
            agent = server.open_agent("npc")
            room = await agent.join(await agent.create(kind))

            assert await room.ask(Buy(3)) == Bought(3)
            assert await room.ask(Look()) is None
            assert await room.ask(Wait(1.0)) == Bought(3)
            refusals = [(Buy(0), Refused), (Steal(), NotAllowed), (Bought(1), NotFound), (Wrong("three"), Invalid)]
            for message, error in [*refusals, (Haggle("raises"), Failed), (Haggle("number"), Failed)]:
                with pytest.raises(error):
                    await room.ask(message)
            with pytest.raises(TimeoutError, match="no answer to 'wait' within 2 s"):
                await room.ask(Wait(5.0), timeout_s=2.0)
            with pytest.raises(TypeError, match="send a Message"):
                await room.ask("buy")  # type: ignore[arg-type]
            with pytest.raises(NotSeated, match="lost its seat before the answer came"):
                await room.ask(Goodbye("kick"))
            assert [message async for message in room] == []
            with pytest.raises(NotSeated):
                await room.ask(Buy(3))

        await server.machine.do(story())


@in_virtual_time
async def test_an_agent_whose_seat_is_freed_while_it_waits_is_told_so() -> None:
    async with serve() as server:

        async def story() -> None:
            agent = server.open_agent("npc")
            room = await agent.join(await agent.create("shop"))
            asking = [asyncio.create_task(room.ask(message)) for message in (Wait(5.0), Buy(3))]
            await asyncio.sleep(1.0)
            found = server.rooms.get(room.id)
            assert found is not None
            found.players[0].kick("out")
            for each in asking:
                with pytest.raises(NotSeated, match="lost its seat before the answer came"):
                    await each

        await server.machine.do(story())


class Tavern(Shop):
    """Opens an agent that asks."""

    answers: list[Any]

    def on_created(self) -> None:
        self.answers = []
        self.open_agent("bot", self.play)

    async def play(self, agent: RoomAgent[PlayerData]) -> None:
        self.answers.append(await agent.ask(Buy(3)))
        try:
            await agent.ask(Buy(0))
        except Refused as refusal:
            self.answers.append(str(refusal))
        try:
            await agent.ask(Wait(5.0), timeout_s=2.0)
        except TimeoutError as late:
            self.answers.append(str(late))
        await agent.receive()


@in_virtual_time
async def test_an_agent_of_the_room_asks_it() -> None:
    async with MemoryServer([Tavern]) as server:
        room = await (await server.connect("ada", messages=[Bought])).join_or_create("tavern")
        await asyncio.sleep(10.0)
        found = server.rooms.get(room.id)
        assert isinstance(found, Tavern)

        assert found.answers == [Bought(3), "nothing to buy", "no answer to 'wait' within 2 s"]
