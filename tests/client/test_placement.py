"""Placements as their client sees them: notices, questions after a drop, and the end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast import ClientSession, NotFound, SessionEnded
from holdfast.client.subscriptions import Placement
from holdfast.core.errors import Conflict, ProtocolError
from holdfast.schemas.placement import PlacementInfo
from tests.client.desk import Desk, answered, notice, room, until_back, visit
from tests.client.fake_server import in_virtual_time


def placed(status: str = "pending", **facts: Any) -> PlacementInfo:
    return PlacementInfo("p1", "eu", status, ["ada"], **facts)


FULFILLED = placed("fulfilled", room=room(1), node="n1")


@asynccontextmanager
async def pending(desk: Desk) -> AsyncIterator[tuple[ClientSession, Placement]]:
    """A session at the desk that has asked for a placement."""
    async with visit(desk) as session:
        placement: Placement = await answered(session.place("eu", "arena"), desk, placed())
        assert (placement.id, placement.info) == ("p1", placed())
        yield session, placement


@in_virtual_time
async def test_who_waits_hears_when_it_is_done() -> None:
    desk = Desk()
    async with pending(desk) as (_, placement):
        done = asyncio.create_task(placement.done())
        desk.notice("placement", "p1", placed(reason="no node is free"))
        await asyncio.sleep(0.1)
        assert not done.done()
        assert placement.info.reason == "no node is free"

        desk.notice("placement", "p1", FULFILLED)

        assert await done == FULFILLED
        assert placement.info == FULFILLED
        assert await placement.done() == FULFILLED


@in_virtual_time
async def test_a_notice_in_the_same_payload_as_the_answer_counts() -> None:
    desk = Desk()
    async with visit(desk) as session:
        placing = asyncio.ensure_future(session.place("eu", "arena"))
        asked = await desk.asked("start_placement", queue="eu", kind="arena")
        asked.link.say(notice("placement", "p1", placed()), asked.reply(placed()), notice("placement", "p1", FULFILLED))

        assert await (await placing).done() == FULFILLED


@in_virtual_time
async def test_one_that_is_over_at_once_needs_no_update() -> None:
    desk = Desk()
    async with visit(desk) as session:
        placement = await answered(session.place("eu", "arena", id="p1"), desk, FULFILLED)

        assert await placement.done() == FULFILLED
        await until_back(session, desk)
        assert await desk.is_asked_nothing()


@pytest.mark.parametrize("then", ["resumed", "reset"])
def test_after_a_drop_it_is_asked_for(then: str) -> None:
    @in_virtual_time
    async def story() -> None:
        desk = Desk(then, "s1" if then == "resumed" else "s2")
        async with pending(desk) as (session, placement):
            done = asyncio.create_task(placement.done())

            await until_back(session, desk)
            (await desk.asked("get_placement", placement="p1")).answer(FULFILLED)

            assert await done == FULFILLED
            await until_back(session, desk)
            assert await desk.is_asked_nothing()

    story()


@in_virtual_time
async def test_also_if_nobody_waits_its_state_is_asked_for_after_a_drop() -> None:
    desk = Desk()
    async with pending(desk) as (session, placement):
        await until_back(session, desk)
        (await desk.asked("get_placement", placement="p1")).answer(placed("timed_out"))

        assert placement.info == placed("timed_out")


@in_virtual_time
async def test_one_that_the_server_has_forgotten_is_told_as_that() -> None:
    desk = Desk()
    async with pending(desk) as (session, placement):
        done = asyncio.create_task(placement.done())

        await until_back(session, desk)
        (await desk.asked("get_placement", placement="p1")).refuse("not_found")

        with pytest.raises(NotFound):
            await done


@in_virtual_time
async def test_one_that_is_pending_can_be_stopped() -> None:
    desk = Desk()
    async with pending(desk) as (_, placement):
        done = asyncio.create_task(placement.done())

        stopping = asyncio.create_task(placement.stop())
        asked = await desk.asked("stop_placement", placement="p1")
        asked.link.say(notice("placement", "p1", placed("cancelled")), asked.reply(placed("cancelled")))

        assert await stopping == await done == placed("cancelled")


@in_virtual_time
async def test_one_that_is_over_cannot_be_stopped() -> None:
    desk = Desk()
    async with pending(desk) as (_, placement):
        stopping = asyncio.create_task(placement.stop())
        asked = await desk.asked("stop_placement", placement="p1")
        desk.notice("placement", "p1", FULFILLED)
        asked.refuse("conflict")

        with pytest.raises(Conflict):
            await stopping
        assert placement.info == FULFILLED


@in_virtual_time
async def test_what_is_over_stays_so_whatever_comes_late() -> None:
    desk = Desk()
    async with pending(desk) as (_, placement):
        stopping = asyncio.create_task(placement.stop())
        asked = await desk.asked("stop_placement", placement="p1")

        asked.link.say(notice("placement", "p1", FULFILLED), asked.reply(placed()))

        assert await stopping == FULFILLED


@in_virtual_time
async def test_whoever_waits_hears_that_the_session_ended() -> None:
    desk = Desk()
    async with pending(desk) as (_, placement):
        done = asyncio.create_task(placement.done())
        await asyncio.sleep(0.1)

    with pytest.raises(SessionEnded):
        await done


@in_virtual_time
async def test_an_answer_that_makes_no_sense_is_the_servers_fault() -> None:
    desk = Desk()
    async with visit(desk) as session:
        with pytest.raises(ProtocolError, match="'start_placement'"):
            await answered(session.place("eu", "arena"), desk, {"id": "p1"})
