"""Searches that go on: what the reader is told, and that a drop, a reset and a slow reader cost nothing but time."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from holdfast import ClientSession, Outcome, SessionEnded
from holdfast.client.subscriptions import RoomWatch
from holdfast.core.errors import Expired, Invalid, Refused, Throttled
from holdfast.schemas.room import RoomInfo, RoomsChanged
from tests.client.desk import Desk, notice, page, room, until_back, visit
from tests.client.fake_server import in_virtual_time
from tests.client.script import TERMS


def changes(*changed: RoomInfo, removed: tuple[str, ...] = ()) -> RoomsChanged:
    return RoomsChanged(list(changed), list(removed))


async def watching(session: ClientSession, desk: Desk, *rooms: RoomInfo) -> RoomWatch:
    """A watch that has found these rooms, and told them."""
    task = asyncio.ensure_future(session.watch("arena").__aenter__())
    (await desk.asked("watch", id="w1", kind="arena")).answer(page(*rooms))
    watch = await task
    assert watch.poll() == changes(*rooms)
    return watch


async def in_a_while(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Something that waits."""
    task = asyncio.create_task(work)
    await asyncio.sleep(0.1)
    assert not task.done()
    return task


# A watch


@in_virtual_time
async def test_a_watch_tells_the_page_and_then_what_changes() -> None:
    desk = Desk()
    async with visit(desk) as session:
        opening = asyncio.ensure_future(session.watch("arena", where="players < 4", limit=10).__aenter__())
        asked = await desk.asked("watch", id="w1", kind="arena", where="players < 4", limit=10)
        asked.answer(page(room(1)))
        async with await opening as watch:
            heard = [await anext(watch)]
            waiting = await in_a_while(watch.__anext__())
            desk.notice("rooms", "w1", changes(room(2)))
            heard.append(await waiting)
            desk.notice("rooms", "w1", changes(removed=("room-1",)))
            heard.append(await watch.receive())

            assert heard == [changes(room(1)), changes(room(2)), changes(removed=("room-1",))]
            assert watch.rooms == {"room-2": room(2)}
            assert watch.poll() is None
        await desk.asked("unwatch", id="w1")


@in_virtual_time
async def test_a_notice_in_the_same_payload_as_the_page_comes_after_it() -> None:
    desk = Desk()
    async with visit(desk) as session:
        opening = asyncio.ensure_future(session.watch().__aenter__())
        asked = await desk.asked("watch", id="w1")
        asked.link.say(asked.reply(page(room(1), room(2))), notice("rooms", "w1", changes(removed=("room-1",))))

        assert await (await opening).receive() == changes(room(2))


@in_virtual_time
async def test_two_watches_hear_of_their_own() -> None:
    desk = Desk()
    async with visit(desk) as session:
        first = await watching(session, desk)
        second_opens = asyncio.ensure_future(session.watch("maze").__aenter__())
        (await desk.asked("watch", id="w2", kind="maze")).answer(page())
        second = await second_opens

        desk.notice("rooms", "w2", changes(room(2)))
        desk.notice("rooms", "w1", changes(room(1)))
        desk.notice("rooms", "w9", changes(room(9)))
        desk.notice("weather", "w1", "rain")

        assert (list(first.rooms), list(second.rooms)) == (["room-1"], ["room-2"])
        assert session.connected
        assert desk.link.end is None


@in_virtual_time
async def test_a_slow_reader_is_told_all_at_once() -> None:
    desk = Desk()
    async with visit(desk) as session:
        watch = await watching(session, desk, room(1))
        for players in range(1000):
            desk.notice("rooms", "w1", changes(room(1, players=players), room(2, players=players)))

        assert await watch.receive() == changes(room(1, players=999), room(2, players=999))
        assert watch.poll() is None


# Drops


@in_virtual_time
async def test_after_a_drop_the_difference_is_told() -> None:
    desk = Desk()
    async with visit(desk) as session:
        watch = await watching(session, desk, room(1), room(2))
        reading = await in_a_while(watch.receive())

        assert (await until_back(session, desk)).kind == "resumed"
        (await desk.asked("watch", id="w1", kind="arena")).answer(page(room(2, players=3), room(3)))

        assert await reading == changes(room(2, players=3), room(3), removed=("room-1",))


@in_virtual_time
async def test_a_drop_in_which_nothing_changed_is_not_told() -> None:
    desk = Desk()
    async with visit(desk) as session:
        watch = await watching(session, desk, room(1))
        reading = await in_a_while(watch.receive())

        await until_back(session, desk)
        (await desk.asked("watch", id="w1", kind="arena")).answer(page(room(1)))
        await asyncio.sleep(0.1)

        assert not reading.done()
        desk.notice("rooms", "w1", changes(room(2)))
        assert await reading == changes(room(2))


@in_virtual_time
async def test_a_watch_survives_a_session_that_is_reset() -> None:
    desk = Desk("reset", "s2")
    async with visit(desk) as session:
        watch = await watching(session, desk, room(1))

        assert await until_back(session, desk) == Outcome("reset")
        (await desk.asked("watch", id="w1", kind="arena")).answer(page(room(2)))

        assert await watch.receive() == changes(room(2), removed=("room-1",))


@pytest.mark.parametrize("then", ["resumed", "reset"])
def test_a_watch_whose_first_answer_was_lost_is_opened_all_the_same(then: str) -> None:
    @in_virtual_time
    async def story() -> None:
        desk = Desk(then, "s1" if then == "resumed" else "s2")
        async with visit(desk) as session:
            opening = asyncio.ensure_future(session.watch("arena").__aenter__())
            await desk.asked("watch", id="w1", kind="arena")
            await until_back(session, desk)
            for number in range(2 if then == "resumed" else 1):
                (await desk.asked("watch", id="w1", kind="arena")).answer(page(room(number)))
            await asyncio.sleep(0.1)

            assert await (await opening).receive() == changes(room(1 if then == "resumed" else 0))

    story()


@in_virtual_time
async def test_drops_without_an_answer_in_between_do_not_pile_up_questions() -> None:
    desk = Desk()
    async with visit(desk) as session:
        watch = await watching(session, desk, room(1))
        for _ in range(50):
            await until_back(session, desk)
        heard = [frame for frame in desk.link.heard if frame.name == "request"]
        unanswered = len(heard)
        while not await desk.is_asked_nothing():
            asked = await desk.next_asked()
            if asked.link is desk.link:
                asked.answer(page(room(2)))

        assert unanswered <= TERMS.requests_in_flight_max
        assert watch.poll() == changes(room(2), removed=("room-1",))
        questions = [frame for frame in desk.link.heard if frame.name == "request"]
        assert len(questions) <= TERMS.requests_in_flight_max + 1


# Ends


@in_virtual_time
async def test_a_closed_watch_asks_for_nothing_more() -> None:
    desk = Desk()
    async with visit(desk) as session:
        watch = await watching(session, desk, room(1))
        reading = await in_a_while(collected(watch))

        await watch.close()
        (await desk.asked("unwatch", id="w1")).refuse("not_found")
        desk.notice("rooms", "w1", changes(room(2)))
        await watch.close()
        await until_back(session, desk)

        assert await reading == []
        assert await desk.is_asked_nothing()
        assert watch.rooms == {"room-1": room(1)}
        with pytest.raises(Expired, match="closed"):
            await watch.receive()
        with pytest.raises(Expired, match="closed"):
            watch.poll()


async def collected(watch: RoomWatch) -> list[RoomsChanged]:
    return [news async for news in watch]


@in_virtual_time
async def test_closing_waits_for_no_connection() -> None:
    desk = Desk()
    async with visit(desk) as session:
        watch = await watching(session, desk)
        desk.link.lose()
        await asyncio.sleep(0)
        await watch.close()

        await desk.asked("unwatch", id="w1")
        assert len(desk.links) == 2


@in_virtual_time
async def test_the_end_of_a_watch_is_told_as_soon_as_the_server_takes_another_request() -> None:
    desk = Desk()
    async with visit(desk) as session:
        watch = await watching(session, desk)
        creating = [asyncio.ensure_future(session.create("arena")) for _ in range(TERMS.requests_in_flight_max)]
        asked = [await desk.asked("create", kind="arena") for _ in creating]
        await watch.close()
        assert await desk.is_asked_nothing()

        for each in asked:
            each.answer(room(1))

        await desk.asked("unwatch", id="w1")
        assert await asyncio.gather(*creating) == [room(1)] * len(creating)


@in_virtual_time
async def test_a_watch_that_is_refused_is_none() -> None:
    desk = Desk()
    async with visit(desk) as session:
        opening = asyncio.ensure_future(session.watch(where="players >").__aenter__())
        (await desk.asked("watch", id="w1", where="players >")).refuse("invalid")

        with pytest.raises(Invalid):
            await opening
        await until_back(session, desk)
        assert await desk.is_asked_nothing()


@in_virtual_time
async def test_a_watch_that_is_refused_after_a_drop_tells_its_reader() -> None:
    desk = Desk()
    async with visit(desk) as session:
        watch = await watching(session, desk, room(1))
        reading = await in_a_while(collected(watch))

        await until_back(session, desk)
        (await desk.asked("watch", id="w1", kind="arena")).refuse("throttled")

        with pytest.raises(Throttled):
            await reading
        with pytest.raises(Throttled):
            watch.poll()


@in_virtual_time
async def test_giving_up_to_open_a_watch_ends_it() -> None:
    desk = Desk()
    async with visit(desk) as session:
        opening = asyncio.ensure_future(session.watch("arena").__aenter__())
        asked = await desk.asked("watch", id="w1", kind="arena")
        opening.cancel()
        await asyncio.wait([opening])
        await desk.asked("unwatch", id="w1")
        asked.answer(page(room(1)))
        await until_back(session, desk)

        # Nobody answered it before the drop.
        await desk.asked("unwatch", id="w1")
        assert await desk.is_asked_nothing()


@in_virtual_time
async def test_whoever_reads_hears_that_the_session_ended() -> None:
    desk = Desk()
    async with visit(desk) as session:
        watch = await watching(session, desk)
        reading = await in_a_while(watch.receive())

    with pytest.raises(SessionEnded):
        await reading
    with pytest.raises(SessionEnded):
        watch.poll()
    with pytest.raises(SessionEnded):
        await session.watch()
    await watch.close()


@in_virtual_time
async def test_a_watch_is_opened_before_it_is_read() -> None:
    desk = Desk()
    async with visit(desk) as session:
        with pytest.raises(RuntimeError, match="open the watch first"):
            await anext(session.watch("arena"))


@in_virtual_time
async def test_a_notice_that_makes_no_sense_ends_the_session() -> None:
    desk = Desk()
    async with visit(desk) as session:
        watch = await watching(session, desk)

        desk.notice("rooms", "w1", {"changed": 1})

        with pytest.raises(SessionEnded, match="notice of rooms is invalid"):
            await watch.receive()


@in_virtual_time
async def test_a_watch_waits_until_the_server_takes_another_request() -> None:
    desk = Desk()
    async with visit(desk) as session:
        creating = [asyncio.ensure_future(session.create("arena")) for _ in range(TERMS.requests_in_flight_max)]
        asked = [await desk.asked("create", kind="arena") for _ in creating]
        opening = asyncio.ensure_future(session.watch("arena").__aenter__())
        assert await desk.is_asked_nothing()

        asked[0].refuse("throttled")
        (await desk.asked("watch", id="w1", kind="arena")).answer(page())

        assert (await opening).poll() == changes()
        for each in asked[1:]:
            each.refuse("throttled")
        assert all(isinstance(each, Refused) for each in await asyncio.gather(*creating, return_exceptions=True))
