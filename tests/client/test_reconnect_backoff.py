"""When a client comes back, in virtual time: how long it waits between its dials, and when it gives up."""

import asyncio

import pytest

import holdfast
from holdfast import Invalid, Outcome, SessionEnded
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
    server = FakeServer([welcome(), 5.0, CUT], *[REFUSED] * 6, good, [welcome(outcome="resumed")])

    session = await connect(server)
    await asyncio.sleep(20.0)

    halves = [0.05, 0.1, 0.2, 0.4, 0.5, 0.5, 0.5]
    assert server.waits_s == pytest.approx([5.0 + halves[0], *halves[1:], 5.0 + halves[0]])
    assert session.drops == 2
    await session.close()


@in_virtual_time
async def test_a_link_that_breaks_right_after_its_welcome_is_tried_again_with_a_little_more_patience() -> None:
    server = FakeServer([welcome(), close(Reason.INTERNAL)])

    session = await connect(server)
    await asyncio.sleep(60.0)

    assert server.waits_s[:7] == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.4, 0.4, 0.4])
    await session.close()


@in_virtual_time
async def test_a_server_that_restarts_within_half_a_minute_is_found_within_a_second() -> None:
    server = FakeServer([welcome(), CUT], REFUSED)
    session = await connect(server, random=Chance(0.999), give_up_s=3600.0)

    await asyncio.sleep(29.0)

    assert max(server.waits_s) <= 1.0
    await session.close()


@in_virtual_time
async def test_a_server_that_stays_away_is_dialled_less_and_less_often() -> None:
    server = FakeServer([welcome(), CUT], REFUSED)
    session = await connect(server, give_up_s=36_000.0)

    await asyncio.sleep(3600.0)

    assert server.waits_s[-1] == pytest.approx(7.5)
    assert len(server.dialled_at) < 700
    await session.close()


@in_virtual_time
async def test_how_often_to_try_is_a_setting() -> None:
    server = FakeServer([welcome(), CUT], REFUSED)
    session = await connect(server, retry_first_s=0.25, retry_longest_s=15.0)

    await asyncio.sleep(29.0)

    assert server.waits_s[:8] == pytest.approx([0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 7.5, 7.5])
    await session.close()


@pytest.mark.parametrize(("first_s", "longest_s"), [(0.0, 1.0), (0.1, 0.05)])
def test_settings_that_make_no_sense_are_refused(first_s: float, longest_s: float) -> None:
    with pytest.raises(Invalid, match="retry_longest_s"):
        holdfast.connect("ws://127.0.0.1:7777", retry_first_s=first_s, retry_longest_s=longest_s)


@in_virtual_time
async def test_a_time_to_come_back_is_obeyed_with_jitter_on_top() -> None:
    server = FakeServer([welcome(), close(Reason.STOPPING, retry_after_s=2.0)], [welcome(outcome="resumed")])

    session = await connect(server)
    await asyncio.sleep(10.0)

    assert server.waits_s == pytest.approx([2.05])
    assert session.outcome == Outcome("resumed")
    await session.close()


@in_virtual_time
async def test_a_server_that_stays_away_is_given_up_and_everybody_is_told() -> None:
    server = FakeServer([welcome(), 1.0, CUT], REFUSED)
    session = await connect(server, give_up_s=30.0)
    asked = [asyncio.create_task(session.search()) for _ in range(3)]

    ends = await asyncio.gather(*asked, return_exceptions=True)

    assert [(type(end), getattr(end, "reason", "")) for end in ends] == [(SessionEnded, "unreachable")] * 3
    assert "nothing listens there" in str(ends[0])
    assert 15.0 < asyncio.get_running_loop().time() <= 31.0
    await session.close()


@in_virtual_time
async def test_a_server_that_no_longer_has_the_session_is_not_waited_for_for_ever() -> None:
    server = FakeServer([welcome(), 5.0, CUT], [close(Reason.MOVED)])
    session = await connect(server, give_up_s=30.0)

    end = await end_of(session)

    assert end.reason == "unreachable"
    assert asyncio.get_running_loop().time() < 60.0


@in_virtual_time
async def test_the_time_to_give_up_is_counted_from_each_loss() -> None:
    server = FakeServer([welcome(), *pings(5.0, 12), CUT], [welcome(outcome="resumed"), *pings(5.0, 12)])

    session = await connect(server, give_up_s=10.0)
    await asyncio.sleep(70.0)

    assert session.outcome == Outcome("resumed")
    await session.close()


@in_virtual_time
async def test_a_session_is_not_given_up_while_the_server_is_reached_welcome_or_not() -> None:
    reached: list[Step] = [0.5, CUT]
    server = FakeServer([welcome(), 5.0, CUT], *[reached] * 40, [welcome(outcome="resumed")])

    session = await connect(server, give_up_s=20.0)
    while session.outcome != Outcome("resumed"):  # noqa: ASYNC110 - costs nothing in virtual time
        await asyncio.sleep(1.0)

    assert len(server.dialled_at) == 42
    await session.close()


@in_virtual_time
async def test_a_first_sign_in_is_given_up_in_time_though_the_server_is_reached() -> None:
    server = FakeServer([0.5, CUT])

    with pytest.raises(SessionEnded, match="within 20 s"):
        await connect(server, give_up_s=20.0)

    assert 10.0 < asyncio.get_running_loop().time() <= 20.5


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

    assert "nobody there speaks our codec" in str(error)
    assert len(server.dialled_at) == 2
