"""The bus: everybody is told of everything, in order, and nobody can harm the others."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.events import Event, RoomEvent, SessionEvent
from holdfast.server import bus as bus_module
from holdfast.server.bus import Bus
from tests.server.durable.bench import in_virtual_time


class Counted(SessionEvent, frozen=True, kw_only=True, tag="counted"):
    number: int


class Built(RoomEvent, frozen=True, kw_only=True, tag="built"):
    pass


class Desk:
    """A bus, and what went wrong on it."""

    def __init__(self, waiting_max: int = 1000) -> None:
        self.failures: list[tuple[str, Exception]] = []
        loop = asyncio.get_running_loop()
        self.bus = Bus(
            loop, wall=loop.time, waiting_max=waiting_max, failed=lambda *failure: self.failures.append(failure)
        )

    def publish(self, *numbers: int, session: str = "s") -> None:
        for number in numbers:
            self.bus.publish(Counted(session=session, player="ada", number=number))


class Slow:
    """A handler that takes its time: it begins with one event when it may finish the one before."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.done: list[int] = []
        self.may_go_on = asyncio.Semaphore(0)

    async def __call__(self, event: Counted) -> None:
        self.begun.append(event.number)
        await self.may_go_on.acquire()
        self.done.append(event.number)


async def a_turn(times: int = 5) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


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
    monkeypatch.setattr(bus_module, "_TOLD_AT_ONCE", 10)
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
