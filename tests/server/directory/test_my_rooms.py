"""The rooms of a player: where they have a seat, from whichever device, and how they get back to it."""

import pytest

from holdfast import ClientSession, NotFound
from holdfast.core.errors import Duplicate
from holdfast.server.durability.recovery import Pace
from holdfast.testing import FaultyStore
from tests.server.directory.seats import a_room, arena, call, connected, patient, seats, served
from tests.server.durability.bench import a_moment, in_virtual_time, until


async def _mine(session: ClientSession) -> list[str]:
    return [info.id for info in await session.my_rooms()]


@in_virtual_time
async def test_a_player_sees_the_rooms_of_all_their_sessions_and_nobody_elses() -> None:
    async with served(arena()) as server:
        one, two, three = [await server.create_room("arena") for _ in range(3)]
        phone, laptop, tablet, bob = await connected(server, "ada", "ada", "ada", "bob")
        await phone.join(one.id)
        await laptop.join(two.id)
        await bob.join(three.id)

        for session in (phone, laptop, tablet):
            assert await _mine(session) == [one.id, two.id]
        assert await _mine(bob) == [three.id]


@in_virtual_time
async def test_reserved_and_held_seats_are_mine_until_they_are_over() -> None:
    async with served(arena(grace_s=10.0)) as server:
        kept, held = await a_room(server, "bob"), await a_room(server)
        bob, watcher = await connected(server, "bob", "ada")
        await bob.reserve(kept.id, players=["ada"], ttl_s=30.0)
        phone = await call(server, "ada")
        await phone.join(held.id)
        await phone.client.close()

        await a_moment(5.0)
        assert seats(server, held.id) == {"ada": "held"}
        assert await _mine(watcher) == [kept.id, held.id]
        await a_moment(6.0)
        assert await _mine(watcher) == [kept.id]
        await a_moment(20.0)
        assert await _mine(watcher) == []


@pytest.mark.parametrize("end", ["left", "kicked", "closed", "abandoned"])
@in_virtual_time
async def test_a_room_is_mine_no_more_when_the_seat_or_the_room_is_gone(end: str) -> None:
    async with served(arena()) as server:
        room = await server.create_room("arena")
        ada, again = await connected(server, "ada", "ada")
        seat = await ada.join(room.id)
        assert await _mine(again) == [room.id]

        match end:
            case "left":
                await seat.leave()
            case "kicked":
                server.machine.call(room.players[0].kick, "go")
            case "closed":
                server.machine.call(room.close)
            case _:
                server.machine.call(server.rooms.runner(room.id).abandon)

        assert await _mine(again) == []


@in_virtual_time
async def test_a_room_in_which_i_have_two_seats_is_mine_until_both_are_gone() -> None:
    async with served(arena(duplicate="allow")) as server:
        room = await server.create_room("arena")
        phone, laptop = await connected(server, "ada", "ada")
        first, second = await phone.join(room.id), await laptop.join(room.id)

        await first.leave()
        assert await _mine(phone) == [room.id]
        await second.leave()

        assert await _mine(phone) == []


@in_virtual_time
async def test_a_member_is_shown_the_code_of_their_room_to_pass_it_on() -> None:
    async with served(arena()) as server:
        ada, bob, cleo = await connected(server, "ada", "bob", "cleo")
        room = await ada.create("arena", visibility="private")
        await bob.join(room.id)

        (mine,) = await bob.my_rooms()
        seat = await cleo.join(code=mine.code)

        assert seat.id == room.id


# Getting back


@in_virtual_time
async def test_a_new_device_goes_on_in_the_room_of_the_old_one() -> None:
    async with served(arena(max_players=1)) as server:
        room = await server.create_room("arena", password="swordfish")
        phone, laptop = await connected(server, "ada", "ada")
        before = await phone.join(room.id, password="swordfish")

        after = await laptop.rejoin()
        await until(lambda: before.left is not None)

        assert after.id == room.id
        assert seats(server, room.id) == {"ada": "taken"}


@in_virtual_time
async def test_who_lost_the_session_gets_the_held_seat_back_where_doubles_are_rejected() -> None:
    async with served(arena(duplicate="reject", grace_s=60.0)) as server:
        room = await server.create_room("arena")
        phone = await call(server, "ada")
        await phone.join(room.id)
        (laptop,) = await connected(server, "ada")

        with pytest.raises(Duplicate):
            await laptop.rejoin()
        await phone.client.close()
        await a_moment()

        assert (await laptop.rejoin()).id == room.id
        assert seats(server, room.id) == {"ada": "taken"}


@in_virtual_time
async def test_there_is_nothing_to_get_back_to_without_a_seat() -> None:
    async with served(arena()) as server:
        room = await a_room(server, "ada")
        (ada,) = await connected(server, "ada")

        with pytest.raises(NotFound):
            await ada.rejoin()
        await ada.reserve(room.id)
        with pytest.raises(NotFound):
            await ada.rejoin()
        await ada.join(room.id)

        assert (await ada.rejoin()).id == room.id


@in_virtual_time
async def test_nobody_leads_a_player_away_from_their_seat_with_a_newer_room() -> None:
    async with served(arena()) as server:
        eve, phone, laptop = await connected(server, "eve", "ada", "ada")
        room = await phone.create("arena")
        await phone.join(room.id)
        await a_moment(1.0)
        trap = await eve.create("arena")
        await eve.reserve(trap.id, players=["ada"])

        assert sorted(await _mine(laptop)) == sorted([room.id, trap.id])
        assert (await laptop.rejoin()).id == room.id


@pytest.mark.parametrize("recovery", ["eager", "lazy"])
@in_virtual_time
async def test_the_rooms_of_a_player_are_known_after_a_crash(recovery: Pace) -> None:
    kind = arena(durability="commit", grace_s=60.0)
    async with served(kind, store=FaultyStore(), recovery=recovery, limits=patient(rooms_per_player_max=100)) as server:
        sat, kept, left, *_ = [await a_room(server, "ada") for _ in range(100)]
        ada = await call(server, "ada")
        await ada.join(left.id)
        await ada.tell("leave")
        await ada.ask("reserve", object, room=kept.id)
        await ada.join(sat.id)

        server.crash()
        await server.start()
        (again,) = await connected(server, "ada")

        assert sorted(await _mine(again)) == sorted([sat.id, kept.id])
        assert (await again.join_or_create("arena")).id in {sat.id, kept.id}
