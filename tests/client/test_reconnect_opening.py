"""How a session is opened, in virtual time: what is tried again, and what is an error at once."""

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast import Limits, Outcome, SessionEnded
from holdfast.core.reasons import Reason
from holdfast.schemas.frames import Auth
from holdfast.testing import MemoryStorage, run
from holdfast.transports.port import DialError, Receiver, Subprotocol, Transport, TransportLimits
from tests.client.fake_server import CUT, REFUSED, URL, FakeServer, close, connect, in_virtual_time, others, welcome


@in_virtual_time
async def test_an_address_where_nobody_answers_is_an_error_at_once() -> None:
    server = FakeServer(REFUSED)

    with pytest.raises(DialError, match="nothing listens"):
        await connect(server)

    assert server.dialled_at == [0.0]
    assert others() == set()


@in_virtual_time
async def test_with_a_saved_session_an_address_where_nobody_answers_is_tried_again() -> None:
    storage = MemoryStorage()
    await (await connect(FakeServer([welcome()]), saved=storage)).suspend()
    server = FakeServer(REFUSED, REFUSED, [welcome(outcome="resumed")])

    session = await connect(server, saved=storage)

    assert session.outcome == Outcome("resumed")
    assert len(server.dialled_at) == 3
    await session.suspend()


@in_virtual_time
async def test_with_a_saved_session_an_address_where_nobody_answers_is_given_up_in_time() -> None:
    storage = MemoryStorage()
    await (await connect(FakeServer([welcome()]), saved=storage)).suspend()
    written = storage.written

    with pytest.raises(SessionEnded, match="within 10 s: nothing listens") as error:
        await connect(FakeServer(REFUSED), saved=storage, give_up_s=10.0)

    assert error.value.reason == "unreachable"
    assert storage.written == written
    assert others() == set()


@in_virtual_time
async def test_a_busy_server_is_asked_again_when_it_said_so() -> None:
    server = FakeServer([close(Reason.BUSY, retry_after_s=3.0)], [welcome()])

    session = await connect(server)

    assert session.connected
    assert server.waits_s == [3.05]
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

    assert server.waits_s == [9.05]
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
    async def dial(receiver: Receiver, url: str, subprotocol: Subprotocol, limits: TransportLimits) -> Transport:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0), holdfast.connect(URL, dial=dial):
            raise AssertionError

    assert others() == set()


@in_virtual_time
async def test_a_failure_of_the_client_itself_is_told_and_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async def dial(receiver: Receiver, url: str, subprotocol: Subprotocol, limits: TransportLimits) -> Transport:
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
