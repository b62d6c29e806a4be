import asyncio

import pytest

from tests.server.foreign import DOORS, Door
from tests.server.hostile.not_frames import NOT_FRAMES
from tests.server.hostile_world import World
from tests.server.vandal import Vandal

pytestmark = pytest.mark.asyncio(loop_scope="module")

# All of it at once


async def test_a_crowd_of_vandals_disturbs_nobody(world: World) -> None:
    async def spoil(door: Door, what: str) -> None:
        async with world.enter(door) as peer:
            channel = await peer.sit_down(world.hall.id)
            await peer.say(["data", channel, 1, 0, "say", {"n": 1}], ["latest", channel, "say", {"n": "?"}])
            await peer.say_bytes(NOT_FRAMES[what](peer))
            await peer.hear_end()

    before = world.bystander.echoes
    await asyncio.gather(*(spoil(door, what) for what in list(NOT_FRAMES)[::2] for door in DOORS[::3]))

    assert world.bystander.echoes > before


@pytest.mark.parametrize("seed", range(4))
async def test_good_frames_in_no_good_order_disturb_nobody(world: World, seed: int) -> None:
    before = world.bystander.echoes

    await asyncio.gather(*(Vandal(world, door, seed * len(DOORS) + n).rage(8) for n, door in enumerate(DOORS)))

    assert world.bystander.echoes > before
