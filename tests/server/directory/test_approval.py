"""The game's approval: what holds while a room thinks about a newcomer, and when it does not want them."""

import asyncio

import pytest

from holdfast import NotFound, Player, PlayerData, Refused, Room, RoomFull, Throttled
from holdfast.core.errors import Duplicate
from tests.server.directory.seats import (
    a_room,
    arena,
    connected,
    guarded,
    patient,
    seats,
    seconds_left,
    served,
    told,
)
from tests.server.durability.bench import a_moment, in_virtual_time, until


@in_virtual_time
async def test_a_room_that_cannot_decide_in_time_turns_the_player_away_and_keeps_no_seat() -> None:
    kind = guarded(max_players=1)
    async with served(kind, limits=patient(admit_s=3.0)) as server:
        room = await a_room(server)
        ada, bob = await connected(server, "ada", "bob")
        began = asyncio.get_running_loop().time()

        with pytest.raises(Throttled, match="too long"):
            await ada.join(room.id)

        assert asyncio.get_running_loop().time() - began == pytest.approx(3.0, abs=0.1)
        assert seats(server, room.id) == {}
        kind.door.set()
        await bob.join(room.id)


@in_virtual_time
async def test_the_last_seat_is_sold_once_however_long_the_room_thinks() -> None:
    kind = guarded(max_players=3)
    async with served(kind) as server:
        room = await a_room(server)
        players = await connected(server, *(f"p{number}" for number in range(20)))

        joining = [asyncio.create_task(player.join(room.id)) for player in players]
        await until(lambda: len(kind.asked) == 3)
        kind.door.set()
        answers = await asyncio.gather(*joining, return_exceptions=True)

        assert sum(isinstance(answer, RoomFull) for answer in answers) == 17
        assert seats(server, room.id) == dict.fromkeys(kind.asked, "taken")


@in_virtual_time
async def test_who_drops_while_the_room_thinks_gives_the_seat_back_and_may_try_again() -> None:
    kind = guarded(max_players=1)
    async with served(kind) as server:
        room = await a_room(server)
        (ada,) = await connected(server, "ada")
        joining = asyncio.create_task(ada.join(room.id))
        await until(lambda: kind.asked == ["ada"])

        server.link(ada).cut()
        await a_moment(1.0)
        kind.door.set()
        await joining

        assert seats(server, room.id) == {"ada": "taken"}
        assert await told(server) == ["ada taken"]


@in_virtual_time
async def test_a_newcomer_whom_the_room_does_not_take_in_is_freed_from_the_seat() -> None:
    class Picky(Room[PlayerData]):
        def on_join(self, player: Player[PlayerData]) -> None:
            raise Refused("no room for you")

    async with served(arena(Picky)) as server:
        room = await a_room(server)
        (ada,) = await connected(server, "ada")

        with pytest.raises(Refused, match="no room for you"):
            await ada.join(room.id)

        assert seats(server, room.id) == {}
        assert await told(server) == ["ada taken", "ada freed"]
        assert await ada.my_rooms() == []


@in_virtual_time
async def test_who_is_not_admitted_keeps_the_reservation_for_as_long_as_it_lasts() -> None:
    kind = guarded(max_players=1, unloved={"ada"})
    async with served(kind) as server:
        room = await a_room(server, "ada")
        ada, bob = await connected(server, "ada", "bob")
        await ada.reserve(room.id)
        await a_moment(20.0)
        joining = asyncio.create_task(ada.join(room.id))
        await a_moment(5.0)
        kind.door.set()

        with pytest.raises(Refused, match="not you"):
            await joining

        assert seconds_left(server, room.id, "ada") == pytest.approx(35.0, abs=0.1)
        with pytest.raises(RoomFull):
            await bob.join(room.id)
        kind.unloved.clear()
        await ada.join(room.id)
        assert await told(server) == ["ada reserved", "ada taken"]


@in_virtual_time
async def test_a_reservation_does_not_run_out_while_the_room_thinks_about_its_player() -> None:
    kind = guarded(max_players=1)
    async with served(kind) as server:
        room = await a_room(server, "ada")
        ada, bob, cleo = await connected(server, "ada", "bob", "cleo")
        await ada.reserve(room.id, ttl_s=2.0)
        joining = asyncio.create_task(ada.join(room.id))
        await a_moment(4.0)

        with pytest.raises(RoomFull):
            await bob.join(room.id)
        kind.door.set()
        seat = await joining
        await seat.leave()

        await ada.reserve(room.id, players=["cleo"], ttl_s=2.0)
        kind.door.clear()
        kind.unloved.add("cleo")
        late = asyncio.create_task(cleo.join(room.id))
        await a_moment(4.0)
        kind.door.set()
        with pytest.raises(Refused, match="not you"):
            await late
        await a_moment()

        assert seats(server, room.id) == {}
        assert await told(server, "cleo") == ["reserved", "expired"]


@in_virtual_time
async def test_a_seat_that_is_being_taken_is_not_released_under_its_player() -> None:
    kind = guarded(max_players=1)
    async with served(kind) as server:
        room = await a_room(server, "ada")
        ada, bob, cleo = await connected(server, "ada", "bob", "cleo")
        await ada.reserve(room.id, players=["bob"])
        joining = asyncio.create_task(bob.join(room.id))
        await until(lambda: kind.asked == ["bob"])

        await ada.release(room.id, ["bob"])
        with pytest.raises(RoomFull):
            await cleo.join(room.id)
        kind.door.set()
        await joining

        assert seats(server, room.id) == {"bob": "taken"}


@in_virtual_time
async def test_a_room_that_ends_while_it_thinks_about_a_reserved_player_leaves_nothing_behind() -> None:
    kind = guarded()
    async with served(kind, limits=patient(reservations_per_player_max=1)) as server:
        room, other = await a_room(server, "ada"), await a_room(server, "ada")
        (ada,) = await connected(server, "ada")
        await ada.reserve(room.id)
        joining = asyncio.create_task(ada.join(room.id))
        await until(lambda: kind.asked == ["ada"])

        server.machine.call(room.close)
        kind.door.set()
        with pytest.raises(NotFound):
            await joining

        assert await ada.my_rooms() == []
        assert await told(server) == ["ada reserved", "ada freed"]
        await ada.reserve(other.id)


@in_virtual_time
async def test_one_reservation_lets_one_session_of_its_player_in() -> None:
    kind = guarded(max_players=1)
    async with served(kind) as server:
        room = await a_room(server, "ada")
        here, there = await connected(server, "ada", "ada")
        await here.reserve(room.id)
        joining = asyncio.create_task(here.join(room.id))
        await until(lambda: kind.asked == ["ada"])

        with pytest.raises(Duplicate):
            await there.join(room.id)
        kind.door.set()
        await joining

        assert seats(server, room.id) == {"ada": "taken"}
