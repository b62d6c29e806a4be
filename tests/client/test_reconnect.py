"""How a client comes back, in virtual time: when it dials, what it says, and when it stops."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec import Raw, structs

import holdfast
from holdfast import ClientSession, Limits, Outcome, SessionEnded
from holdfast.core.codec import MSGPACK
from holdfast.core.frames import Ack, Auth, Bye, ChannelInfo, Data, Hello, Pong, Seat
from holdfast.core.reasons import Reason
from holdfast.testing import run
from holdfast.transports.port import Dialect, DialError, Receiver, Transport, TransportLimits
from tests.client.fake_server import (
    CUT,
    KNOWN_GUEST,
    REFUSED,
    URL,
    WRONG,
    Chance,
    FakeLink,
    FakeServer,
    Step,
    close,
    in_virtual_time,
    pings,
    welcome,
)
from tests.client.script import info


def connect(server: FakeServer, **options: Any) -> holdfast.connect:
    return holdfast.connect(URL, dial=server.dial, **{"random": Chance(0.5), **options})


async def end_of(session: ClientSession) -> SessionEnded:
    """Wait until the session is over; as whoever asks for something would hear it."""
    with pytest.raises(SessionEnded) as error:
        await session.search()
    return error.value


def raw(content: Any) -> Raw:
    return Raw(MSGPACK.encode(content))


def others() -> set[asyncio.Task[Any]]:
    current = asyncio.current_task()
    return {task for task in asyncio.all_tasks() if task is not current}


# Opening


@in_virtual_time
async def test_an_address_where_nobody_answers_is_an_error_at_once() -> None:
    server = FakeServer(REFUSED)

    with pytest.raises(DialError, match="nobody listens"):
        await connect(server)

    assert server.dialled_at == [0.0]
    assert others() == set()


@in_virtual_time
async def test_a_busy_server_is_asked_again_when_it_said_so() -> None:
    server = FakeServer([close(Reason.BUSY, retry_after_s=3.0)], [welcome()])

    session = await connect(server)

    assert session.connected
    assert server.waits_s == [3.125]
    await session.close()


@in_virtual_time
async def test_a_connection_that_is_lost_before_the_welcome_is_made_again() -> None:
    server = FakeServer([CUT], REFUSED, [welcome()])

    session = await connect(server)

    assert session.outcome == Outcome("new")
    assert session.drops == 0
    await session.close()


@in_virtual_time
async def test_a_server_that_stays_busy_is_given_up() -> None:
    server = FakeServer([close(Reason.BUSY, retry_after_s=4.0)])

    with pytest.raises(SessionEnded, match="within 10 s: because of busy") as error:
        await connect(server, give_up_s=10.0)

    assert error.value.reason == "unreachable"
    assert len(server.dialled_at) == 3
    assert others() == set()


@in_virtual_time
async def test_who_is_not_let_in_is_told_why() -> None:
    server = FakeServer([close(Reason.AUTH_FAILED)])

    with pytest.raises(SessionEnded, match="because of auth_failed") as error:
        await connect(server, auth=Auth("password", "wrong"))

    assert error.value.reason == Reason.AUTH_FAILED
    assert len(server.dialled_at) == 1


@in_virtual_time
async def test_a_server_that_does_not_answer_a_hello_is_left_after_a_while() -> None:
    server = FakeServer([], [welcome()])

    session = await connect(server, limits=Limits(silence_s=9.0))

    assert server.waits_s == [9.125]
    await session.close()


@pytest.mark.parametrize("script", [[], [close(Reason.BUSY, retry_after_s=60.0)]], ids=["no welcome", "waiting"])
def test_giving_up_to_open_leaves_nothing_behind(script: list[Any]) -> None:
    async def story() -> None:
        server = FakeServer(script)

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0), connect(server):
                raise AssertionError

        assert asyncio.get_running_loop().time() == 1.0
        assert others() == set()
        assert server.links[0].end is not None

    run(story())


@in_virtual_time
async def test_giving_up_to_dial_leaves_nothing_behind() -> None:
    async def dial(receiver: Receiver, url: str, dialect: Dialect, limits: TransportLimits) -> Transport:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0), holdfast.connect(URL, dial=dial):
            raise AssertionError

    assert others() == set()


@in_virtual_time
async def test_a_failure_of_the_client_itself_is_told_and_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async def dial(receiver: Receiver, url: str, dialect: Dialect, limits: TransportLimits) -> Transport:
        raise ZeroDivisionError

    with pytest.raises(SessionEnded) as error:
        await holdfast.connect(URL, dial=dial)

    assert error.value.reason == Reason.INTERNAL
    assert "ZeroDivisionError" in caplog.text


@in_virtual_time
async def test_a_session_is_opened_once() -> None:
    connecting = connect(FakeServer([welcome()]))
    async with connecting:
        pass

    with pytest.raises(RuntimeError, match="opened before"):
        await connecting


# When to come back


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


# What the server wants


@pytest.mark.parametrize(
    "reason",
    [Reason.KICKED, Reason.SUPERSEDED, Reason.PROTOCOL, Reason.TOO_BIG, Reason.BYE],
)
def test_a_client_that_is_told_to_stop_stops(reason: Reason) -> None:
    async def story() -> None:
        server = FakeServer([welcome(), 1.0, close(reason)])
        told: list[str] = []
        session = await connect(server)
        session.on_drop = lambda: told.append("drop")

        error = await end_of(session)
        await asyncio.sleep(1000.0)

        assert error.reason == reason
        assert f"because of {reason.value}" in str(error)
        assert len(server.dialled_at) == 1
        assert (told, session.drops) == ([], 0)

    run(story())


@pytest.mark.parametrize(
    "reason",
    [Reason.DROPPED, Reason.SEQUENCE, Reason.BUSY, Reason.SLOW, Reason.SILENT, Reason.INTERNAL, Reason.DISCONNECTED],
)
def test_a_client_that_is_told_to_resume_resumes(reason: Reason) -> None:
    async def story() -> None:
        server = FakeServer([welcome(), 1.0, close(reason)], [welcome(outcome="resumed")])
        told: list[Any] = []
        session = await connect(server)
        session.on_drop = lambda: told.append("drop")
        session.on_resume = told.append

        await asyncio.sleep(10.0)

        assert told == ["drop", Outcome("resumed")]
        hello = server.links[1].hello
        assert hello.resume is not None
        assert (hello.resume.session, hello.auth) == ("s1", KNOWN_GUEST)
        await session.close()

    run(story())


@pytest.mark.parametrize("reason", [Reason.EXPIRED, Reason.TOKEN_REUSED])
def test_a_client_that_is_told_to_sign_in_again_becomes_the_same_player(reason: Reason) -> None:
    async def story() -> None:
        server = FakeServer([welcome(), 1.0, close(reason)], [welcome("s2")])
        told: list[Any] = []
        session = await connect(server)
        session.on_resume = told.append
        asked = asyncio.create_task(session.search())

        await asyncio.sleep(10.0)

        hello = server.links[1].hello
        assert (hello.auth, hello.resume) == (KNOWN_GUEST, None)
        assert told == [Outcome("reset", reason=reason.value)]
        assert session.id == "s2"
        with pytest.raises(holdfast.Refused, match="ask again"):
            await asked
        await session.close()

    run(story())


@in_virtual_time
async def test_a_client_that_cannot_sign_in_again_stops() -> None:
    server = FakeServer([welcome(), 1.0, close(Reason.EXPIRED)], [close(Reason.AUTH_FAILED)])
    session = await connect(server)

    error = await end_of(session)

    assert error.reason == Reason.AUTH_FAILED
    assert len(server.dialled_at) == 2


# A server that is silent or broken


@in_virtual_time
async def test_a_silent_server_is_dropped_and_a_pinging_one_is_not() -> None:
    server = FakeServer([welcome(), *pings(15.0, 4)], [welcome(outcome="resumed"), *pings(5.0, 100)])

    session = await connect(server)
    await asyncio.sleep(200.0)

    assert server.waits_s == [60.0 + 16.0 + 0.125]
    pongs = [frame.id for frame in server.links[0].heard if isinstance(frame, Pong)]
    assert pongs == [1, 2, 3, 4]
    await session.close()


@in_virtual_time
async def test_a_server_that_breaks_the_protocol_ends_the_session() -> None:
    server = FakeServer([welcome(), 1.0, Data(7, 1, 0, "hit", raw(1))])
    session = await connect(server)

    error = await end_of(session)

    assert error.reason == Reason.PROTOCOL
    assert "never opened" in str(error)
    assert len(server.dialled_at) == 1


@in_virtual_time
async def test_a_body_that_cannot_be_read_ends_the_session() -> None:
    broken = Data(1, 1, 0, "holdfast.left", raw("no struct"))
    server = FakeServer([welcome(), Seat("joined", 1, 1, "r", "arena"), 1.0, broken])
    session = await connect(server)

    error = await end_of(session)

    assert "cannot be read" in str(error)


@in_virtual_time
async def test_a_gap_in_the_stream_makes_the_client_resume_and_costs_no_message() -> None:
    first = [Data(1, seq, 0, "hit", raw(seq)) for seq in (1, 3)]
    again = [Data(1, seq, 0, "hit", raw(seq)) for seq in (1, 2, 3)]
    seat = Seat("joined", 1, 1, "r", "arena")
    back = structs.replace(welcome(outcome="resumed"), channels=[info(0)])
    server = FakeServer([welcome(), seat, 1.0, *first], [back, *again])
    session = await connect(server)
    await asyncio.sleep(10.0)

    room = session.room
    assert room is not None
    heard = room.poll()

    assert [message.body for message in heard if isinstance(message, holdfast.Untyped)] == [1, 2, 3]
    assert session.drops == 1
    await session.close()


@in_virtual_time
async def test_a_server_that_says_goodbye_and_stays_is_left() -> None:
    server = FakeServer([welcome(), 1.0, close(Reason.STOPPING)], [welcome(outcome="resumed")])

    session = await connect(server)
    await asyncio.sleep(3.0)

    assert session.connected
    assert len(server.links) == 2
    await session.close()


# Leaving


async def _closed(session: ClientSession) -> None:
    await session.close()


async def _suspended(session: ClientSession) -> None:
    await session.suspend()


@pytest.mark.parametrize("leave", [_closed, _suspended])
@pytest.mark.parametrize(
    "script", [REFUSED, [], [close(Reason.BUSY, retry_after_s=60.0)]], ids=["dialling", "not welcome", "waiting"]
)
def test_a_session_without_a_connection_can_be_left_at_once(
    leave: Callable[[ClientSession], Awaitable[None]], script: Any
) -> None:
    async def story() -> None:
        server = FakeServer([welcome(), CUT], script)
        session = await connect(server)
        await asyncio.sleep(3.0)

        left_at = asyncio.get_running_loop().time()
        await leave(session)

        assert asyncio.get_running_loop().time() == left_at
        assert others() == set()
        dialled = len(server.dialled_at)
        await asyncio.sleep(100.0)
        assert len(server.dialled_at) == dialled

    run(story())


@in_virtual_time
async def test_a_closed_session_says_bye_and_a_suspended_one_does_not() -> None:
    server = FakeServer([welcome()])
    closed, suspended = await connect(server), await connect(server)

    await closed.close()
    state = await suspended.suspend()

    assert [type(frame) for frame in server.links[0].heard] == [Hello, Bye]
    assert [type(frame) for frame in server.links[1].heard] == [Hello]
    assert state


@in_virtual_time
async def test_closing_again_does_nothing_and_closing_at_once_is_closing_once() -> None:
    server = FakeServer([welcome()])
    session = await connect(server)

    await asyncio.gather(session.close(), session.close(), session.close())
    await session.close()

    assert [type(frame) for frame in server.links[0].heard] == [Hello, Bye]
    assert session.drops == 0
    with pytest.raises(SessionEnded, match="closed by this client"):
        await session.suspend()
    with pytest.raises(SessionEnded, match="closed by this client"):
        session.save()


@pytest.mark.parametrize("leave", [_closed, _suspended])
def test_leaving_can_be_given_up_and_still_leaves(leave: Callable[[ClientSession], Awaitable[None]]) -> None:
    async def story() -> None:
        server = FakeServer([welcome()])
        session = await connect(server)
        server.links[0].is_deaf = True

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await leave(session)

        assert others() == set()
        assert server.links[0].end is not None
        await asyncio.sleep(100.0)
        assert len(server.dialled_at) == 1

    run(story())


@in_virtual_time
async def test_an_exception_in_the_block_closes_the_session_and_comes_through() -> None:
    server = FakeServer([welcome()])

    with pytest.raises(ZeroDivisionError):
        async with connect(server):
            raise ZeroDivisionError

    assert [type(frame) for frame in server.links[0].heard] == [Hello, Bye]
    assert others() == set()


# Callbacks


@in_virtual_time
async def test_a_callback_that_fails_is_logged_and_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    server = FakeServer([welcome(), 1.0, CUT], [welcome(outcome="resumed")])
    session = await connect(server)
    session.on_drop = session.on_resume = fail

    with caplog.at_level(logging.ERROR):
        await asyncio.sleep(5.0)

    assert session.connected
    assert caplog.text.count("a callback of the session failed") == 2
    await session.close()


@in_virtual_time
async def test_callbacks_can_be_set_before_the_session_is_open() -> None:
    first = await connect(FakeServer([welcome()]))
    state = await first.suspend()
    told: list[Outcome] = []
    connecting = connect(FakeServer([welcome(outcome="resumed")]), resume=state)
    connecting.session.on_resume = told.append

    async with connecting as session:
        assert session is connecting.session
        assert told == [Outcome("resumed")]


@in_virtual_time
async def test_what_is_saved_while_the_session_is_told_to_be_back_has_the_new_token() -> None:
    back = welcome(outcome="resumed")
    server = FakeServer([welcome(), 1.0, CUT], [back])
    saved: list[bytes] = []
    session = await connect(server)
    session.on_resume = lambda _: saved.append(session.save())

    await asyncio.sleep(5.0)

    assert saved == [session.save()]
    await session.close()


# Seats


@in_virtual_time
async def test_what_was_processed_is_acknowledged_soon_also_if_nothing_is_sent() -> None:
    seat = Seat("joined", 1, 1, "r", "arena")
    server = FakeServer([welcome(), seat, Data(1, 1, 0, "hit", raw(1))])
    session = await connect(server, limits=Limits(ack_s=0.5))
    room = session.room
    assert room is not None
    await room.receive()
    room.acknowledge()

    await asyncio.sleep(0.4)
    early = list(server.links[0].heard)
    await asyncio.sleep(0.2)

    assert [type(frame) for frame in early] == [Hello]
    assert server.links[0].heard[1:] == [Ack(1, 1)]
    await session.close()


@in_virtual_time
async def test_a_seat_that_was_gone_before_we_heard_of_it_is_seen_out() -> None:
    gone = structs.replace(welcome(outcome="resumed"), channels=[ChannelInfo(1, 1, 0, "", "")])
    last_words = [Data(1, 1, 0, "hit", raw(1)), Data(1, 2, 0, "holdfast.left", raw({"reason": "kicked"}))]
    server = FakeServer([welcome(), CUT], [gone, *last_words])

    session = await connect(server)
    await asyncio.sleep(1.0)

    assert session.room is None
    assert server.links[1].heard[1:] == [Ack(1, 2)]
    await session.close()


@in_virtual_time
async def test_who_leaves_a_room_that_a_newer_seat_has_replaced_asks_for_nothing() -> None:
    seats = [Seat("joined", channel, 1, f"room-{channel}", "arena") for channel in (1, 2)]
    server = FakeServer([welcome(), seats[0], 1.0, seats[1]])
    session = await connect(server)
    older = session.room
    assert older is not None
    await asyncio.sleep(2.0)
    waiting = asyncio.create_task(older.receive())
    await asyncio.sleep(0)

    await older.leave()

    with pytest.raises(holdfast.NotSeated):
        await waiting
    assert asyncio.get_running_loop().time() == 2.0
    assert [type(frame) for frame in server.links[0].heard] == [Hello]
    assert session.room is not None
    assert session.room.id == "room-2"
    await session.close()


# A link that is slow


@in_virtual_time
async def test_unreliable_messages_wait_for_a_slow_link_and_the_newest_goes_out() -> None:
    class Aim(holdfast.Message):
        angle: int

    server = FakeServer([welcome(), Seat("joined", 1, 1, "r", "arena"), *pings(1.0, 1)])
    session = await connect(server)
    await asyncio.sleep(0.5)
    link = server.links[0]
    room = session.room
    assert room is not None
    link.receiver.congested()

    for angle in range(1000):
        room.send_latest(Aim(angle))
        await asyncio.sleep(0)
    assert latest(link) == []
    link.receiver.drained()
    await asyncio.sleep(0.1)

    assert latest(link) == [b"\x81\xa5angle\xcd\x03\xe7"]
    await session.close()


def latest(link: FakeLink) -> list[bytes]:
    return [bytes(frame.body) for frame in link.heard if frame.name == "latest"]  # type: ignore[union-attr] # it is one
