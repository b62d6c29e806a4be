"""Reservations of durable rooms: what was answered outlives a crash at any moment."""

import asyncio

import pytest

from holdfast import Message, Player, PlayerData, RoomFull, Throttled, on
from holdfast.core.errors import NotAllowed
from holdfast.core.room import context_of
from holdfast.schemas.player import ReservationInfo
from holdfast.schemas.requests import Reserve
from holdfast.server.durability.recovery import Pace
from holdfast.testing import FaultyStore
from tests.server.directory.seats import (
    Arena,
    a_room,
    arena,
    call,
    connected,
    guarded,
    patient,
    seats,
    seconds_left,
    served,
    told,
)
from tests.server.durability.bench import a_moment, in_virtual_time, until


@pytest.mark.parametrize("durability", ["commit", "checkpoint"])
@pytest.mark.parametrize("recovery", ["eager", "lazy"])
@in_virtual_time
async def test_a_reservation_outlives_a_crash_with_the_time_that_is_left(durability: str, recovery: Pace) -> None:
    kind = arena(max_players=1, durability=durability)
    limits = patient(reservations_per_player_max=1)
    async with served(kind, store=FaultyStore(latency_s=0.05), limits=limits, recovery=recovery) as server:
        room, other = await a_room(server, "zoe"), await a_room(server, "zoe")
        zoe = await call(server, "zoe")
        await zoe.ask("reserve", ReservationInfo, room=room.id, players=["ada"], ttl_s=60.0)

        server.crash()
        await a_moment(20.0)
        await server.start()
        await a_moment(5.0)

        assert seconds_left(server, room.id, "ada") == pytest.approx(35.0, abs=0.5)
        zoe_again, eve, ada = await connected(server, "zoe", "eve", "ada")
        with pytest.raises(RoomFull):
            await eve.join(room.id)
        with pytest.raises(NotAllowed):
            await eve.release(room.id, ["ada"])
        with pytest.raises(Throttled):
            await zoe_again.reserve(other.id)
        await ada.join(room.id)
        await zoe_again.reserve(other.id)
        assert seats(server, room.id) == {"ada": "taken"}


@in_virtual_time
async def test_a_reservation_that_ran_out_while_the_server_was_down_is_over() -> None:
    async with served(arena(max_players=1, durability="commit"), store=FaultyStore()) as server:
        room = await a_room(server, "ada")
        ada = await call(server, "ada")
        await ada.ask("reserve", ReservationInfo, room=room.id, ttl_s=10.0)

        server.crash()
        await a_moment(20.0)
        await server.start()
        await a_moment()

        assert seats(server, room.id) == {}
        assert await told(server) == ["ada reserved", "ada expired"]


@in_virtual_time
async def test_what_was_released_before_a_crash_stays_released() -> None:
    async with served(arena(durability="commit"), store=FaultyStore(latency_s=0.05)) as server:
        room = await a_room(server, "ada")
        ada = await call(server, "ada")
        await ada.ask("reserve", ReservationInfo, room=room.id, players=["ada", "bob"])
        await ada.tell("release", room=room.id)

        server.crash()
        await server.start()

        assert seats(server, room.id) == {"bob": "reserved"}


@pytest.mark.parametrize("operation", ["reserve", "wait", "release", "stop_waiting"])
@in_virtual_time
async def test_what_changes_a_reservation_is_answered_only_when_it_is_saved(operation: str) -> None:
    store = FaultyStore()
    async with served(arena(durability="commit", waiting_max=1), store=store) as server:
        room = await a_room(server, "ada")
        ada = await call(server, "ada")
        if operation in {"release", "stop_waiting"}:
            await ada.ask("reserve", ReservationInfo, room=room.id)
        store.latency_s = 1.0

        answer = asyncio.create_task(ada.ask(operation, object, room=room.id))
        await a_moment(0.9)
        assert not answer.done()
        await a_moment(0.2)

        assert answer.done()


@in_virtual_time
async def test_a_crash_while_the_room_thinks_about_its_player_costs_no_reservation() -> None:
    kind = guarded(durability="commit")
    async with served(kind, store=FaultyStore()) as server:
        room = await a_room(server, "ada")
        ada = await call(server, "ada")
        await ada.ask("reserve", ReservationInfo, room=room.id)
        ada.client.ask("join", room=room.id)
        await until(lambda: kind.asked == ["ada"])
        backend = server.operate
        # The room is saved as it is now.
        await backend.rooms.reserve(Reserve(room.id, players=["zoe"]))

        server.crash()
        await server.start()

        assert seats(server, room.id) == {"ada": "reserved", "zoe": "reserved"}


class Think(Message):
    """Have the room think for so many seconds."""

    seconds: float


class Thinker(Arena):
    durability = "commit"

    @on(Think)
    async def thought(self, player: Player[PlayerData], think: Think) -> None:
        await asyncio.sleep(think.seconds)


@in_virtual_time
async def test_a_crash_before_the_room_has_heard_of_its_player_costs_no_reservation() -> None:
    store = FaultyStore()
    async with served(arena(Thinker), store=store) as server:
        room = await a_room(server, "ada")
        zoe, ada = await connected(server, "zoe", "ada")
        seat = await zoe.join(room.id)
        await ada.reserve(room.id)
        await seat.send(Think(1.0))
        await a_moment(0.5)
        # She has her seat, but the room is busy, and is saved as soon as it is not: before it hears of her.
        joining = asyncio.create_task(ada.join(room.id))
        await until(lambda: seats(server, room.id)["ada"] == "taken")
        store.latency_s = 1.0
        await until(lambda: store.is_writing)
        # What comes after that is lost.
        await a_moment(0.5)
        store.is_full = True
        await a_moment(0.7)
        assert not joining.done()

        server.crash()
        store.is_full = False
        store.latency_s = 0.0
        await server.start()

        assert seats(server, room.id)["ada"] == "reserved"
        await joining
        assert seats(server, room.id)["ada"] == "taken"


@in_virtual_time
async def test_a_seat_that_is_taken_and_a_reservation_are_never_both_saved() -> None:
    async with served(arena(durability="commit"), store=FaultyStore()) as server:
        room = await a_room(server, "ada")
        ada = await call(server, "ada")
        await ada.ask("reserve", ReservationInfo, room=room.id)
        await ada.join(room.id)

        server.crash()
        await server.start()

        back = server.rooms.get(room.id)
        assert back is not None
        assert context_of(back).seats.used == 1
        assert seats(server, room.id) == {"ada": "held"}


# The line


class Hall(Arena):
    max_players = 1
    waiting_max = 4


@pytest.mark.parametrize("durability", ["commit", "checkpoint"])
@in_virtual_time
async def test_an_offer_is_saved_before_it_is_heard(durability: str) -> None:
    store = FaultyStore()
    async with served(arena(Hall, durability=durability), store=store) as server:
        room = await a_room(server, "zoe")
        zoe, ada = await call(server, "zoe"), await call(server, "ada")
        await zoe.ask("reserve", ReservationInfo, room=room.id, ttl_s=5.0)
        assert (await ada.wait(room.id)).position == 1
        store.latency_s = 1.0

        await a_moment(5.5)
        assert seats(server, room.id) == {"ada": "reserved"}
        assert ada.offers == []
        await until(lambda: ada.offers)
        server.crash()
        store.latency_s = 0.0
        await server.start()

        assert seats(server, room.id) == {"ada": "reserved"}
        assert seconds_left(server, room.id, "ada") == pytest.approx(57.0, abs=2.0)


@in_virtual_time
async def test_a_seat_that_is_given_back_before_it_was_offered_is_not_offered() -> None:
    store = FaultyStore()
    async with served(arena(Hall, durability="commit"), store=store) as server:
        room = await a_room(server, "zoe")
        zoe, ada = await call(server, "zoe"), await call(server, "ada")
        await zoe.ask("reserve", ReservationInfo, room=room.id, ttl_s=5.0)
        await ada.wait(room.id)
        store.latency_s = 1.0
        await a_moment(5.5)

        await ada.tell("stop_waiting", room=room.id)
        await a_moment(5.0)

        assert ada.offers == []
        assert seats(server, room.id) == {}
