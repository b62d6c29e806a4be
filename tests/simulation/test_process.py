"""The programs of the simulation: when they give up, and what they expect of a server that comes back."""

import asyncio
from dataclasses import replace

from tests.simulation.options import Options
from tests.simulation.process import Process
from tests.simulation.stage import in_virtual_time
from tests.simulation.view import Cry
from tests.simulation.world import World

DURABLE, LOOSE = "soft", "hard"


async def a_world(seed: int) -> World:
    """A world in which nothing happens by itself."""
    options = Options.drawn(seed)
    if options.store is not None:
        options = replace(options, durability=("commit", "memory", "memory", "memory"))
    world = World(options, frozenset())
    await world.begin_life()
    return world


async def a_process(world: World, *, after: Process | None = None) -> Process:
    """A program of the same player that runs, perhaps from what another one remembered."""
    process = Process(world, "ada", after.memory if after is not None else None)
    await process.open()
    return process


@in_virtual_time
async def test_a_program_that_waits_to_ask_gives_up_when_its_session_ends() -> None:
    world = await a_world(2)
    process = await a_process(world)
    process.excuses.add("bye")
    sitting = await process.join(DURABLE)
    assert sitting is not None
    process.dialer.link.stall()
    while not process.session.protocol.is_full(sitting.room.channel):
        await process.send(is_refused=False, ballast=0)
    asking = asyncio.create_task(process.ask(is_refused=False, ballast=0))
    await asyncio.sleep(1.0)
    assert not asking.done()

    await process.session.close()

    async with asyncio.timeout(10.0):
        assert await asking is None
    assert world.checker.violations == []


@in_virtual_time
async def test_a_program_that_lost_its_seat_while_it_was_away_need_not_be_known_once_it_joins_a_room_in_memory() -> (
    None
):
    world = await a_world(65)
    former = await a_process(world)
    assert await former.join(DURABLE) is not None
    former.remember()
    former.kill(silently=False)
    world.server.machine.call(next(iter(world.server.rooms)).close)
    await asyncio.sleep(2.0)
    process = await a_process(world, after=former)
    assert process.session.id == former.session.id
    assert process.session.room is None

    # A session whose seat is in memory is not in the store, and nobody has heard of the seat yet.
    joining = asyncio.create_task(process.join(LOOSE))
    while f"session/{process.session.id}" in world.disk.entries:
        await world.next_written()
    world.server.crash()
    await world.begin_life()
    await joining

    assert process.session.outcome is not None
    assert (process.session.outcome.kind, process.session.outcome.reason) == ("reset", "expired")
    assert world.checker.violations == []


@in_virtual_time
async def test_a_program_remembers_nothing_of_a_former_session_that_it_was_slow_to_deal_with() -> None:
    world = await a_world(2)
    process = await a_process(world)
    process.pause_s = 5.0
    world.server.broadcast(Cry(0, 1))
    await asyncio.sleep(1.0)
    assert process.mail.cry is None

    world.server.crash()
    await world.begin_life()
    await asyncio.sleep(5.0)

    assert process.session.outcome is not None
    assert process.session.outcome.kind == "reset"
    assert process.remember().mail.cry is None
    assert world.checker.violations == []


@in_virtual_time
async def test_a_world_waits_for_streams_that_are_read_late() -> None:
    world = await a_world(2)
    process = world.actors[0].process = await a_process(world)
    sitting = await process.join(DURABLE)
    assert sitting is not None
    link = process.dialer.link
    link.stall()
    await asyncio.sleep(1.0)
    world.game.is_quiet = True
    end = len(world.checker.logs[sitting.room.id])
    assert sitting.view.at is None or sitting.view.at < end

    asyncio.get_running_loop().call_later(1.0, link.flow)
    await world.read_to_the_end()

    assert sitting.view.at == end
