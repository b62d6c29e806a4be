"""The passive end: a room that nobody wants any more ends by itself, and not before."""

import asyncio

import pytest

from holdfast import ClientSession, Limits, NotFound, PlayerData, Room
from holdfast.schemas.requests import Reserve
from holdfast.testing import FaultyStore, MemoryServer
from tests.server.directory.seats import PATIENT, a_room, arena, call, connected, guarded, seats, served
from tests.server.durability.bench import a_moment, in_virtual_time

UNJOINED_S = 100.0

# How far from its time an end may be; virtual time is exact, but a client's answer takes its way.
NEAR_S = 0.1


def _limits() -> Limits:
    return Limits(ping_s=PATIENT.ping_s, silence_s=PATIENT.silence_s, unjoined_s=UNJOINED_S)


async def _ends(server: MemoryServer, room: Room[PlayerData], reason: str, in_s: float) -> None:
    """Wait for the end of a room; the reason, and after how many seconds from now, must be these."""
    began = asyncio.get_running_loop().time()
    async for event in server.parts.events.read(0):
        if event.type == "room.ended" and event.body["room"] == room.id:
            assert event.body["reason"] == reason
            assert asyncio.get_running_loop().time() - began == pytest.approx(in_s, abs=NEAR_S)
            return
    pytest.fail("the server stopped before the room did")


async def _seated(server: MemoryServer, room: Room[PlayerData], name: str) -> ClientSession:
    (session,) = await connected(server, name)
    await session.join(room.id)
    return session


@pytest.mark.parametrize("durability", ["memory", "commit"])
@in_virtual_time
async def test_the_last_leave_ends_the_room_after_its_time(durability: str) -> None:
    async with served(arena(empty_ttl_s=20.0, durability=durability), limits=_limits(), store=FaultyStore()) as server:
        room = await server.create_room("arena")
        ada, bob = await _seated(server, room, "ada"), await _seated(server, room, "bob")
        await a_moment(500.0)

        assert ada.room is not None
        await ada.room.leave()
        await a_moment(500.0)
        assert server.rooms.get(room.id) is room, "somebody is there"
        assert bob.room is not None
        await bob.room.leave()

        await _ends(server, room, "empty", 20.0)
        with pytest.raises(NotFound):
            await ada.join(room.id)


@in_virtual_time
async def test_a_room_without_patience_ends_with_its_last_player() -> None:
    async with served(arena(empty_ttl_s=0.0), limits=_limits()) as server:
        room = await server.create_room("arena")
        ada = await _seated(server, room, "ada")
        await a_moment()

        assert ada.room is not None
        await ada.room.leave()

        await _ends(server, room, "empty", 0.0)


@in_virtual_time
async def test_who_comes_back_in_time_keeps_the_room() -> None:
    async with served(arena(empty_ttl_s=20.0), limits=_limits()) as server:
        room = await server.create_room("arena")
        ada = await _seated(server, room, "ada")
        for _ in range(3):
            assert ada.room is not None
            await ada.room.leave()
            await a_moment(19.0)
            await ada.join(room.id)

        assert server.rooms.get(room.id) is room
        assert ada.room is not None
        await ada.room.leave()
        await _ends(server, room, "empty", 20.0)


@pytest.mark.parametrize("empty_ttl_s", [0.0, 5.0, 1000.0])
@in_virtual_time
async def test_a_room_that_nobody_ever_joined_ends_by_its_own_timer(empty_ttl_s: float) -> None:
    async with served(arena(empty_ttl_s=empty_ttl_s), limits=_limits()) as server:
        room = await server.create_room("arena")

        await _ends(server, room, "never_joined", UNJOINED_S)


@in_virtual_time
async def test_a_held_seat_keeps_the_room_until_its_grace_ends() -> None:
    async with served(arena(empty_ttl_s=20.0, grace_s=50.0), limits=_limits()) as server:
        room = await server.create_room("arena")
        ada = await call(server, "ada")
        await ada.join(room.id)

        await ada.client.close()
        await a_moment(49.0)
        assert seats(server, room.id) == {"ada": "held"}

        await _ends(server, room, "empty", 21.0)


@in_virtual_time
async def test_a_reservation_keeps_the_room_until_it_expires() -> None:
    async with served(arena(empty_ttl_s=20.0), limits=_limits()) as server:
        room, joined = await a_room(server), await a_room(server, "bob")
        ada = await _seated(server, joined, "ada")
        (bob,) = await connected(server, "bob")
        await server.operate.rooms.reserve(Reserve(room.id, players=["bob"], ttl_s=300.0))
        await bob.reserve(joined.id, ttl_s=300.0)
        assert ada.room is not None
        await ada.room.leave()

        await a_moment(299.0)
        assert len(server.rooms) == 2

        await _ends(server, room, "never_joined", 1.0)
        await _ends(server, joined, "empty", 20.0)


@in_virtual_time
async def test_a_released_reservation_keeps_no_room() -> None:
    async with served(arena(empty_ttl_s=20.0), limits=_limits()) as server:
        room = await a_room(server, "bob")
        ada = await _seated(server, room, "ada")
        (bob,) = await connected(server, "bob")
        await bob.reserve(room.id, ttl_s=300.0)
        assert ada.room is not None
        await ada.room.leave()
        await a_moment(100.0)

        await bob.release(room.id)

        await _ends(server, room, "empty", 20.0)


@in_virtual_time
async def test_who_waits_for_a_seat_keeps_the_room_only_while_one_is_kept_for_them() -> None:
    kind = arena(max_players=1, waiting_max=4, empty_ttl_s=0.0, reservation_s=30.0)
    async with served(kind, limits=_limits()) as server:
        room = await server.create_room("arena")
        ada = await _seated(server, room, "ada")
        bob, cleo = await call(server, "bob"), await call(server, "cleo")
        await bob.wait(room.id)
        await cleo.wait(room.id)

        assert ada.room is not None
        await ada.room.leave()

        # Each of the two has their time to come.
        await _ends(server, room, "empty", 60.0)


@in_virtual_time
async def test_a_room_does_not_end_while_it_thinks_about_a_newcomer() -> None:
    kind = guarded(empty_ttl_s=1.0)
    async with served(kind, limits=_limits()) as server:
        room = await server.create_room("arena")
        (ada,) = await connected(server, "ada")
        await a_moment(UNJOINED_S - 1.0)
        joining = asyncio.create_task(ada.join(room.id))
        await a_moment(5.0)

        kind.door.set()
        await joining

        assert seats(server, room.id) == {"ada": "taken"}


@in_virtual_time
async def test_a_room_that_came_back_with_nobody_in_it_ends_too() -> None:
    async with served(
        arena(empty_ttl_s=20.0, durability="commit"), limits=_limits(), store=FaultyStore(), grace_s=10.0
    ) as server:
        fresh, used, kept = [await a_room(server) for _ in range(3)]
        ada = await call(server, "ada")
        await ada.join(used.id)
        await ada.tell("leave")
        await server.machine.do(server.operate.rooms.reserve(Reserve(kept.id, players=["ada"], ttl_s=300.0)))

        server.crash()
        await server.start()

        await _ends(server, used, "empty", 20.0)
        await _ends(server, fresh, "never_joined", UNJOINED_S - 20.0)
        await _ends(server, kept, "never_joined", 200.0)
