"""What a client makes of a server that tells it to go, falls silent or breaks the rules, in virtual time."""

import asyncio
from typing import Any

import pytest
from msgspec import structs

import holdfast
from holdfast import Outcome
from holdfast.core.reasons import Reason
from holdfast.schemas.frames import Data, Ping, Pong, SeatFrame
from holdfast.testing import run
from tests.client.fake_server import (
    KNOWN_GUEST,
    FakeServer,
    Step,
    close,
    connect,
    end_of,
    in_virtual_time,
    pings,
    raw,
    welcome,
)
from tests.client.script import info

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
        session.on_drop(lambda _: told.append("drop"))

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
        session.on_drop(lambda _: told.append("drop"))
        session.on_resume(told.append)

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
        session.on_resume(told.append)
        asked = asyncio.create_task(session.search())

        await asyncio.sleep(10.0)

        hello = server.links[1].hello
        assert (hello.auth, hello.resume) == (KNOWN_GUEST, None)
        assert told == [Outcome("reset", reason=reason.value)]
        assert session.id == "s2"
        with pytest.raises(holdfast.Reset, match=f"the answer was lost \\({reason.value}\\)") as error:
            await asked
        assert error.value.reason == reason
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

    assert server.waits_s == [60.0 + 16.0 + 0.05]
    pongs = [frame.id for frame in server.links[0].heard if isinstance(frame, Pong)]
    assert pongs == [1, 2, 3, 4]
    await session.close()


@in_virtual_time
async def test_a_server_that_announces_a_large_payload_may_be_silent_for_so_much_longer() -> None:
    large: list[Step] = [Ping(1, quiet_s=30.0), 45.0, Ping(2)]
    server = FakeServer([welcome(), *large], [welcome(outcome="resumed"), *pings(5.0, 100)])

    session = await connect(server)
    await asyncio.sleep(100.0)

    assert server.waits_s == [45.0 + 16.0 + 0.05]
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
    server = FakeServer([welcome(), SeatFrame("joined", 1, 1, "r", "arena"), 1.0, broken])
    session = await connect(server)

    error = await end_of(session)

    assert "cannot be read" in str(error)


@in_virtual_time
async def test_a_gap_in_the_stream_makes_the_client_resume_and_costs_no_message() -> None:
    first = [Data(1, seq, 0, "hit", raw(seq)) for seq in (1, 3)]
    again = [Data(1, seq, 0, "hit", raw(seq)) for seq in (1, 2, 3)]
    seat = SeatFrame("joined", 1, 1, "r", "arena")
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
