"""The bus: everybody is told of everything, in order, and nobody can harm the others."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.observability import bus as bus_module
from holdfast.schemas.events import Event, RoomEvent, SessionEvent
from tests.observability.desk import Built, Counted, Desk, Slow, a_turn
from tests.server.durability.bench import in_virtual_time

# Who is told, and when


async def test_a_record_of_the_node_is_told_at_once_and_a_handler_in_a_turn_of_its_own() -> None:
    desk = Desk()
    heard: list[str] = []
    desk.bus.on(Counted, lambda _: heard.append("handler"))
    desk.bus.observe(lambda _: heard.append("record"))

    desk.publish(1)
    at_once = list(heard)
    await a_turn()

    assert at_once == ["record"]
    assert heard == ["record", "handler"]


async def test_a_handler_is_told_of_its_own_kind_and_of_those_derived_from_it() -> None:
    desk = Desk()
    heard: dict[type[Event], list[str]] = {kind: [] for kind in (Counted, SessionEvent, RoomEvent, Event)}

    def remember(kind: type[Event]) -> None:
        desk.bus.on(kind, lambda event: heard[kind].append(event.name))

    for kind in heard:
        remember(kind)

    desk.publish(1)
    desk.bus.publish(Built(room="r"))
    await a_turn()

    assert heard == {
        Counted: ["counted"],
        SessionEvent: ["counted"],
        RoomEvent: ["built"],
        Event: ["counted", "built"],
    }


@in_virtual_time
async def test_an_event_has_the_time_at_which_it_was_published() -> None:
    desk = Desk()
    heard: list[float] = []
    desk.bus.on(Counted, lambda event: heard.append(event.at))
    await asyncio.sleep(7.5)

    desk.publish(1)
    await asyncio.sleep(1.0)

    assert heard == [7.5]


# Order


async def test_events_are_told_in_the_order_they_happened_also_by_handlers_of_different_kinds() -> None:
    desk = Desk()
    heard: list[Any] = []
    desk.bus.on(Counted, lambda event: heard.append(event.number))
    desk.bus.on(Built, lambda event: heard.append(event.room))

    desk.publish(1)
    desk.bus.publish(Built(room="a"))
    desk.publish(2, 3)
    desk.bus.publish(Built(room="b"))
    await a_turn()

    assert heard == [1, "a", 2, 3, "b"]


async def test_a_handler_that_waits_is_told_of_one_event_after_the_other_in_their_order() -> None:
    desk, slow = Desk(), Slow()
    desk.bus.on(Counted, slow)

    desk.publish(1, 2, 3)
    await a_turn()
    while_one_waits = list(slow.begun)
    for number in (4, 5):
        slow.may_go_on.release()
        await a_turn()
        desk.publish(number)
    slow.may_go_on.release()
    slow.may_go_on.release()
    slow.may_go_on.release()
    await a_turn(20)

    assert while_one_waits == [1]
    assert slow.begun == slow.done == [1, 2, 3, 4, 5]


async def test_the_events_of_a_session_keep_their_order_whatever_happens_between_them() -> None:
    desk = Desk()
    heard: list[tuple[str, int]] = []

    async def remember(event: Counted) -> None:
        # Some take longer than others.
        await a_turn(hash((event.session, event.number)) % 4)
        heard.append((event.session, event.number))

    desk.bus.on(Counted, remember)
    for number in range(50):
        for session in "abc":
            desk.publish(number, session=session)
        await a_turn(number % 3)
    await desk.bus.stop(within_s=5.0)

    for session in "abc":
        assert [number for name, number in heard if name == session] == list(range(50))


async def test_a_handler_that_waits_does_not_keep_another_from_being_told() -> None:
    desk, slow = Desk(), Slow()
    heard: list[int] = []
    desk.bus.on(Counted, slow)
    desk.bus.on(Counted, lambda event: heard.append(event.number))

    desk.publish(1, 2, 3)
    await a_turn()

    assert (slow.begun, heard) == ([1], [1, 2, 3])


async def test_what_is_told_just_after_a_handler_has_finished_does_not_wait_for_the_next() -> None:
    desk = Desk()
    heard: list[int] = []
    may_go_on = asyncio.get_running_loop().create_future()

    async def remember(event: Counted) -> None:
        heard.append(event.number)
        if event.number == 1:
            await may_go_on

    desk.bus.on(Counted, remember)
    desk.publish(1)
    await a_turn()
    # The loop goes on with the handler first, and then tells of the second event.
    may_go_on.set_result(None)
    desk.publish(2)
    await a_turn(20)

    assert heard == [1, 2]


async def test_what_is_published_just_when_a_handler_has_finished_is_told() -> None:
    desk = Desk()
    heard: list[int] = []

    async def remember(event: Counted) -> None:
        await asyncio.sleep(0)
        heard.append(event.number)

    desk.bus.on(Counted, remember)
    for number in range(100):
        desk.publish(number)
        await a_turn(number % 7)
    await a_turn(300)

    assert heard == list(range(100))


async def test_what_a_handler_publishes_comes_after_what_was_there_and_others_get_their_turn() -> None:
    desk = Desk()
    heard: list[int] = []

    def echo(event: Counted) -> None:
        heard.append(event.number)
        # Without an end.
        desk.publish(event.number + 100)

    desk.bus.on(Counted, echo)
    desk.publish(1, 2)
    await a_turn(1)
    desk.publish(3)
    await a_turn(2)

    assert heard[:6] == [1, 2, 101, 102, 3, 201]


async def test_a_storm_is_told_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_module, "_EVENTS_AT_ONCE", 10)
    desk = Desk()
    heard: list[int] = []
    desk.bus.on(Counted, lambda event: heard.append(event.number))

    desk.publish(*range(25))
    lengths = []
    for _ in range(4):
        await asyncio.sleep(0)
        lengths.append(len(heard))

    assert lengths == [10, 20, 25, 25]
    assert heard == list(range(25))


# Failures


async def _raises_later(_: Event) -> None:
    await asyncio.sleep(0)
    raise ValueError("no")


async def _waits_for_what_is_cancelled(_: Event) -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


def _raises(_: Event) -> None:
    raise ValueError("no")


@pytest.mark.parametrize("handler", [_raises, _raises_later, _waits_for_what_is_cancelled])
async def test_a_handler_that_fails_is_counted_told_again_and_harms_nobody(handler: Callable[[Event], Any]) -> None:
    desk = Desk()
    heard: list[int] = []
    desk.bus.on(Counted, handler)
    desk.bus.on(Counted, lambda event: heard.append(event.number))

    desk.publish(1, 2, 3)
    await a_turn(20)

    assert heard == [1, 2, 3]
    assert len(desk.failures) == 3
    assert all(handler.__name__ in where and "Counted" in where for where, _ in desk.failures)


async def test_a_handler_that_cancels_itself_is_told_of_the_rest_in_order() -> None:
    desk = Desk()
    heard: list[int] = []

    async def give_up(event: Counted) -> None:
        heard.append(event.number)
        if event.number == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        await asyncio.sleep(0)

    desk.bus.on(Counted, give_up)
    desk.publish(1, 2, 3)
    await a_turn(20)
    desk.publish(4)
    await a_turn(20)

    assert heard == [1, 2, 3, 4]


async def test_a_record_that_fails_does_not_harm_what_has_happened() -> None:
    desk = Desk()
    heard: list[Event] = []
    desk.bus.observe(_raises)
    desk.bus.observe(heard.append)

    desk.publish(1)

    assert len(heard) == len(desk.failures) == 1
