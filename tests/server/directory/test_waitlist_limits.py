"""The line and the limit: nobody gets more seats reserved by waiting than by asking for them."""

import pytest

from holdfast import Limits, Throttled
from holdfast.schemas.player import WaitInfo
from tests.server.directory.seats import PATIENT, arena, call, connected, seats, served
from tests.server.durability.bench import in_virtual_time, until

_HALL = arena(max_players=1, waiting_max=8)


def _at_most(reservations: int) -> Limits:
    return Limits(ping_s=PATIENT.ping_s, silence_s=PATIENT.silence_s, reservations_per_player_max=reservations)


@in_virtual_time
async def test_seats_from_the_waitlist_count_as_reserved_by_who_waits() -> None:
    async with served(_HALL, limits=_at_most(2)) as server:
        first, second, third = [await server.create_room("arena") for _ in range(3)]
        ada = await call(server, "ada")
        for room in (first, second):
            assert (await ada.wait(room.id)).position == 0
        with pytest.raises(Throttled):
            await ada.wait(third.id)
        assert seats(server, third.id) == {}

        await ada.join(first.id)

        assert (await ada.wait(third.id)).position == 0
        assert server.rooms.reserved.count("ada") == 2


@in_virtual_time
async def test_who_has_enough_seats_reserved_is_passed_over_and_keeps_the_place() -> None:
    async with served(_HALL, limits=_at_most(1)) as server:
        room, other = [await server.create_room("arena") for _ in range(2)]
        (zoe,) = await connected(server, "zoe")
        seat = await zoe.join(room.id)
        ada, bob = [await call(server, name) for name in ("ada", "bob")]
        for place, caller in enumerate((ada, bob), 1):
            assert await caller.wait(room.id) == WaitInfo(room.id, place)
        assert (await ada.wait(other.id)).position == 0

        await seat.leave()
        await until(lambda: bob.offers)
        assert [offer.room for offer in ada.offers] == [other.id]
        assert await ada.wait(room.id) == WaitInfo(room.id, 1), "asking is allowed"
        await ada.tell("stop_waiting", room=other.id)
        await bob.tell("stop_waiting", room=room.id)
        await until(lambda: len(ada.offers) == 2)

        assert seats(server, room.id) == {"ada": "reserved"}
