"""A drain waits for who has a seat, or is about to have one; not for seats that nobody took in the end."""

import asyncio
from typing import Any

from holdfast import Player, PlayerData, Reason, Refused, Room
from holdfast.core.errors import NotFound
from holdfast.testing import MemoryServer
from tests.server.durability.bench import a_moment, in_virtual_time, until

# Longer than anything here takes: a drain that is over before has not waited for its deadline.
LONG_S = 3_000.0


class Club(Room[PlayerData]):
    """Thinks about newcomers for as long as a test likes."""

    max_players = 4

    def on_create(self, config: dict[str, Any]) -> None:
        self.has_decided = asyncio.Event()
        self.asked = 0

    async def admit(self, player: Player[PlayerData]) -> None:
        self.asked += 1
        await self.has_decided.wait()
        raise Refused("members only")


async def drained(server: MemoryServer) -> asyncio.Task[None]:
    drain = asyncio.create_task(server.machine.do(server.drain(LONG_S)))
    await a_moment()
    return drain


@in_virtual_time
async def test_a_drain_does_not_wait_for_a_newcomer_who_was_not_let_in() -> None:
    async with MemoryServer([Club]) as server:
        room = await server.create_room("club")
        assert isinstance(room, Club)
        ada = await server.connect("ada")
        joining = asyncio.create_task(ada.join(room.id))
        await until(lambda: room.asked)
        drain = await drained(server)
        assert not drain.done()

        server.machine.call(room.has_decided.set)

        await until(drain.done, within_s=5.0)
        assert isinstance((await asyncio.gather(joining, return_exceptions=True))[0], Refused)


@in_virtual_time
async def test_a_drain_does_not_wait_for_a_seat_that_was_reserved_and_never_taken() -> None:
    async with MemoryServer([Club]) as server:
        ada = await server.connect("ada")
        room = await ada.create("club")
        await ada.reserve(room.id, ttl_s=20.0)
        drain = await drained(server)
        assert not drain.done()

        await until(drain.done, within_s=25.0)


class Fragile(Room[PlayerData]):
    """Everything about its end goes wrong."""

    def on_stopping(self, deadline_s: float) -> None:
        raise LookupError("nobody told me")

    def on_leave(self, player: Player[PlayerData], reason: Reason) -> None:
        raise LookupError("who was that")

    async def on_destroy(self) -> None:
        raise NotFound("where am I")


@in_virtual_time
async def test_a_drain_ends_although_every_hook_of_the_rooms_raises() -> None:
    async with MemoryServer([Fragile], allow_errors=Exception) as server:
        sessions = [await server.connect(name) for name in ("ada", "bob")]
        rooms = [await session.join((await session.create("fragile")).id) for session in sessions]
        drain = await drained(server)
        assert not drain.done()

        await rooms[0].leave()
        host = server.parts.rooms.runner(rooms[1].id)
        server.machine.call(host.end, "unhealthy")

        await until(drain.done, within_s=5.0)
        assert server.counters.internal_errors == 0
