"""`join_or_create`: one room for those who fit into it, however many come at once."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast import ClientRoom, ClientSession, Limits, PlayerData, Room, RoomFull
from holdfast.core.room import context_of
from holdfast.testing import FaultyStore, MemoryServer
from tests.server.directory.seats import PATIENT, Slow, a_crowd, arena, connected, occupancy, seats, served, told
from tests.server.durability.bench import a_moment, in_virtual_time
from tests.server.world import World


class Quick(Room[PlayerData]):
    max_players = 10


@pytest.mark.parametrize(("game", "durability"), [(Quick, "memory"), (Slow, "commit")])
@in_virtual_time
async def test_a_thousand_players_at_once_fill_a_hundred_rooms(game: type[Room[Any]], durability: str) -> None:
    kind = arena(game, durability=durability)
    async with served(kind, store=FaultyStore()) as server:
        crowd = await a_crowd(server, 1000)

        joined = await asyncio.gather(*(each.join_or_create("arena") for each in crowd))

        assert occupancy(server, joined) == {10: 100}
        assert all(context_of(room).seats.used == 10 for room in server.rooms)
        taken = Counter(line for line in await told(server) if line.endswith("taken"))
        assert taken == {f"p{number} taken": 1 for number in range(1000)}


@in_virtual_time
async def test_players_who_come_one_by_one_while_rooms_are_made_fill_them_too() -> None:
    async with served(arena(Slow)) as server:
        crowd = await a_crowd(server, 300)

        async def come(number: int, session: ClientSession) -> ClientRoom:
            await asyncio.sleep(0.003 * number)
            return await session.join_or_create("arena")

        joined = await asyncio.gather(*(come(number, session) for number, session in enumerate(crowd)))

        assert occupancy(server, joined) == {10: 30}


@in_virtual_time
async def test_who_wishes_for_another_room_shares_one_that_fits_all_the_same() -> None:
    async with served(arena(Slow)) as server:
        crowd = await a_crowd(server, 40)

        joined = await asyncio.gather(
            *(
                each.join_or_create("arena", name=f"room of {each.player_id}", properties={"level": number % 2})
                for number, each in enumerate(crowd)
            )
        )

        assert occupancy(server, joined) == {10: 4}


@in_virtual_time
async def test_those_who_want_different_rooms_at_once_get_different_rooms() -> None:
    async with served(arena(Slow)) as server:
        crowd = await a_crowd(server, 40)

        def level_of(session: ClientSession) -> int:
            return int(session.player_id[1:]) % 2

        joined = await asyncio.gather(
            *(
                each.join_or_create(
                    "arena", where=f"properties.level = {level_of(each)}", properties={"level": level_of(each)}
                )
                for each in crowd
            )
        )

        assert occupancy(server, joined) == {10: 4}
        for session, seat in zip(crowd, joined, strict=True):
            assert seat.info is not None
            assert seat.info.properties == {"level": level_of(session)}


@in_virtual_time
async def test_a_room_that_is_being_made_is_looked_at_as_it_will_be() -> None:
    async with served(arena(Slow)) as server:
        crowd = await a_crowd(server, 20)

        joined = await asyncio.gather(*(each.join_or_create("arena", where="players < 4") for each in crowd[:4]))
        others = await asyncio.gather(
            *(each.join_or_create("arena", where="players < 4", name=each.player_id) for each in crowd[4:])
        )

        assert occupancy(server, [*joined, *others]) == {4: 5}


@in_virtual_time
async def test_a_room_that_turns_out_smaller_than_its_kind_is_filled_and_the_rest_get_others() -> None:
    class Small(Slow):
        async def on_create(self, config: dict[str, Any]) -> None:
            await super().on_create(config)
            self.max_players = 2

    async with served(arena(Small)) as server:
        crowd = await a_crowd(server, 40)

        joined = await asyncio.gather(*(each.join_or_create("arena") for each in crowd))

        assert occupancy(server, joined) == {2: 20}


@in_virtual_time
async def test_those_whose_where_does_not_hold_for_the_room_they_ask_for_get_one_each() -> None:
    async with served(arena(Slow)) as server:
        crowd = await a_crowd(server, 6)
        wish: dict[str, Any] = {"where": "properties.mode = 'duel'", "properties": {"mode": "chess"}}

        at_once = await asyncio.gather(*(each.join_or_create("arena", **wish) for each in crowd[:3]))
        in_turn = [await each.join_or_create("arena", **wish) for each in crowd[3:]]

        assert occupancy(server, [*at_once, *in_turn]) == {1: 6}


@in_virtual_time
async def test_whoever_finds_the_room_at_once_does_not_take_the_seat_of_who_has_it_made() -> None:
    bots: list[asyncio.Task[Any]] = []

    class Haunted(Room[PlayerData]):
        max_players = 1

        def on_created(self) -> None:
            bots.append(asyncio.create_task(server.open_agent("bot").join(self.id)))

    async with served(arena(Haunted)) as server:
        (ada,) = await connected(server, "ada")

        seat = await ada.join_or_create("arena")

        assert seats(server, seat.id) == {"ada": "taken"}
        with pytest.raises(RoomFull):
            await bots[0]


@in_virtual_time
async def test_who_looks_while_a_room_is_made_does_not_take_the_seat_of_who_has_it_made() -> None:
    async with served(arena(Slow, max_players=1)) as server:
        crowd = await a_crowd(server, 50)

        async def come(number: int, session: ClientSession) -> ClientRoom:
            # About as long as a room takes to be made: some ask at the very moment it can be found.
            await asyncio.sleep(0.0 if number < 25 else 0.2)
            return await session.join_or_create("arena")

        joined = await asyncio.gather(*(come(number, session) for number, session in enumerate(crowd)))

        assert occupancy(server, joined) == {1: 50}


# A long search


class _Ticks:
    """Counts the turns of the loop, and does something at one of them."""

    def __init__(self, at: int = -1, do: Callable[[], None] = lambda: None) -> None:
        self.count = 0
        self._at = at
        self._do = do
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        self.count += 1
        if self.count == self._at:
            self._do()
        self._next = self._loop.call_soon(self._tick)

    def stop(self) -> int:
        self._next.cancel()
        return self.count


# Such a search is helped by no index.
_LONG = "NOT (properties.map IN ('cave', 'dust'))"


@asynccontextmanager
async def _a_town(rooms: int) -> AsyncIterator[tuple[MemoryServer, list[Room[Any]]]]:
    limits = Limits(ping_s=PATIENT.ping_s, silence_s=PATIENT.silence_s, search_slice_max=10)
    async with served(arena(Quick), limits=limits) as server:
        yield server, [await server.create_room("arena", properties={"map": "cave"}) for _ in range(rooms)]


@pytest.mark.parametrize("has_changed", [False, True])
@in_virtual_time
async def test_a_long_search_for_a_seat_lets_everybody_else_have_their_turn(*, has_changed: bool) -> None:
    async with _a_town(1000) as (server, rooms):
        (ada,) = await connected(server, "ada")
        await a_moment()
        if has_changed:
            for room in rooms:
                server.machine.call(server.rooms.runner(room.id).listed)

        ticks = _Ticks()
        where = "properties.map = 'moon'" if has_changed else _LONG
        await ada.join_or_create("arena", where=where)

        assert ticks.stop() >= (1000 // 32 if has_changed else 1000 // 10)


@in_virtual_time
async def test_a_room_that_opens_behind_the_back_of_a_long_search_is_found_before_one_is_made() -> None:
    async with _a_town(1000) as (server, rooms):
        ada, bob = await connected(server, "ada", "bob")
        await a_moment()

        # The first that is looked at.
        oldest = min(rooms, key=lambda room: (context_of(room).listing.created_at, room.id))

        def open_one() -> None:
            server.machine.call(lambda: oldest.properties.update(map="moon"))

        whole = _Ticks()
        made = await ada.join_or_create("arena", where=_LONG, max_players=1)
        half = _Ticks(whole.stop() // 2, open_one)
        seat = await bob.join_or_create("arena", where=_LONG)
        half.stop()

        assert made.id not in {room.id for room in rooms}
        assert seat.id == oldest.id


@in_virtual_time
async def test_a_crowd_on_a_long_search_still_shares_its_rooms() -> None:
    async with _a_town(100) as (server, rooms):
        crowd = await a_crowd(server, 100)

        joined = await asyncio.gather(*(each.join_or_create("arena", where=_LONG) for each in crowd))

        assert Counter(Counter(seat.id for seat in joined).values()) == {10: 10}
        assert len(server.rooms) == len(rooms) + 10


async def test_players_on_real_sockets_share_rooms_too(world: World) -> None:
    server = await world.serve(arena(Slow, max_players=5))
    crowd = await asyncio.gather(*(world.connect(server) for _ in range(40)))

    joined = await asyncio.gather(*(each.join_or_create("arena") for each in crowd))

    assert Counter(Counter(seat.id for seat in joined).values()) == {5: 8}
    assert [context_of(room).seats.used for room in server.rooms] == [5] * 8
