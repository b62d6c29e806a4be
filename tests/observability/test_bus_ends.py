"""The bus: how much may wait, and what becomes of it when a handler is taken off or the bus stops."""

import asyncio
import logging

import pytest

from holdfast.schemas.events import Event, SessionEvent
from tests.observability.desk import Built, Counted, Desk, Slow, a_turn
from tests.server.durability.bench import in_virtual_time

# Bounds


async def test_a_handler_that_is_too_slow_misses_events_which_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    desk, slow = Desk(waiting_max=5), Slow()
    heard: list[int] = []
    desk.bus.on(Counted, slow)
    desk.bus.on(Counted, lambda event: heard.append(event.number))

    with caplog.at_level(logging.WARNING, "holdfast.server"):
        for number in range(20):
            desk.publish(number)
            await a_turn()
        lost = desk.bus.lost
        for _ in range(20):
            slow.may_go_on.release()
        await a_turn(100)
        desk.publish(99)
        await a_turn(20)

    assert heard == [*range(20), 99], "who is quick misses nothing"
    assert lost == 20 - 1 - 5, "one is being told, five wait"
    assert slow.done == [0, 1, 2, 3, 4, 5, 99]
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2, said
    assert "too slow" in said[0]
    assert "caught up" in said[1]


async def test_no_more_wait_than_the_limit_also_if_they_happen_all_at_once() -> None:
    desk = Desk(waiting_max=5)
    heard: list[int] = []
    desk.bus.on(Counted, lambda event: heard.append(event.number))
    desk.bus.on(SessionEvent, lambda event: None)

    desk.publish(*range(8))
    await a_turn()

    assert heard == [0, 1, 2, 3, 4]
    assert desk.bus.lost == 2 * 3, "three, for each of the two"


async def test_what_nobody_is_interested_in_waits_for_nobody() -> None:
    desk = Desk(waiting_max=1)
    heard: list[str] = []
    desk.bus.on(Built, lambda event: heard.append(event.room))

    desk.publish(*range(100))
    desk.bus.publish(Built(room="r"))
    await a_turn()

    assert (heard, desk.bus.lost) == (["r"], 0)


# No more


async def test_a_handler_that_is_taken_off_is_told_no_more_also_not_of_what_waits() -> None:
    desk = Desk()
    heard: list[int] = []

    def once(event: Counted) -> None:
        heard.append(event.number)
        desk.bus.off(Counted, once)

    desk.bus.on(Counted, once)
    desk.publish(1, 2)
    await a_turn()
    desk.publish(3)
    await a_turn()

    assert heard == [1]


async def test_a_handler_that_is_taken_off_while_it_waits_may_finish_what_it_is_at() -> None:
    desk, slow = Desk(), Slow()
    desk.bus.on(Counted, slow)
    desk.publish(1, 2)
    await a_turn()

    desk.bus.off(Counted, slow)
    slow.may_go_on.release()
    slow.may_go_on.release()
    await a_turn(20)

    assert slow.done == slow.begun == [1]


async def test_only_one_of_two_equal_subscriptions_is_taken_off_at_a_time() -> None:
    desk = Desk()
    heard: list[str] = []

    def remember(event: Event) -> None:
        heard.append(event.name)

    desk.bus.on(Counted, remember)
    desk.bus.on(Counted, remember)
    desk.bus.off(Counted, remember)
    desk.bus.off(SessionEvent, remember)
    desk.publish(1)
    await a_turn()

    assert heard == ["counted"]


# The end


@in_virtual_time
async def test_a_bus_that_stops_tells_what_there_is_and_lets_handlers_finish() -> None:
    desk = Desk()
    done: list[int] = []
    heard: list[int] = []

    async def save(event: Counted) -> None:
        await asyncio.sleep(0.3)
        done.append(event.number)

    desk.bus.on(Counted, save)
    desk.bus.on(Counted, lambda event: heard.append(event.number))
    desk.publish(1, 2, 3)

    await desk.bus.stop(within_s=1.0)

    assert (done, heard) == ([1, 2, 3], [1, 2, 3])
    assert asyncio.get_running_loop().time() == pytest.approx(0.9)


@in_virtual_time
async def test_a_handler_that_does_not_finish_is_cancelled_in_time() -> None:
    desk = Desk()
    ends: list[str] = []

    async def linger(_: Counted) -> None:
        try:
            await asyncio.sleep(3600.0)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    desk.bus.on(Counted, linger)
    desk.publish(1, 2, 3)
    await asyncio.sleep(0.1)

    await desk.bus.stop(within_s=1.0)

    assert ends == ["cancelled"]
    assert asyncio.get_running_loop().time() == pytest.approx(1.1)
    assert len(asyncio.all_tasks()) == 1, "nothing goes on"


@in_virtual_time
async def test_a_handler_that_was_never_begun_is_closed_without_a_complaint() -> None:
    desk, slow = Desk(), Slow()
    desk.bus.on(Counted, slow)
    desk.publish(1)

    await desk.bus.stop(within_s=0.0)

    assert slow.done == []


@in_virtual_time
async def test_handlers_that_always_publish_more_do_not_keep_the_bus_from_stopping() -> None:
    desk = Desk()

    async def echo(event: Counted) -> None:
        await asyncio.sleep(0.01)
        desk.publish(event.number + 1)

    desk.bus.on(Counted, echo)
    desk.publish(1)

    await desk.bus.stop(within_s=1.0)

    assert asyncio.get_running_loop().time() <= 1.0


@in_virtual_time
async def test_a_handler_may_be_the_one_that_stops_the_bus() -> None:
    desk = Desk()
    ended = asyncio.Event()

    async def stop(_: Counted) -> None:
        await desk.bus.stop(within_s=1.0)
        ended.set()

    desk.bus.on(Counted, stop)
    desk.publish(1)
    await ended.wait()

    assert asyncio.get_running_loop().time() == 0.0, "it did not wait for itself"


async def test_after_the_end_only_the_records_are_told() -> None:
    desk = Desk()
    heard: list[str] = []
    desk.bus.on(Counted, lambda _: heard.append("handler"))
    desk.bus.observe(lambda _: heard.append("record"))

    await desk.bus.stop(within_s=1.0)
    desk.publish(1)
    await a_turn()

    assert heard == ["record"]
