"""What a hostile or broken client can say to a real server, and what it gets for it.

Through all of it a second client plays on in the same room: every test ends with the proof that it lost nothing, that
nothing of ours raised, and that nothing was logged as an error.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from holdfast import Limits
from tests.server.foreign import DOORS, Door, Foreigner
from tests.server.hostile.peers import Seated
from tests.server.hostile_world import World, a_world


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def whole_world() -> AsyncIterator[World]:
    """One for all tests of this file: the bystander plays through all of it."""
    async with a_world(Limits()) as world:
        yield world


@pytest_asyncio.fixture(loop_scope="module")
async def world(whole_world: World) -> AsyncIterator[World]:
    yield whole_world
    await whole_world.is_undisturbed()


@pytest.fixture(params=DOORS, ids=str)
def door(request: pytest.FixtureRequest) -> Door:
    door: Door = request.param
    return door


@pytest_asyncio.fixture(loop_scope="module")
async def stranger(world: World, door: Door) -> AsyncIterator[Foreigner]:
    """Connected, and has not said hello."""
    async with world.enter(door) as stranger:
        yield stranger


@pytest_asyncio.fixture(loop_scope="module")
async def guest(stranger: Foreigner) -> Foreigner:
    """Signed in, and has no seat."""
    await stranger.sign_in()
    return stranger


@pytest_asyncio.fixture(loop_scope="module")
async def seated(stranger: Foreigner, world: World) -> Seated:
    return Seated(stranger, await stranger.sit_down(world.hall.id))
