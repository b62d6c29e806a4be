"""Before a server stops: it takes nobody new, says so, and waits for the rooms that would end with it."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast import Reason, Server
from holdfast.core.errors import Throttled
from holdfast.core.reasons import CLOSE_CODES
from holdfast.schemas.events import NodeDraining
from holdfast.schemas.frames import Auth, Hello
from tests.deadlines import DEADLINE_S
from tests.server.world import Say, World, chat, texts_until, until_resumed

# Longer than any test: a drain that ends before has not waited for this.
LONG_S = 10 * DEADLINE_S


async def begun(server: Server) -> asyncio.Task[None]:
    """A drain that has begun, with all the time in the world."""
    told = asyncio.Event()
    server.on(NodeDraining, lambda _: told.set())
    drain = asyncio.create_task(server.drain(LONG_S))
    await told.wait()
    return drain


async def given_up(drain: asyncio.Task[None]) -> None:
    drain.cancel()
    with suppress(asyncio.CancelledError):
        await drain


async def test_a_drain_waits_for_a_room_that_ends_with_the_server_until_it_is_empty(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    room = await session.join_or_create("chat")

    drain = await begun(server)
    await room.send(Say("still here"))
    heard = await texts_until(room, "still here")
    was_waiting = not drain.done()
    await room.leave()

    async with asyncio.timeout(DEADLINE_S):
        await drain
    assert was_waiting
    assert heard == ["still here"]


async def test_a_drain_waits_for_every_room_also_for_one_that_was_empty_when_it_began(world: World) -> None:
    server = await world.serve(chat())
    mover, stayer = await world.connect(server), await world.connect(server)
    first = await mover.join((await mover.create("chat")).id)
    empty = await mover.create("chat")
    drain = await begun(server)

    second = await stayer.join(empty.id)
    await first.leave()
    await mover.search("chat")
    was_waiting = not drain.done()
    await second.leave()

    async with asyncio.timeout(DEADLINE_S):
        await drain
    assert was_waiting


async def test_a_drain_ends_at_its_deadline_whoever_is_left(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    await session.join_or_create("chat")

    async with asyncio.timeout(DEADLINE_S):
        await server.drain(0.01)

    assert len(server.rooms) == 1


async def test_a_drain_does_not_wait_for_rooms_that_outlive_the_server(world: World, tmp_path: Path) -> None:
    server = await world.serve(chat(durability="commit"), store=f"sqlite:{tmp_path / 'game.db'}")
    session = await world.connect(server)
    await session.join_or_create("chat")

    async with asyncio.timeout(DEADLINE_S):
        await server.drain(LONG_S)

    assert len(server.rooms) == 1


async def test_a_node_that_drains_is_not_ready_and_makes_no_rooms(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    await session.join_or_create("chat")
    drain = await begun(server)

    info = server.operate.health.info()
    with pytest.raises(Throttled, match="stopping"):
        await session.create("chat")

    assert not info.is_ready
    await given_up(drain)


async def test_who_is_new_is_sent_away_and_told_when_to_come_back(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    await session.join_or_create("chat")
    drain = await begun(server)

    newcomer = await world.raw(server)
    newcomer.say(Hello(Auth("guest")))
    close = await newcomer.closed()

    assert (close.code, close.reason) == (CLOSE_CODES[Reason.STOPPING], Reason.STOPPING)
    assert close.retry_after_s > 0
    await given_up(drain)


async def test_who_drops_meanwhile_comes_back_to_the_seat(world: World) -> None:
    server = await world.serve(chat())
    session = await world.connect(server)
    await session.join_or_create("chat")
    drain = await begun(server)

    outcome = await until_resumed(session, session.cut)

    assert outcome.kind == "resumed"
    await given_up(drain)


async def test_players_and_rooms_are_told_of_the_deadline(world: World) -> None:
    kind = chat()

    class Patient(kind):  # type: ignore[misc, valid-type]  # made for this test
        def on_stopping(self, deadline_s: float) -> Any:
            self.story.tell("on_stopping", deadline_s)

    Patient.kind = "patient"
    server = await world.serve(Patient)
    session = await world.connect(server)
    told: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    session.on_stopping(told.set_result)
    await session.join_or_create("patient")

    drain = await begun(server)

    async with asyncio.timeout(DEADLINE_S):
        assert await told == LONG_S
    await kind.story.has("on_stopping", LONG_S)
    await given_up(drain)


async def test_after_the_drain_clients_are_closed_with_the_code_to_resume(world: World) -> None:
    server = await world.serve(chat())
    client = await world.raw(server)
    await client.sign_in()

    await server.drain(LONG_S)
    await server.stop()
    close = await client.closed()

    assert close.code == CLOSE_CODES[Reason.STOPPING]


async def test_a_server_that_is_not_running_cannot_be_drained(world: World) -> None:
    server = await world.serve(chat())
    await server.stop()

    with pytest.raises(RuntimeError, match="not running"):
        await server.drain()
