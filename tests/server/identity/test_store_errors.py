"""A store that cannot be asked makes signing in wait; one that is broken ends the server."""

import pytest

from holdfast import Auth, Limits, Reason, Throttled
from holdfast.identity import Password
from holdfast.schemas.frames import Close, Hello
from holdfast.stores import Broken, StoreError, Unavailable, Unknown
from holdfast.testing import FaultyStore, MemoryServer
from holdfast.testing.server import QuickHashing
from tests.server.access.kit import dialed, hall, operator, serving
from tests.server.durability.bench import in_virtual_time, until


async def _turned_away(server: MemoryServer) -> Close:
    client = await dialed(server)
    client.say(Hello(Auth.password("ada", "correct horse")))
    return await client.closed()


@pytest.mark.parametrize("error", [Unavailable("the disk is full"), Unknown("it took too long")])
@in_virtual_time
async def test_who_signs_in_while_the_store_cannot_be_asked_is_told_when_to_come_back(error: StoreError) -> None:
    store = FaultyStore()
    async with serving(store=store, auth=(Password(hashing=QuickHashing()),)) as server:
        store.fail(error)
        told = await _turned_away(server)

        assert told.reason == Reason.BUSY
        assert told.retry_after_s == 2.0
        store.fail(error)
        with pytest.raises(Throttled, match="cannot check credentials"):
            await operator(server).accounts.get("ada")


@in_virtual_time
async def test_a_full_store_in_memory_tells_operators_what_to_do() -> None:
    limits = Limits(records_in_memory_max=1)
    auth = (Password(hashing=QuickHashing()),)
    async with serving(hall(durability="memory"), store=None, auth=auth, limits=limits) as server:
        await operator(server).accounts.create("ada", "correct horse", player="", roles=[])

        with pytest.raises(Throttled, match="give the server a store"):
            await operator(server).accounts.create("bob", "correct horse", player="", roles=[])


@in_virtual_time
async def test_a_broken_store_ends_the_server_though_no_room_is_saved() -> None:
    store = FaultyStore()
    async with serving(store=store, auth=(Password(hashing=QuickHashing()),)) as server:
        machine = server.machine
        store.fail(Broken("fsync failed"))

        client = await dialed(server)
        client.say(Hello(Auth.password("ada", "correct horse")))

        await until(lambda: not machine.is_running)
        await server.start()
