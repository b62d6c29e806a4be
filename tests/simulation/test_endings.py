"""Rooms that end: what the simulation expects of the time that their last turns take."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from holdfast.core.room import context_of
from tests.simulation.options import Options
from tests.simulation.process import Process
from tests.simulation.stage import in_virtual_time
from tests.simulation.watcher import WatchingProcess
from tests.simulation.world import Ear, World

# In which rooms live in memory.
SEED = 2


async def a_world(**changes: Any) -> World:
    """A world in which nothing happens by itself."""
    world = World(replace(Options.drawn(SEED), **changes), frozenset())
    await world.begin_life()
    return world


async def a_process(world: World, name: str, kind: str, *, process_type: type[Process] = Process) -> Process:
    process = process_type(world, name)
    await process.open()
    process.excuses.add("bye")
    await process.join(kind, next((room.id for room in world.server.rooms), None))
    return process


@contextmanager
def heard(world: World) -> Iterator[None]:
    ear = Ear()
    ear.world = world
    logging.getLogger("holdfast").addHandler(ear)
    try:
        yield
    finally:
        logging.getLogger("holdfast").removeHandler(ear)


@in_virtual_time
async def test_who_watches_a_room_that_is_ending_is_told_when_its_last_turns_are_over() -> None:
    world = await a_world(handler_s=0.5)
    ada = await a_process(world, "ada", "slow_soft")
    watcher = world.watchers[0]
    watcher.process = await a_process(world, watcher.name, "slow_soft", process_type=WatchingProcess)
    (room,) = world.server.rooms
    await ada.session.close()
    while room.spectators:  # noqa: ASYNC110 - costs nothing in virtual time
        await asyncio.sleep(0.01)
    assert context_of(room).is_closing
    assert watcher.process.sit() is not None

    await world.until_ends_are_told()
    world.check_watching(watcher)

    assert watcher.process.sit() is None
    assert world.checker.violations == []


@in_virtual_time
async def test_a_room_whose_own_code_takes_longer_than_its_server_waits_is_abandoned() -> None:
    # Whatever part of it a turn takes, it is more than the server waits.
    world = await a_world(handler_s=1000.0)
    world.game.options = replace(world.options, handler_s=0.0)
    await a_process(world, "ada", "slow_soft")
    world.game.options = world.options

    with heard(world):
        await world.server.stop()

    assert world.checker.counts["rooms abandoned"] == 1
    assert world.checker.violations == []


@in_virtual_time
async def test_a_room_that_is_abandoned_while_its_own_code_is_done_is_a_bug() -> None:
    world = await a_world(handler_s=0.0)
    await a_process(world, "ada", "slow_soft")
    (room,) = world.server.rooms
    context_of(room).commands.follow(asyncio.Event().wait)

    with heard(world):
        await world.server.stop()

    assert world.checker.counts["rooms abandoned"] == 1
    assert [violation.invariant for violation in world.checker.violations] == ["BUG"]
