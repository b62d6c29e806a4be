"""Standing in line for a seat: offers, drops, and what is left behind when somebody gives up."""

import asyncio
from typing import Any

import pytest

from holdfast import ClientRoom, ClientSession, NotFound, RoomFull
from holdfast.client.subscriptions import POSITION_S
from holdfast.core.errors import AlreadySeated, WrongPassword
from holdfast.schemas.frames import SeatFrame
from holdfast.schemas.player import WaitInfo
from tests.client.desk import Asked, Desk, notice, room, until_back, visit
from tests.client.fake_server import in_virtual_time


def place(position: int) -> WaitInfo:
    return WaitInfo("room-1", position, expires_in_s=0.0 if position else 30.0)


async def in_line(session: ClientSession, desk: Desk, position: int = 2, **options: Any) -> asyncio.Task[ClientRoom]:
    """Somebody who stands in line."""
    waiting = asyncio.create_task(session.wait_for_seat("room-1", **options))
    (await desk.asked("wait", room="room-1")).answer(place(position))
    await asyncio.sleep(0)
    return waiting


def seat(asked: Asked) -> None:
    asked.link.say(SeatFrame("joined", 1, 1, "room-1", "arena"), asked.reply(room(1)))


@in_virtual_time
async def test_who_waits_joins_when_the_seat_is_offered() -> None:
    desk = Desk()
    async with visit(desk) as session:
        waiting = await in_line(session, desk)
        assert await desk.is_asked_nothing()

        desk.notice("offer", "room-1", place(0))
        seat(await desk.asked("join", room="room-1"))

        assert await waiting is session.room
        assert await desk.is_asked_nothing()


@in_virtual_time
async def test_who_need_not_wait_joins_at_once() -> None:
    desk = Desk()
    async with visit(desk) as session:
        waiting = await in_line(session, desk, position=0)
        seat(await desk.asked("join", room="room-1"))

        assert (await waiting).id == "room-1"


@in_virtual_time
async def test_an_offer_in_the_same_payload_as_the_place_in_the_waitlist_counts() -> None:
    desk = Desk()
    async with visit(desk) as session:
        waiting = asyncio.create_task(session.wait_for_seat("room-1"))
        asked = await desk.asked("wait", room="room-1")
        asked.link.say(asked.reply(place(1)), notice("offer", "room-1", place(0)))
        seat(await desk.asked("join", room="room-1"))

        assert (await waiting).id == "room-1"


@in_virtual_time
async def test_the_password_opens_the_waitlist_and_the_room() -> None:
    desk = Desk()
    async with visit(desk) as session:
        waiting = asyncio.create_task(session.wait_for_seat("room-1", password="sesame"))
        (await desk.asked("wait", room="room-1", password="sesame")).answer(place(0))
        seat(await desk.asked("join", room="room-1", password="sesame"))

        assert (await waiting).id == "room-1"


@in_virtual_time
async def test_the_position_is_told_when_it_changes() -> None:
    desk = Desk()
    positions: list[int] = []
    async with visit(desk) as session:
        waiting = await in_line(session, desk, position=3, on_position=positions.append)
        begun = asyncio.get_running_loop().time()
        for position in (3, 1):
            (await desk.asked("wait", room="room-1")).answer(place(position))
        await asyncio.sleep(0)

        assert positions == [3, 1]
        assert asyncio.get_running_loop().time() - begun == 2 * POSITION_S
        waiting.cancel()


@in_virtual_time
async def test_a_room_that_is_gone_is_noticed_in_the_waitlist() -> None:
    desk = Desk()
    async with visit(desk) as session:
        waiting = await in_line(session, desk)
        (await desk.asked("wait", room="room-1")).refuse("not_found")

        with pytest.raises(NotFound):
            await waiting
        assert await desk.is_asked_nothing()


@in_virtual_time
async def test_who_has_no_answer_does_not_ask_again_and_again() -> None:
    desk = Desk()
    async with visit(desk) as session:
        waiting = await in_line(session, desk)
        await desk.asked("wait", room="room-1")

        await asyncio.sleep(2 * POSITION_S)

        assert await desk.is_asked_nothing()
        waiting.cancel()


# Drops


@pytest.mark.parametrize("then", ["resumed", "reset"])
def test_who_dropped_waits_again(then: str) -> None:
    @in_virtual_time
    async def story() -> None:
        desk = Desk(then, "s1" if then == "resumed" else "s2")
        async with visit(desk) as session:
            waiting = await in_line(session, desk)

            await until_back(session, desk)
            (await desk.asked("wait", room="room-1")).answer(place(0))
            seat(await desk.asked("join", room="room-1"))

            assert await waiting is session.room

    story()


@in_virtual_time
async def test_an_offer_that_ran_out_during_a_drop_leads_back_into_the_waitlist() -> None:
    desk = Desk()
    async with visit(desk) as session:
        waiting = await in_line(session, desk)
        desk.notice("offer", "room-1", place(0))
        (await desk.asked("join", room="room-1")).refuse("room_full")
        (await desk.asked("wait", room="room-1")).answer(place(4))
        assert await desk.is_asked_nothing()

        desk.notice("offer", "room-1", place(0))
        seat(await desk.asked("join", room="room-1"))

        assert (await waiting).id == "room-1"


@in_virtual_time
async def test_a_seat_that_was_taken_before_a_reset_is_taken_again() -> None:
    desk = Desk("reset", "s2")
    async with visit(desk) as session:
        waiting = await in_line(session, desk, position=0)
        await desk.asked("join", room="room-1")
        await until_back(session, desk)
        while (asked := await desk.next_asked()).operation == "wait":
            asked.refuse("already_seated")
        seat(asked)

        assert await waiting is session.room


# Giving up


@in_virtual_time
async def test_who_is_cancelled_leaves_the_waitlist() -> None:
    desk = Desk()
    async with visit(desk) as session:
        waiting = await in_line(session, desk)

        waiting.cancel()
        await desk.asked("stop_waiting", room="room-1")

        with pytest.raises(asyncio.CancelledError):
            await waiting


@in_virtual_time
async def test_who_runs_out_of_time_leaves_the_waitlist() -> None:
    desk = Desk()
    async with visit(desk) as session:
        waiting = await in_line(session, desk, timeout_s=3.0)

        await desk.asked("stop_waiting", room="room-1")

        with pytest.raises(TimeoutError, match="no seat in room room-1 within 3 s"):
            await waiting
        desk.notice("offer", "room-1", place(0))
        assert await desk.is_asked_nothing()


@in_virtual_time
async def test_who_runs_out_of_time_without_a_connection_leaves_the_waitlist_when_it_is_back() -> None:
    desk = Desk()
    async with visit(desk) as session:
        waiting = await in_line(session, desk, timeout_s=0.01)
        desk.link.lose()

        with pytest.raises(TimeoutError):
            await waiting
        assert len(desk.links) == 1
        await desk.asked("stop_waiting", room="room-1")


@in_virtual_time
async def test_a_seat_that_was_offered_in_time_is_taken_however_long_that_takes() -> None:
    desk = Desk()
    async with visit(desk) as session:
        waiting = await in_line(session, desk, timeout_s=1.0)
        desk.notice("offer", "room-1", place(0))
        asked = await desk.asked("join", room="room-1")
        await asyncio.sleep(5.0)
        seat(asked)

        assert (await waiting).id == "room-1"


@in_virtual_time
async def test_the_time_in_the_waitlist_goes_on_after_an_offer_that_ran_out() -> None:
    desk = Desk()
    async with visit(desk) as session:
        waiting = await in_line(session, desk, position=0, timeout_s=1.0)
        asked = await desk.asked("join", room="room-1")
        await asyncio.sleep(5.0)
        asked.refuse("expired")

        with pytest.raises(TimeoutError):
            await waiting


@pytest.mark.parametrize(("code", "error"), [("wrong_password", WrongPassword), ("already_seated", AlreadySeated)])
def test_who_may_not_join_leaves_the_waitlist_and_is_told_why(code: str, error: type[Exception]) -> None:
    @in_virtual_time
    async def story() -> None:
        desk = Desk()
        async with visit(desk) as session:
            waiting = await in_line(session, desk, position=0)
            (await desk.asked("join", room="room-1")).refuse(code)
            await desk.asked("stop_waiting", room="room-1")

            with pytest.raises(error):
                await waiting

    story()


@in_virtual_time
async def test_a_callback_that_fails_leaves_the_waitlist() -> None:
    def fails(position: int) -> None:
        raise ZeroDivisionError

    desk = Desk()
    async with visit(desk) as session:
        waiting = await in_line(session, desk, on_position=fails)
        await desk.asked("stop_waiting", room="room-1")

        with pytest.raises(ZeroDivisionError):
            await waiting


@in_virtual_time
async def test_a_waitlist_that_takes_nobody_is_refused() -> None:
    desk = Desk()
    async with visit(desk) as session:
        waiting = asyncio.create_task(session.wait_for_seat("room-1"))
        (await desk.asked("wait", room="room-1")).refuse("room_full")

        with pytest.raises(RoomFull):
            await waiting


@in_virtual_time
async def test_of_two_who_wait_for_the_same_seat_the_waitlist_is_left_by_the_last() -> None:
    desk = Desk()
    async with visit(desk) as session:
        first, second = await in_line(session, desk), await in_line(session, desk)

        first.cancel()
        assert await desk.is_asked_nothing()
        second.cancel()

        await desk.asked("stop_waiting", room="room-1")
