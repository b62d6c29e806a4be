"""The waitlist of a full room: the next player is offered the seat that was freed."""

import asyncio
from typing import Any

import pytest

from holdfast import ClientRoom, NotFound, Player, PlayerData, Room, RoomFull, Throttled
from holdfast.core.errors import AlreadySeated, WrongPassword
from holdfast.core.reasons import Reason
from holdfast.schemas.player import WaitInfo
from holdfast.testing import MemoryServer
from tests.server.directory.seats import Arena, Caller, a_room, arena, call, connected, guarded, seats, served, told
from tests.server.durability.bench import a_moment, in_virtual_time, until


class Hall(Arena):
    """One seat, and a line."""

    max_players = 1
    waiting_max = 8


async def _full(server: MemoryServer, **wish: Any) -> tuple[Room[PlayerData], ClientRoom]:
    """A room with somebody on its only seat."""
    room = await server.create_room("arena", **wish)
    (zoe,) = await connected(server, "zoe")
    return room, await zoe.join(room.id, password=wish.get("password", ""))


async def _callers(server: MemoryServer, *names: str) -> list[Caller]:
    return [await call(server, name) for name in names]


async def _line(server: MemoryServer, room_id: str, *names: str) -> list[Caller]:
    """Callers who stand in line, in this order."""
    callers = await _callers(server, *names)
    for place, caller in enumerate(callers, 1):
        assert await caller.wait(room_id) == WaitInfo(room_id, place)
    return callers


# Whose turn it is


@in_virtual_time
async def test_the_next_in_the_waitlist_is_offered_the_freed_seat_and_takes_it() -> None:
    async with served(arena(Hall)) as server:
        room, seat = await _full(server)
        ada, bob = await _line(server, room.id, "ada", "bob")

        await seat.leave()
        await until(lambda: ada.offers)

        assert ada.offers == [WaitInfo(room.id, 0, 60.0)]
        assert await bob.wait(room.id) == WaitInfo(room.id, 1), "the waitlist has moved"
        assert bob.offers == []
        with pytest.raises(RoomFull):
            await bob.join(room.id)
        await ada.join(room.id)
        assert await told(server) == ["zoe taken", "zoe freed", "ada reserved", "ada taken"]


@in_virtual_time
async def test_seats_are_offered_in_the_order_of_the_waitlist() -> None:
    async with served(arena(Hall)) as server:
        room, seat = await _full(server)
        callers = await _line(server, room.id, "a", "b", "c", "d")

        await seat.leave()
        for number, caller in enumerate(callers):
            await until(lambda: all(each.offers for each in callers[: number + 1]))  # noqa: B023 - asked at once
            await caller.join(room.id)
            await caller.tell("leave")

        taken = [line for line in await told(server) if line.endswith("taken")]
        assert taken == ["zoe taken", "a taken", "b taken", "c taken", "d taken"]


@in_virtual_time
async def test_an_offer_that_is_not_taken_goes_to_the_next() -> None:
    async with served(arena(Hall, reservation_s=10.0)) as server:
        room, seat = await _full(server)
        ada, bob = await _line(server, room.id, "ada", "bob")

        await seat.leave()
        await until(lambda: ada.offers)
        await a_moment(9.0)
        assert bob.offers == []
        await a_moment(1.5)

        assert len(bob.offers) == 1
        with pytest.raises(RoomFull):
            await ada.join(room.id)
        assert await ada.wait(room.id) == WaitInfo(room.id, 1), "at the end of the waitlist"
        await bob.join(room.id)
        assert await told(server, "ada") == ["reserved", "expired"]


@in_virtual_time
async def test_who_asks_when_there_is_a_seat_has_it_at_once() -> None:
    async with served(arena(Hall)) as server:
        room = await server.create_room("arena")
        (ada,) = await _callers(server, "ada")

        first = await ada.wait(room.id)
        await a_moment(20.0)
        again = await ada.wait(room.id)

        assert first == WaitInfo(room.id, 0, 60.0)
        assert again.expires_in_s == pytest.approx(40.0, abs=0.1), "asking how far one is extends nothing"
        assert seats(server, room.id) == {"ada": "reserved"}


@pytest.mark.parametrize("going", ["leave", "kicked", "dropped", "released", "not admitted"])
@in_virtual_time
async def test_however_a_seat_is_freed_it_is_offered(going: str) -> None:
    kind = guarded(type("GuardedHall", (guarded(), Hall), {}), grace_s=5.0, unloved={"bob"})
    kind.door.set()
    async with served(kind) as server:
        room = await a_room(server, "zoe")
        zoe, bob, ada = await _callers(server, "zoe", "bob", "ada")
        if going == "not admitted":
            kind.door.clear()
            bob.client.ask("join", room=room.id)
            await until(lambda: kind.asked == ["bob"])
        elif going == "released":
            await zoe.ask("reserve", object, room=room.id)
        else:
            await zoe.join(room.id)
        assert (await ada.wait(room.id)).position == 1

        match going:
            case "leave":
                await zoe.tell("leave")
            case "kicked":
                server.machine.call(room.players[0].kick, "go")
            case "dropped":
                await zoe.client.close()
                await a_moment(4.0)
                assert ada.offers == [], "a held seat is occupied"
            case "released":
                await zoe.tell("release", room=room.id)
            case _:
                kind.door.set()
        await a_moment(2.0)

        assert len(ada.offers) == 1
        assert seats(server, room.id) == {"ada": "reserved"}


@in_virtual_time
async def test_nobody_gets_in_before_who_waits_however_slow_the_room_is() -> None:
    class Sentimental(Hall):
        async def on_leave(self, player: Player[PlayerData], reason: Reason) -> None:
            await asyncio.sleep(5.0)

    async with served(arena(Sentimental)) as server:
        room, seat = await _full(server)
        (ada,) = await _line(server, room.id, "ada")
        (eve,) = await connected(server, "eve")

        leaving = asyncio.create_task(seat.leave())
        await a_moment(1.0)

        with pytest.raises(RoomFull):
            await eve.join(room.id)
        await leaving
        await ada.join(room.id)


@pytest.mark.parametrize("operation", ["join", "reserve"])
@in_virtual_time
async def test_nobody_gets_a_new_seat_before_who_waits(operation: str) -> None:
    async with served(arena(Hall)) as server:
        room, _ = await _full(server)
        (ada,) = await _line(server, room.id, "ada")
        zoe, eve = await _callers(server, "zoe", "eve")
        caller, wish = (eve, {}) if operation == "join" else (zoe, {"players": ["eve"]})

        room.max_players = 2

        with pytest.raises(RoomFull):
            await caller.ask(operation, object, room=room.id, **wish)
        assert len(ada.offers) == 1
        room.max_players = 3
        await caller.ask(operation, object, room=room.id, **wish)
        assert {**seats(server, room.id), "eve": ""} == {"zoe": "taken", "ada": "reserved", "eve": ""}


# What moves the waitlist


@in_virtual_time
async def test_more_seats_are_offered_to_as_many_who_wait() -> None:
    async with served(arena(Hall, max_players=4)) as server:
        (zoe,) = await connected(server, "zoe")
        room = await zoe.create("arena", max_players=1)
        await zoe.join(room.id)
        callers = await _line(server, room.id, "a", "b", "c")

        await zoe.update_room(room.id, max_players=3)
        await a_moment()

        assert [len(caller.offers) for caller in callers] == [1, 1, 0]
        assert await callers[2].wait(room.id) == WaitInfo(room.id, 1)


@in_virtual_time
async def test_fewer_seats_are_offered_to_nobody_until_so_many_have_left() -> None:
    async with served(arena(Hall, max_players=3)) as server:
        (zoe,) = await connected(server, "zoe")
        room = await zoe.create("arena")
        a, b, c = await _callers(server, "a", "b", "c")
        for caller in (a, b, c):
            await caller.join(room.id)
        (ada,) = await _line(server, room.id, "ada")

        await zoe.update_room(room.id, max_players=1)
        await a.tell("leave")
        await b.tell("leave")
        await a_moment()
        assert ada.offers == []
        await c.tell("leave")
        await a_moment()

        assert len(ada.offers) == 1


@pytest.mark.parametrize("by", ["game", "creator", "policy"])
@in_virtual_time
async def test_a_room_that_is_opened_again_offers_its_seats(by: str) -> None:
    async with served(arena(Hall)) as server:
        (zoe,) = await connected(server, "zoe")
        info = await zoe.create("arena")
        room = server.rooms.get(info.id)
        assert room is not None
        if by == "policy":
            await zoe.update_room(info.id, join_policy="deny_all")
        else:
            server.machine.call(room.lock)
        (ada,) = await _line(server, info.id, "ada")

        match by:
            case "game":
                server.machine.call(room.unlock)
            case "creator":
                await zoe.update_room(info.id, locked=False)
            case _:
                await zoe.update_room(info.id, join_policy="accept_all")
        await a_moment()

        assert len(ada.offers) == 1
        await ada.join(info.id)


@in_virtual_time
async def test_when_the_room_ends_so_does_the_waitlist() -> None:
    async with served(arena(Hall)) as server:
        room, _ = await _full(server)
        (ada,) = await _line(server, room.id, "ada")

        server.machine.call(room.close)
        await a_moment()

        assert ada.offers == []
        with pytest.raises(NotFound):
            await ada.wait(room.id)


# Who stands in it


@in_virtual_time
async def test_asking_again_keeps_the_place_also_after_a_drop() -> None:
    async with served(arena(Hall)) as server:
        room, seat = await _full(server)
        ada, bob = await _line(server, room.id, "ada", "bob")
        await ada.client.close()
        await a_moment(1.0)

        assert await bob.wait(room.id) == WaitInfo(room.id, 2)
        (again,) = await _callers(server, "ada")
        assert await again.wait(room.id) == WaitInfo(room.id, 1)
        await seat.leave()
        await until(lambda: again.offers)

        assert bob.offers == []


@in_virtual_time
async def test_who_was_away_when_the_seat_was_offered_hears_of_it_when_asking() -> None:
    async with served(arena(Hall)) as server:
        room, seat = await _full(server)
        (ada,) = await _line(server, room.id, "ada")
        await ada.client.close()

        await seat.leave()
        await a_moment(10.0)
        (again,) = await _callers(server, "ada")

        answer = await again.wait(room.id)
        assert answer.position == 0
        assert answer.expires_in_s == pytest.approx(50.0, abs=0.2)
        await again.join(room.id)


@in_virtual_time
async def test_who_is_gone_for_good_waits_in_no_queue() -> None:
    async with served(arena(Hall, waiting_max=2), grace_s=5.0) as server:
        room, seat = await _full(server)
        ada, bob = await _line(server, room.id, "ada", "bob")
        (cleo,) = await _callers(server, "cleo")
        await ada.client.close()
        await a_moment(1.0)
        with pytest.raises(Throttled):
            await cleo.wait(room.id)

        await a_moment(5.0)

        assert await cleo.wait(room.id) == WaitInfo(room.id, 2)
        await seat.leave()
        await until(lambda: bob.offers)
        assert seats(server, room.id) == {"bob": "reserved"}


@in_virtual_time
async def test_who_steps_out_of_the_waitlist_is_passed_over() -> None:
    async with served(arena(Hall)) as server:
        room, seat = await _full(server)
        ada, bob, cleo = await _line(server, room.id, "ada", "bob", "cleo")

        await ada.tell("stop_waiting", room=room.id)
        await ada.tell("stop_waiting", room=room.id)
        await seat.leave()
        await until(lambda: bob.offers)
        await bob.tell("stop_waiting", room=room.id)
        await until(lambda: cleo.offers)

        assert ada.offers == []
        assert seats(server, room.id) == {"cleo": "reserved"}


@in_virtual_time
async def test_a_waitlist_has_an_end_and_some_rooms_have_none() -> None:
    async with served(arena(Hall, waiting_max=2)) as server:
        room, _ = await _full(server)
        ada, bob = await _line(server, room.id, "ada", "bob")
        (cleo,) = await _callers(server, "cleo")

        with pytest.raises(Throttled):
            await cleo.wait(room.id)
        assert await bob.wait(room.id) == WaitInfo(room.id, 2), "who stands in it already may ask"
        await ada.tell("stop_waiting", room=room.id)
        assert await cleo.wait(room.id) == WaitInfo(room.id, 2)

    async with served(arena()) as server:
        room = await server.create_room("arena")
        (ada,) = await _callers(server, "ada")
        with pytest.raises(NotFound):
            await ada.wait(room.id)


@in_virtual_time
async def test_who_sits_or_does_not_know_the_password_cannot_wait() -> None:
    async with served(arena(Hall)) as server:
        room, _ = await _full(server, password="swordfish")
        zoe, ada = await _callers(server, "zoe", "ada")

        with pytest.raises(AlreadySeated):
            await zoe.wait(room.id)
        with pytest.raises(WrongPassword):
            await ada.wait(room.id)
        place = await ada.ask("wait", WaitInfo, room=room.id, password="swordfish")

        assert place.position == 1


# Through the client


@in_virtual_time
async def test_clients_wait_and_take_their_seats_in_order() -> None:
    async with served(arena(Hall)) as server:
        room, seat = await _full(server)
        taken: list[str] = []

        async def wait(name: str) -> None:
            session = await server.connect(name)
            place = await session.wait_for_seat(room.id)
            taken.append(name)
            await place.leave()

        waiting = []
        for name in ("a", "b", "c", "d"):
            waiting.append(asyncio.create_task(wait(name)))
            await a_moment(0.1)
        await seat.leave()
        await asyncio.gather(*waiting)

        assert taken == ["a", "b", "c", "d"]
