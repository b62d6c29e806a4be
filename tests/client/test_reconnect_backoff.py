"""When a client comes back, in virtual time: how long it waits between its dials, and when it gives up."""

import asyncio

from holdfast import Outcome, SessionEnded
from holdfast.core.reasons import Reason
from tests.client.fake_server import (
    CUT,
    REFUSED,
    WRONG,
    Chance,
    FakeServer,
    Step,
    close,
    connect,
    end_of,
    in_virtual_time,
    pings,
    welcome,
)


@in_virtual_time
async def test_the_waits_double_up_to_a_ceiling_and_begin_small_after_a_good_connection() -> None:
    good: list[Step] = [welcome(outcome="resumed"), 5.0, CUT]
    server = FakeServer([welcome(), 5.0, CUT], *[REFUSED] * 8, good, [welcome(outcome="resumed")])

    session = await connect(server)
    await asyncio.sleep(50.0)

    halves = [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 7.5, 7.5, 7.5]
    assert server.waits_s == [5.0 + halves[0], *halves[1:], 5.0 + halves[0]]
    assert session.drops == 2
    await session.close()


@in_virtual_time
async def test_a_link_that_breaks_right_after_its_welcome_is_tried_again_with_a_little_more_patience() -> None:
    server = FakeServer([welcome(), close(Reason.INTERNAL)])

    session = await connect(server)
    await asyncio.sleep(60.0)

    assert server.waits_s[:7] == [0.125, 0.25, 0.5, 0.5, 0.5, 0.5, 0.5]
    await session.close()


@in_virtual_time
async def test_a_time_to_come_back_is_obeyed_with_jitter_on_top() -> None:
    server = FakeServer([welcome(), close(Reason.STOPPING, retry_after_s=2.0)], [welcome(outcome="resumed")])

    session = await connect(server)
    await asyncio.sleep(10.0)

    assert server.waits_s == [2.125]
    assert session.outcome == Outcome("resumed")
    await session.close()


@in_virtual_time
async def test_a_server_that_stays_away_is_given_up_and_everybody_is_told() -> None:
    server = FakeServer([welcome(), 1.0, CUT], REFUSED)
    session = await connect(server, give_up_s=30.0)
    asked = [asyncio.create_task(session.search()) for _ in range(3)]

    ends = await asyncio.gather(*asked, return_exceptions=True)

    assert [(type(end), getattr(end, "reason", "")) for end in ends] == [(SessionEnded, "unreachable")] * 3
    assert "nobody listens there" in str(ends[0])
    assert 15.0 < asyncio.get_running_loop().time() <= 31.0
    await session.close()


@in_virtual_time
async def test_the_time_to_give_up_is_counted_from_each_loss() -> None:
    server = FakeServer([welcome(), *pings(5.0, 12), CUT], [welcome(outcome="resumed"), *pings(5.0, 12)])

    session = await connect(server, give_up_s=10.0)
    await asyncio.sleep(70.0)

    assert session.outcome == Outcome("resumed")
    await session.close()


@in_virtual_time
async def test_a_session_that_gives_up_at_once_never_dials_again() -> None:
    server = FakeServer([welcome(), CUT], [welcome()])
    session = await connect(server, give_up_s=0.0, random=Chance(0.0))

    error = await end_of(session)

    assert error.reason == "unreachable"
    assert len(server.dialled_at) == 1


@in_virtual_time
async def test_a_time_to_come_back_that_is_too_late_is_not_waited_for() -> None:
    server = FakeServer([welcome(), close(Reason.STOPPING, retry_after_s=1000.0)], [welcome()])
    session = await connect(server, give_up_s=60.0)

    await end_of(session)

    assert asyncio.get_running_loop().time() < 1.0
    assert len(server.dialled_at) == 1


@in_virtual_time
async def test_an_address_that_has_become_wrong_ends_the_session() -> None:
    server = FakeServer([welcome(), CUT], WRONG)
    session = await connect(server)

    error = await end_of(session)

    assert "nobody there speaks our dialect" in str(error)
    assert len(server.dialled_at) == 2
