"""How a session is left, and what it tells while it comes back, in virtual time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec import structs

from holdfast import ClientSession, Drop, Outcome, SessionEnded
from holdfast.client.journal import replayed
from holdfast.core.backoff import FIRST_S
from holdfast.core.reasons import Reason
from holdfast.schemas.frames import Bye, Hello
from holdfast.testing import MemoryStorage, run
from tests.client.fake_server import CUT, REFUSED, FakeServer, close, connect, in_virtual_time, others, welcome
from tests.saved_sessions import storage_of, suspended

# Leaving


async def _closed(session: ClientSession) -> None:
    await session.close()


async def _suspended(session: ClientSession) -> None:
    await session.suspend()


@in_virtual_time
async def test_a_session_that_was_closed_does_not_tell_of_another_attempt() -> None:
    server = FakeServer([welcome()])
    session = await connect(server)
    told: list[Any] = []
    session.on_reconnecting(told.append)
    session.on_close(lambda error: told.append(error.reason))
    server.links[0].is_deaf = True

    closing = asyncio.create_task(session.close())
    await asyncio.sleep(1.0)
    server.links[0].lose()
    await closing

    assert told == ["bye"]


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
    closed, left = await connect(server), await connect(server)

    await closed.close()
    await left.suspend()

    assert [type(frame) for frame in server.links[0].heard] == [Hello, Bye]
    assert [type(frame) for frame in server.links[1].heard] == [Hello]


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


# Listeners


@in_virtual_time
async def test_a_listener_that_fails_is_logged_and_harms_neither_the_session_nor_the_next_listener(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    told: list[Any] = []
    server = FakeServer([welcome(), 1.0, CUT], [welcome(outcome="resumed")])
    session = await connect(server)
    session.on_drop(fail)
    session.on_drop(told.append)
    session.on_resume(fail)

    with caplog.at_level(logging.ERROR):
        await asyncio.sleep(5.0)

    assert session.connected
    assert caplog.text.count("a listener failed") == 2
    assert len(told) == 1
    await session.close()


@in_virtual_time
async def test_listeners_that_connect_is_given_hear_of_the_first_connection() -> None:
    first = await connect(FakeServer([welcome()]))
    state = await suspended(first)
    told: list[Any] = []
    server = FakeServer(REFUSED, [welcome(outcome="resumed")])
    connecting = connect(
        server,
        saved=storage_of(state),
        on_resume=told.append,
        on_reconnecting=told.append,
        on_drop=told.append,
        on_close=told.append,
    )

    async with connecting as session:
        assert session is connecting.session
        assert told == [Drop("dropped", str(REFUSED), 1, FIRST_S / 2), Outcome("resumed")]

    assert [str(each) for each in told[2:]] == ["the session ended: closed by this client"]


@in_virtual_time
async def test_a_drop_says_why_and_when_which_attempt_follows_and_so_does_every_attempt() -> None:
    server = FakeServer([welcome(), 5.0, close(Reason.BUSY)], [CUT], [welcome(outcome="resumed")])
    session = await connect(server)
    drops: list[Drop] = []
    attempts: list[tuple[float, Drop]] = []
    session.on_drop(drops.append)
    session.on_reconnecting(lambda drop: attempts.append((asyncio.get_running_loop().time(), drop)))

    await asyncio.sleep(20.0)

    assert [(drop.reason, drop.message, drop.attempt) for drop in drops] == [("busy", "because of busy", 1)]
    assert [(drop.reason, drop.attempt) for _, drop in attempts] == [("busy", 1), ("dropped", 2)]
    assert attempts[0][1] == drops[0]
    assert [at + drop.wait_s for at, drop in attempts] == pytest.approx(server.dialled_at[1:])
    await session.close()


@in_virtual_time
async def test_an_event_has_as_many_listeners_as_are_added_and_not_removed() -> None:
    server = FakeServer([welcome(), 5.0, CUT], [welcome(outcome="resumed"), 5.0, CUT], [welcome(outcome="resumed")])
    session = await connect(server)
    told: list[str] = []

    @session.on_drop
    def first(drop: Drop) -> None:
        told.append("first")

    @session.on_drop
    def second(drop: Drop) -> None:
        told.append("second")
        session.on_drop.remove(first)

    await asyncio.sleep(20.0)

    assert told == ["first", "second", "second"]
    with pytest.raises(AttributeError, match=r"several listeners: call it, as in session\.on_drop\("):
        session.on_drop = first  # type: ignore[assignment, unused-ignore]
    with pytest.raises(TypeError, match="a listener is a function"):
        session.on_drop(None)  # type: ignore[arg-type]
    await session.close()


def test_an_option_that_is_no_event_is_refused() -> None:
    with pytest.raises(TypeError, match="connect has no option 'on_drops'"):
        connect(FakeServer([welcome()]), on_drops=print)


@in_virtual_time
async def test_the_new_token_is_stored_before_anything_tells_the_server_that_it_came() -> None:
    server = FakeServer([welcome(), 1.0, CUT], [structs.replace(welcome(outcome="resumed"), token="t2"), 1.0])
    storage = MemoryStorage()
    session = await connect(server, saved=storage)

    await asyncio.sleep(5.0)

    state = replayed(storage.written)
    assert state is not None
    assert state.token == "t2"
    await session.close()
