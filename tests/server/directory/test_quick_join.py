"""`join_or_create` for one player: which room is chosen, who comes back to theirs, and what can go wrong."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from holdfast import ClientRoom, ClientSession, NotFound, Refused, RoomLocked
from holdfast.core.errors import Duplicate, Expired, Invalid
from holdfast.core.room import context_of
from holdfast.schemas.player import ReservationInfo
from holdfast.schemas.requests import Reserve, Search, Update
from holdfast.search import parse_query
from holdfast.testing import MemoryServer
from tests.server.directory.seats import (
    Slow,
    a_crowd,
    a_room,
    arena,
    call,
    connected,
    guarded,
    occupancy,
    seats,
    seconds_left,
    served,
    told,
)
from tests.server.durability.bench import a_moment, in_virtual_time, until

# Which room


@in_virtual_time
async def test_the_oldest_open_room_is_chosen_and_where_narrows_the_choice() -> None:
    async with served(arena()) as server:
        ada, bob, cleo, dan = await connected(server, "ada", "bob", "cleo", "dan")
        first = await server.create_room("arena", properties={"map": "cave"})
        await asyncio.sleep(1)
        second = await server.create_room("arena", properties={"map": "dust"})

        assert (await ada.join_or_create("arena")).id == first.id
        assert (await bob.join_or_create("arena", where="properties.map = 'dust'")).id == second.id
        third = await cleo.join_or_create("arena", where="properties.map = 'moon'", properties={"map": "moon"})
        assert third.id not in {first.id, second.id}
        with pytest.raises(Invalid):
            await dan.join_or_create("arena", where="properties.map =")
        with pytest.raises(NotFound):
            await dan.join_or_create("castle")


@in_virtual_time
async def test_the_oldest_open_room_is_chosen_whatever_has_changed_since_the_last_choice() -> None:
    async with served(arena()) as server:
        random, index = Random(1), server.rooms.index
        players = await connected(server, *(f"p{number}" for number in range(8)))
        wanted = parse_query("", (), kind="arena")

        for _ in range(400):
            for _ in range(random.choice([1, 1, 2, 50])):
                with suppress(Refused):
                    await disturb(server, random.choice(players), random)

            chosen = [runner.id async for runner in index.openings(wanted)]

            rows = (await index.search(Search("arena", "open_seats > 0 AND has_password = false"), None)).rooms
            is_public = {runner.id: runner.context.listing.visibility == "public" for runner in server.rooms.runners()}
            assert chosen[:1] == [row.id for row in rows if is_public[row.id]][:1]


async def disturb(server: MemoryServer, player: ClientSession, random: Random) -> None:
    """Something that may open a room, or close it."""
    rooms = list(server.rooms)
    room = random.choice([*rooms, None])
    match random.randrange(7):
        case 0 if len(rooms) < 12:
            await server.create_room("arena")
        case 1 if room is not None:
            random.choice([room.lock, room.unlock])()
        case 2 if room is not None:
            room.max_players = random.randint(1, 2)
            room.properties["level"] = random.randint(1, 9)
        case 3 if room is not None and random.random() < 0.2:
            room.close()
        case 4 if room is not None:
            request = Update(room.id, visibility="public" if random.random() < 0.5 else "private")
            server.rooms.runner(room.id).apply_update(request)
        case 5 if player.room is not None:
            await player.room.leave()
        case _ if player.room is None:
            await player.join_or_create("arena")
        case _:
            pass


@pytest.mark.parametrize("closed", [{"password": "x"}, {"visibility": "private"}])
@in_virtual_time
async def test_rooms_with_a_password_and_private_ones_are_never_chosen(closed: dict[str, Any]) -> None:
    async with served(arena()) as server:
        ada, bob = await connected(server, "ada", "bob")
        hidden = await server.create_room("arena", **closed)

        seat = await ada.join_or_create("arena")
        own = await bob.join_or_create("arena", **closed)

        assert seat.id != hidden.id
        assert own.id == seat.id, "an open room is as good"


@pytest.mark.parametrize("closed", [{"password": "x"}, {"visibility": "private"}])
@in_virtual_time
async def test_nobody_is_put_into_a_room_that_is_being_made_for_somebody_alone(closed: dict[str, Any]) -> None:
    async with served(arena(Slow)) as server:
        crowd = await a_crowd(server, 3)

        joined = await asyncio.gather(
            crowd[0].join_or_create("arena", **closed),
            crowd[1].join_or_create("arena", **closed),
            crowd[2].join_or_create("arena"),
        )

        assert len({seat.id for seat in joined}) == 3


@in_virtual_time
async def test_locked_and_full_rooms_are_passed_over() -> None:
    async with served(arena(max_players=1)) as server:
        ada, bob, cleo = await connected(server, "ada", "bob", "cleo")
        locked, full, denied = [await server.create_room("arena") for _ in range(3)]
        server.machine.call(locked.lock)
        await ada.join(full.id)
        context_of(denied).listing.join_policy = "deny_all"

        seat = await bob.join_or_create("arena")
        await seat.leave()
        again = await cleo.join_or_create("arena")

        assert seat.id == again.id
        assert seat.id not in {locked.id, full.id, denied.id}


@in_virtual_time
async def test_who_has_a_seat_or_a_reservation_comes_back_to_it() -> None:
    async with served(arena(max_players=1)) as server:
        await server.create_room("arena")
        room = await a_room(server, "ada", password="swordfish")
        phone, laptop, tablet = await connected(server, "ada", "ada", "ada")
        await phone.reserve(room.id, password="swordfish")

        assert (await phone.join_or_create("arena")).id == room.id
        assert (await laptop.join_or_create("arena", where="properties.map = 'moon'")).id == room.id
        server.link(laptop).cut()
        assert (await tablet.join_or_create("arena")).id == room.id
        assert seats(server, room.id) == {"ada": "taken"}


@in_virtual_time
async def test_nobody_decides_with_a_reservation_where_another_player_goes() -> None:
    async with served(arena()) as server:
        eve, ada = await connected(server, "eve", "ada")
        trap = await eve.create("arena", visibility="private", properties={"map": "moon"})
        await eve.reserve(trap.id, players=["ada"])
        room = await server.create_room("arena", properties={"map": "cave"})

        seat = await ada.join_or_create("arena", where="properties.map = 'cave'")

        assert seat.id == room.id
        assert seats(server, trap.id) == {"ada": "reserved"}


@pytest.mark.parametrize("by", ["themselves", "an operator"])
@in_virtual_time
async def test_a_reservation_that_is_asked_for_again_is_as_good_as_if_nobody_else_had_made_it(by: str) -> None:
    async with served(arena()) as server:
        eve, ada = await connected(server, "eve", "ada")
        room = await ada.create("arena", visibility="private")
        await eve.join(room.id)
        await eve.reserve(room.id, players=["ada"], ttl_s=100.0)

        if by == "themselves":
            await ada.reserve(room.id, ttl_s=50.0)
        else:
            await server.operate.rooms.reserve(Reserve(room.id, players=["ada"], ttl_s=50.0))

        assert [server.rooms.reserved.count(each) for each in ("eve", "ada")] == [0, by == "themselves"]
        assert seconds_left(server, room.id, "ada") == pytest.approx(100.0, abs=0.1)
        assert await told(server) == ["eve taken", "ada reserved"]
        assert (await ada.join_or_create("arena")).id == room.id
        assert server.rooms.reserved.count("ada") == 0


@in_virtual_time
async def test_a_player_who_sits_where_doubles_are_rejected_hears_of_it() -> None:
    async with served(arena(duplicate="reject")) as server:
        phone = await call(server, "ada")
        room = await phone.join_or_create()
        (laptop,) = await connected(server, "ada")

        with pytest.raises(Duplicate):
            await laptop.join_or_create("arena")
        await phone.client.close()
        await a_moment()

        assert (await laptop.join_or_create("arena")).id == room.id


@in_virtual_time
async def test_where_a_player_may_sit_twice_a_full_room_is_no_obstacle() -> None:
    async with served(arena(duplicate="allow")) as server:
        crowd = await connected(server, *["ada"] * 5)

        joined = [await session.join_or_create("arena") for session in crowd]

        assert occupancy(server, joined) == {2: 2, 1: 1}


# What can go wrong


@in_virtual_time
async def test_a_game_that_locks_its_rooms_at_once_makes_one_for_each_who_asks_and_no_more() -> None:
    class Shy(Slow):
        async def on_create(self, config: dict[str, Any]) -> None:
            await super().on_create(config)
            self.lock()

    async with served(arena(Shy)) as server:
        ada, *others = await a_crowd(server, 6)

        with pytest.raises(RoomLocked):
            await ada.join_or_create("arena")
        assert len(server.rooms) == 1
        answers = await asyncio.gather(*(each.join_or_create("arena") for each in others), return_exceptions=True)

        assert {type(answer) for answer in answers} == {RoomLocked}
        assert len(server.rooms) <= 6


@in_virtual_time
async def test_a_room_that_its_game_refuses_is_refused_to_all_who_wait_for_it() -> None:
    class Never(Slow):
        async def on_create(self, config: dict[str, Any]) -> None:
            await super().on_create(config)
            raise Refused("no such map")

    async with served(arena(Never)) as server:
        crowd = await a_crowd(server, 5)

        answers = await asyncio.gather(*(each.join_or_create("arena") for each in crowd), return_exceptions=True)

        assert [str(answer) for answer in answers] == ["no such map"] * 5
        assert len(server.rooms) == 0


@in_virtual_time
async def test_who_wished_for_something_else_is_not_refused_with_the_others() -> None:
    class Maps(Slow):
        async def on_create(self, config: dict[str, Any]) -> None:
            await super().on_create(config)
            if config["map"] != "cave":
                raise Refused("no such map")

    async with served(arena(Maps)) as server:
        ada, bob = await a_crowd(server, 2)

        refused, seat = await asyncio.gather(
            ada.join_or_create("arena", config={"map": "moon"}),
            bob.join_or_create("arena", config={"map": "cave"}),
            return_exceptions=True,
        )

        assert str(refused) == "no such map"
        assert isinstance(seat, ClientRoom)


@in_virtual_time
async def test_a_request_that_no_room_could_have_is_refused_whatever_there_is() -> None:
    async with served(arena()) as server:
        await server.create_room("arena")
        ada, bob = await connected(server, "ada", "bob")

        for session in (ada, bob):
            with pytest.raises(Invalid):
                await session.join_or_create("arena", properties={"map": {"of": "maps"}})
            with pytest.raises(Invalid):
                await session.join_or_create("arena", max_players=3)
            with pytest.raises(NotFound, match="castle"):
                await session.join_or_create("castle")


@in_virtual_time
async def test_a_where_that_the_own_properties_contradict_by_their_type_is_refused() -> None:
    async with served(arena()) as server:
        ada, bob = await connected(server, "ada", "bob")

        with pytest.raises(
            Invalid, match=r"where: properties\.level is compared with a number, and is text in the prop"
        ):
            await ada.join_or_create("arena", where="properties.level > 2", properties={"level": "3"})
        hers = await ada.join_or_create("arena", properties={"level": "3"})
        his = await bob.join_or_create("arena", where="properties.level > 2")

        assert hers.id != his.id, "what others have chosen for their rooms is no reason to refuse"


@in_virtual_time
async def test_who_is_not_admitted_leaves_no_reserved_seat_behind() -> None:
    kind = guarded(unloved={"eve"})
    kind.door.set()
    async with served(kind) as server:
        eve, ada, bob = await connected(server, "eve", "ada", "bob")

        with pytest.raises(Refused, match="not you"):
            await eve.join_or_create("arena")
        seat = await ada.join_or_create("arena")
        await bob.join_or_create("arena")

        assert seats(server, seat.id) == {"ada": "taken", "bob": "taken"}
        assert await eve.my_rooms() == []


@in_virtual_time
async def test_who_had_a_reservation_and_is_not_admitted_keeps_it() -> None:
    kind = guarded(unloved={"eve"})
    kind.door.set()
    async with served(kind) as server:
        room = await a_room(server, "eve")
        eve = await call(server, "eve")
        await eve.ask("reserve", ReservationInfo, room=room.id)

        with pytest.raises(Refused, match="not you"):
            await eve.join_or_create()

        assert seats(server, room.id) == {"eve": "reserved"}


@in_virtual_time
async def test_who_drops_while_the_room_is_made_gets_a_seat_when_they_are_back() -> None:
    async with served(arena(Slow, max_players=1)) as server:
        (ada,) = await connected(server, "p0")
        joining = asyncio.create_task(ada.join_or_create("arena"))
        await a_moment(0.1)

        server.link(ada).cut()
        seat = await joining

        assert seats(server, seat.id) == {"p0": "taken"}
        assert len(server.rooms) == 1


@in_virtual_time
async def test_who_went_away_while_the_room_was_made_leaves_the_seat_to_others() -> None:
    async with served(arena(Slow)) as server:
        ghost = await call(server, "p0")
        ghost.client.ask("join_or_create", kind="arena")
        await a_moment(0.1)
        await ghost.client.close()
        await a_moment(0.5)

        (room,) = server.rooms
        assert seats(server, room.id) == {}


@in_virtual_time
async def test_a_room_that_closes_on_the_way_in_is_not_the_last_word() -> None:
    kind = guarded()
    async with served(kind) as server:
        first = await server.create_room("arena")
        (ada,) = await connected(server, "ada")
        joining = asyncio.create_task(ada.join_or_create("arena"))
        await until(lambda: kind.asked == ["ada"])

        server.machine.call(first.close)
        kind.door.set()
        seat = await joining

        assert seat.id != first.id
        assert seats(server, seat.id) == {"ada": "taken"}


@in_virtual_time
async def test_a_key_stands_for_one_room_also_when_that_is_full_or_gone() -> None:
    async with served(arena(max_players=1)) as server:
        ada, again = await call(server, "ada"), await call(server, "ada")
        (bob,) = await connected(server, "bob")
        made = await ada.join_or_create(idempotency_key="k")
        await ada.tell("leave")
        await bob.join(made.id)

        with pytest.raises(Refused):
            await ada.join_or_create(idempotency_key="k")
        room = server.rooms.get(made.id)
        assert room is not None
        server.machine.call(room.close)

        with pytest.raises(Expired):
            await again.join_or_create(idempotency_key="k")
