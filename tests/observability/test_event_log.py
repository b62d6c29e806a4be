"""The log of what happens on a node: numbered, kept for a while, and read by whoever comes back."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.observability.bus import EventLog
from holdfast.schemas.events import Event, RoomCreated, RoomEnded
from holdfast.schemas.node import EventInfo
from tests.server.world import World, chat

DAY_ONE = 1_800_000_000.0
# Before the first event.
START = 1_800_000_000_000_000


class Counted(Event, frozen=True, kw_only=True, tag="counted"):
    number: int


def _log(kept_max: int = 100, started_at: float = DAY_ONE) -> EventLog:
    return EventLog(asyncio.get_running_loop(), wall_clock=lambda: started_at, kept_max=kept_max)


def _publish(log: EventLog, *numbers: int) -> None:
    for number in numbers:
        log.record(Counted(number=number, at=DAY_ONE))


async def _next(reader: AsyncIterator[EventInfo], count: int = 1) -> list[EventInfo]:
    return [await anext(reader) for _ in range(count)]


def _brief(events: list[EventInfo]) -> list[Any]:
    return [event.body["number"] if event.type == "counted" else (event.type, event.id - START) for event in events]


async def test_events_are_numbered_without_a_gap() -> None:
    log = _log()
    log.record(RoomCreated(room="a", kind="arena", at=DAY_ONE))
    log.record(RoomEnded(room="a", status="terminated", at=DAY_ONE))

    events = await _next(log.read(START), 2)

    assert events == [
        EventInfo(START + 1, "room.created", DAY_ONE, {"room": "a", "kind": "arena", "creator": "", "info": None}),
        EventInfo(START + 2, "room.ended", DAY_ONE, {"room": "a", "status": "terminated", "reason": "", "info": None}),
    ]


async def test_a_new_reader_hears_what_happens_from_the_moment_it_asked() -> None:
    log = _log()
    _publish(log, 1, 2)

    reader = log.read(None)
    _publish(log, 3)
    heard = await _next(reader)
    waiting = asyncio.create_task(_next(reader))
    await asyncio.sleep(0)
    _publish(log, 4)

    assert _brief(heard + await waiting) == [3, 4]


@pytest.mark.parametrize("after", range(6))
async def test_a_reader_goes_on_after_the_last_event_that_it_has_seen(after: int) -> None:
    log = _log()
    _publish(log, 1, 2, 3, 4, 5)

    reader = log.read(START + after)
    _publish(log, 6)

    assert _brief(await _next(reader, 6 - after)) == list(range(after + 1, 7))


@pytest.mark.parametrize("after", [0, 6, -5, START, START + 6, START + 11])
async def test_who_comes_back_too_late_or_from_another_start_of_the_node_is_told_of_the_gap(after: int) -> None:
    log = _log(kept_max=3)
    _publish(log, *range(1, 11))

    events = await _next(log.read(after), 4)

    assert events[0] == EventInfo(START + 7, "gap", DAY_ONE, {"oldest": START + 8})
    assert _brief(events[1:]) == [8, 9, 10]
    assert _brief(await _next(log.read(events[0].id), 3)) == [8, 9, 10], "the gap's own id is a place to go on from"


async def test_who_comes_back_just_in_time_hears_of_no_gap() -> None:
    log = _log(kept_max=3)
    _publish(log, *range(1, 11))

    assert _brief(await _next(log.read(START + 7), 3)) == [8, 9, 10]


@pytest.mark.parametrize("seen", [1, 3, 5])
async def test_who_comes_back_after_a_restart_is_told_of_the_gap_however_much_has_happened_since(seen: int) -> None:
    before, after = _log(), _log(started_at=DAY_ONE + 1.0)
    _publish(before, 1, 2, 3, 4, 5)
    _publish(after, *range(11, 20))

    last = (await _next(before.read(START), seen))[-1]
    events = await _next(after.read(last.id), 3)

    assert [event.type for event in events] == ["gap", "counted", "counted"]
    assert _brief(events[1:]) == [11, 12]
    assert events[-1].id < 2**53, "a browser can count so far"


async def test_from_another_start_of_a_node_on_which_nothing_has_happened_yet_there_is_a_gap_too() -> None:
    log = _log()
    reader = log.read(4711)

    (gap,) = await _next(reader)
    _publish(log, 1)

    assert (gap.id, gap.type) == (START, "gap")
    assert _brief(await _next(reader)) == [1]


async def test_a_reader_that_is_slower_than_what_happens_is_told_of_the_gap_and_costs_no_memory() -> None:
    log = _log(kept_max=3)
    reader = log.read(START)
    _publish(log, 1, 2, 3)
    (first,) = await _next(reader)

    _publish(log, *range(4, 1000))
    rest = await _next(reader, 6)

    assert _brief([first, *rest]) == [1, 2, 3, ("gap", 996), 997, 998, 999]


async def test_the_end_of_the_node_ends_every_reader_after_the_last_event() -> None:
    log = _log()
    waiting = asyncio.create_task(_all(log.read(None)))
    behind = log.read(START)
    await asyncio.sleep(0)
    _publish(log, 1, 2)
    await _next(behind)

    log.close()

    assert _brief(await waiting) == [1, 2]
    assert _brief(await _all(behind)) == [2]
    assert _brief(await _all(log.read(START + 1))) == [2]
    assert await _all(log.read(None)) == []


async def _all(reader: AsyncIterator[EventInfo]) -> list[EventInfo]:
    return [event async for event in reader]


async def test_a_reader_that_is_cancelled_leaves_the_others_in_peace() -> None:
    log = _log()
    readers = [log.read(None) for _ in range(3)]
    waiting = [asyncio.create_task(_next(reader)) for reader in readers]
    await asyncio.sleep(0)

    waiting[0].cancel()
    await asyncio.wait(waiting[:1])
    _publish(log, 1)

    assert [_brief(await task) for task in waiting[1:]] == [[1], [1]]


async def test_what_happens_on_a_server_is_told_in_order_and_ends_with_it(world: World) -> None:
    kind = chat(empty_ttl_s=0)
    server = await world.serve(kind)
    events = server.operate.events.read("0")
    reading = asyncio.create_task(_all(events))
    session = await world.connect(server)

    room = await session.create("chat")
    await session.update_room(room.id, name="ours")
    seat = await session.join(room.id)
    await seat.leave()
    await kind.story.has("on_destroyed")
    await server.stop()

    gap, *heard = await reading
    assert gap.type == "gap"
    assert [event.id for event in heard] == list(range(gap.id + 1, gap.id + 1 + len(heard)))
    of_rooms = [event for event in heard if event.type.startswith(("room.", "seat."))]
    assert [(event.type, event.body["room"]) for event in of_rooms] == [
        ("room.created", room.id),
        ("room.updated", room.id),
        ("seat.taken", room.id),
        ("seat.freed", room.id),
        ("room.ending", room.id),
        ("room.ended", room.id),
    ]
    ended = of_rooms[-1].body
    assert (ended["status"], ended["reason"], ended["info"].name) == ("ended", "empty", "ours")
