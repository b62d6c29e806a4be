"""Rounds of searches that go on: much that is to be told, or to be looked at, does not keep the games waiting."""

import asyncio
import itertools
from typing import Any

import msgspec
import pytest

from holdfast import Limits
from holdfast.schemas.frames import Notice
from holdfast.schemas.room import RoomPage, RoomsChanged
from tests.server.directory.seats import PATIENT, Caller, arena, call, served
from tests.server.durability.bench import a_moment, in_virtual_time


def _limits(**changes: Any) -> Limits:
    return Limits(ping_s=PATIENT.ping_s, silence_s=PATIENT.silence_s, watch_s=0.0, **changes)


async def _watch(caller: Caller, where: str = "", watch_id: str = "w") -> None:
    await caller.ask("watch", RoomPage, id=watch_id, where=where)


def _told(*callers: Caller) -> int:
    """Of how many rooms they were told."""
    notices = [notice for caller in callers for notice in caller.client.all_heard(Notice)]
    return sum(len(msgspec.convert(notice.body, RoomsChanged).changed) for notice in notices)


@in_virtual_time
async def test_much_that_is_to_be_told_to_many_is_spread_over_turns_of_the_loop() -> None:
    async with served(arena(), limits=_limits(search_slice_max=100)) as server:
        callers = [await call(server, f"player-{number}") for number in range(30)]
        rooms = [await server.create_room("arena") for _ in range(60)]
        for caller in callers:
            await _watch(caller)
        await a_moment()
        told = [_told(*callers)]

        for room in rooms:
            server.machine.call(room.lock)
        while told[-1] - told[0] < 30 * 60:
            await asyncio.sleep(0)
            told.append(_told(*callers))
        per_turn = [after - before for before, after in itertools.pairwise(told)]

        assert max(per_turn) <= 64


async def _turns_of_a_round(where: str) -> int:
    """Turns of the loop from a change until who has begun the last of many searches is told of it."""
    async with served(arena(), limits=_limits(search_slice_max=2000)) as server:
        rooms = [await server.create_room("arena") for _ in range(32)]
        for number in range(10):
            caller = await call(server, f"player-{number}")
            for watch_id in "abcd":
                await _watch(caller, where, watch_id)
        last = await call(server, "last")
        await _watch(last, "is_locked = true")
        await a_moment()

        for room in rooms:
            server.machine.call(room.lock)
        for turns in itertools.count():
            if _told(last):
                return turns
            await asyncio.sleep(0)
    raise AssertionError("it was told nothing")


@in_virtual_time
async def test_a_long_search_counts_as_several_in_a_round() -> None:
    quick = await _turns_of_a_round("players > 5")
    # Of forty searches, each looks at 32 rooms, and each room counts as fifteen: ten slices instead of one.
    slow = await _turns_of_a_round(" OR ".join(["players > 5"] * 60))

    assert slow - quick == pytest.approx(9, abs=1)
