"""Seats that are kept for players who have not come yet."""

import asyncio

import pytest

from holdfast import NotFound, PlayerData, Refused, Room, RoomFull, Throttled
from holdfast.core.errors import Invalid, NotAllowed
from holdfast.core.room import context_of
from holdfast.schemas.player import ReservationInfo
from tests.server.directory.seats import (
    OBSTACLES,
    a_room,
    arena,
    call,
    connected,
    keep_others_out,
    patient,
    seats,
    served,
    told,
)
from tests.server.durability.bench import a_moment, in_virtual_time

# Kept, and for how long


@in_virtual_time
async def test_a_reserved_seat_is_occupied_and_waits_for_its_player_only() -> None:
    async with served(arena(max_players=1)) as server:
        room = await a_room(server, "ada")
        ada, bob = await connected(server, "ada", "bob")

        answer = await ada.reserve(room.id)

        assert answer == ReservationInfo(room.id, ["ada"], 60.0)
        (info,) = await bob.search("arena", where="")
        assert (info.players, info.open_seats) == (1, 0)
        with pytest.raises(RoomFull):
            await bob.join(room.id)
        await ada.join(room.id)
        assert seats(server, room.id) == {"ada": "taken"}
        assert await told(server) == ["ada reserved", "ada taken"]


@in_virtual_time
async def test_a_reservation_that_nobody_uses_expires_by_itself() -> None:
    async with served(arena(max_players=1)) as server:
        room = await a_room(server, "ada")
        ada, bob = await connected(server, "ada", "bob")
        await ada.reserve(room.id)

        await a_moment(59.9)
        assert seats(server, room.id) == {"ada": "reserved"}
        await a_moment(0.2)

        assert seats(server, room.id) == {}
        assert await told(server) == ["ada reserved", "ada expired"]
        await bob.join(room.id)
        with pytest.raises(RoomFull):
            await ada.join(room.id)


@in_virtual_time
async def test_a_call_and_a_kind_may_say_how_long_a_seat_is_kept() -> None:
    async with served(arena(reservation_s=5.0)) as server:
        room = await a_room(server, "ada")
        (ada,) = await connected(server, "ada")

        usual = await ada.reserve(room.id)
        longer = await ada.reserve(room.id, players=["bob"], ttl_s=20.0)

        assert (usual.expires_in_s, longer.expires_in_s) == (5.0, 20.0)
        await a_moment(5.1)
        assert seats(server, room.id) == {"bob": "reserved"}
        await a_moment(15.0)
        assert seats(server, room.id) == {}


@in_virtual_time
async def test_asking_again_extends_and_takes_no_second_seat() -> None:
    async with served(arena()) as server:
        room = await a_room(server, "ada")
        (ada,) = await connected(server, "ada")
        await ada.reserve(room.id)
        await a_moment(40.0)

        again = await ada.reserve(room.id)
        shorter = await ada.reserve(room.id, ttl_s=1.0)

        assert again.expires_in_s == 60.0
        assert shorter.expires_in_s == pytest.approx(60.0, abs=0.1), "what was promised is not taken back"
        assert context_of(room).seats.used == 1
        assert await told(server) == ["ada reserved"]
        await a_moment(59.0)
        assert seats(server, room.id) == {"ada": "reserved"}


@in_virtual_time
async def test_no_seat_is_kept_for_longer_than_the_limit() -> None:
    async with served(arena(reservation_s=500.0), limits=patient(reservation_max_s=100.0)) as server:
        room = await a_room(server, "ada")
        (ada,) = await connected(server, "ada")

        with pytest.raises(Invalid, match="100 s at most"):
            await ada.reserve(room.id, ttl_s=101.0)

        assert (await ada.reserve(room.id)).expires_in_s == 100.0, "the kind's own wish is cut to the limit"
        assert seats(server, room.id) == {"ada": "reserved"}


# A party


@in_virtual_time
async def test_a_party_gets_all_its_seats_or_none() -> None:
    async with served(arena(max_players=3)) as server:
        room = await a_room(server, "ada")
        ada, zoe = await connected(server, "ada", "zoe")
        await zoe.join(room.id)

        with pytest.raises(RoomFull):
            await ada.reserve(room.id, players=["ada", "bob", "cleo"])
        assert seats(server, room.id) == {"zoe": "taken"}
        answer = await ada.reserve(room.id, players=["bob", "cleo", "bob"])

        assert answer.players == ["bob", "cleo"]
        assert seats(server, room.id) == {"zoe": "taken", "bob": "reserved", "cleo": "reserved"}


@in_virtual_time
async def test_of_a_party_only_those_without_a_seat_need_one() -> None:
    async with served(arena(max_players=3)) as server:
        room = await a_room(server, "ada")
        (ada,) = await connected(server, "ada")
        await ada.join(room.id)
        await ada.reserve(room.id, players=["bob"], ttl_s=10.0)

        answer = await ada.reserve(room.id, players=["ada", "bob", "cleo"], ttl_s=30.0)

        assert answer == ReservationInfo(room.id, ["ada", "bob", "cleo"], 30.0)
        assert seats(server, room.id) == {"ada": "taken", "bob": "reserved", "cleo": "reserved"}
        assert (await ada.reserve(room.id)).expires_in_s == 0.0, "who sits keeps the seat without an end"


@in_virtual_time
async def test_of_two_parties_at_once_one_gets_the_last_seats() -> None:
    async with served(arena(max_players=7)) as server:
        room = await a_room(server)
        leaders = await connected(server, "a", "b", "c", "d")
        for leader in leaders:
            await leader.join(room.id)

        answers = await asyncio.gather(
            *(leader.reserve(room.id, players=[f"{leader.player_id}1", f"{leader.player_id}2"]) for leader in leaders),
            return_exceptions=True,
        )

        assert sum(isinstance(answer, ReservationInfo) for answer in answers) == 1
        assert sum(isinstance(answer, RoomFull) for answer in answers) == 3
        assert context_of(room).seats.used == 6


# What a reserved player may


@pytest.mark.parametrize("obstacle", OBSTACLES)
@in_virtual_time
async def test_who_has_a_reservation_comes_in_whatever_keeps_others_out(obstacle: str) -> None:
    async with served(arena()) as server:
        zoe, ada, bob = await connected(server, "zoe", "ada", "bob")
        room = await zoe.create("arena")
        await zoe.reserve(room.id, players=["ada"])
        await keep_others_out(obstacle, zoe, room.id, zoe)

        with pytest.raises(Refused):
            await bob.join(room.id)
        await ada.join(room.id)

        assert seats(server, room.id)["ada"] == "taken"


@in_virtual_time
async def test_fewer_seats_than_are_reserved_take_none_of_them_away() -> None:
    async with served(arena(max_players=3)) as server:
        zoe, ada, bob = await connected(server, "zoe", "ada", "bob")
        room = await zoe.create("arena")
        await zoe.reserve(room.id, players=["ada", "bob"])

        await zoe.update_room(room.id, max_players=1)
        await ada.join(room.id)
        await bob.join(room.id)

        assert seats(server, room.id) == {"ada": "taken", "bob": "taken"}


@in_virtual_time
async def test_nothing_can_be_reserved_in_a_room_that_closes_or_is_not_there() -> None:
    class Slow(Room[PlayerData]):
        async def on_destroy(self) -> None:
            await asyncio.sleep(5.0)

    async with served(arena(Slow)) as server:
        room = await a_room(server, "ada")
        ada, bob = await connected(server, "ada", "bob")
        await ada.reserve(room.id)
        server.machine.call(room.close)

        for player in (ada, bob):
            with pytest.raises(NotFound):
                await player.reserve(room.id)
        with pytest.raises(NotFound):
            await ada.reserve("nowhere")

        assert await told(server) == ["ada reserved", "ada freed"]


# Giving back


@in_virtual_time
async def test_one_may_release_ones_own_seat_and_those_one_has_reserved() -> None:
    async with served(arena(max_players=4)) as server:
        room = await a_room(server, "ada")
        ada, bob, eve = await connected(server, "ada", "bob", "eve")
        await ada.reserve(room.id, players=["ada", "bob", "cleo"])

        for victims in (["bob"], ["eve", "cleo"]):
            with pytest.raises(NotAllowed):
                await eve.release(room.id, victims)
        assert seats(server, room.id) == dict.fromkeys(["ada", "bob", "cleo"], "reserved")
        await bob.release(room.id)
        await ada.release(room.id, ["cleo"])
        await ada.release(room.id)
        await ada.release(room.id)

        assert seats(server, room.id) == {}
        assert (await told(server))[3:] == ["bob freed", "cleo freed", "ada freed"]


@in_virtual_time
async def test_a_release_that_is_not_allowed_when_its_turn_comes_changes_nothing() -> None:
    class Busy(Room[PlayerData]):
        async def on_update(self) -> None:
            await asyncio.sleep(20.0)

    async with served(arena(Busy)) as server:
        ada, eve, bob = await connected(server, "ada", "eve", "bob")
        room = await ada.create("arena")
        await eve.join(room.id)
        await eve.reserve(room.id, players=["bob"], ttl_s=5.0)
        await ada.update_room(room.id, name="busy")

        # Both wait for their turn, and meanwhile Eve's reservation is over.
        theirs = asyncio.create_task(ada.reserve(room.id, players=["bob"]))
        await a_moment(1.0)
        hers = asyncio.create_task(eve.release(room.id, ["bob"]))
        await theirs

        with pytest.raises(NotAllowed):
            await hers
        assert seats(server, room.id) == {"eve": "taken", "bob": "reserved"}
        await bob.join(room.id)


@in_virtual_time
async def test_a_player_has_so_many_seats_reserved_at_a_time_in_all_rooms_together() -> None:
    async with served(arena(max_players=8), limits=patient(reservations_per_player_max=3)) as server:
        one, two = await a_room(server, "ada"), await a_room(server, "ada")
        ada, bob = await connected(server, "ada", "bob")
        await ada.reserve(one.id, players=["p1", "p2"])
        await ada.reserve(two.id, players=["p3"])

        with pytest.raises(Throttled):
            await ada.reserve(two.id, players=["p4"])
        await ada.reserve(one.id, players=["p1", "p2"])
        await bob.join(two.id)
        await bob.reserve(two.id, players=["p4"])

        assert seats(server, two.id) == {"bob": "taken", "p3": "reserved", "p4": "reserved"}


@pytest.mark.parametrize("end", ["taken", "released", "expired", "closed", "abandoned"])
@in_virtual_time
async def test_a_reservation_that_is_over_counts_for_its_player_no_more(end: str) -> None:
    async with served(arena(), limits=patient(reservations_per_player_max=1)) as server:
        one, two = await a_room(server, "ada"), await a_room(server, "ada")
        ada, bob = await connected(server, "ada", "bob")
        await ada.reserve(one.id, players=["bob"], ttl_s=10.0)
        with pytest.raises(Throttled):
            await ada.reserve(two.id)

        match end:
            case "taken":
                await bob.join(one.id)
            case "released":
                await bob.release(one.id)
            case "expired":
                await a_moment(10.1)
            case "closed":
                server.machine.call(one.close)
            case _:
                server.machine.call(server.rooms.runner(one.id).abandon)

        await ada.reserve(two.id)
        assert [info.id for info in await bob.my_rooms()] == ([one.id] if end == "taken" else [])


# What they outlive


@in_virtual_time
async def test_a_reservation_is_over_when_its_player_was_seated_and_left() -> None:
    async with served(arena()) as server:
        room = await a_room(server, "ada")
        (ada,) = await connected(server, "ada")
        await ada.reserve(room.id)
        seat = await ada.join(room.id)

        await seat.leave()

        assert seats(server, room.id) == {}
        assert await told(server) == ["ada reserved", "ada taken", "ada freed"]


@in_virtual_time
async def test_a_reservation_outlives_the_connection_that_asked_for_it() -> None:
    async with served(arena(max_players=1)) as server:
        room = await a_room(server, "ada")
        ada = await call(server, "ada")
        await ada.ask("reserve", ReservationInfo, room=room.id)
        await ada.client.close()
        (again,) = await connected(server, "ada")

        await again.join(room.id)

        assert seats(server, room.id) == {"ada": "taken"}
