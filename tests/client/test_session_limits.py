"""The client's session against a real server: what waits is bounded, and may be given up."""

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast import Invalid, Limits, Server
from tests.client.game import Said, Say, Slow, Spam, connect, seated, serve, soon, texts

SMALL = Limits(window_messages_max=4, ack_messages=2, ack_s=0.01, ping_s=0.2)


# What waits is bounded


async def test_unreliable_messages_to_a_slow_reader_are_bounded_and_the_newest_stay(server: Server) -> None:
    async with seated(server, limits=Limits(latest_kept_max=8)) as (_, room):
        await room.send(Spam(100, latest=True))
        await room.flush()
        await room.send(Say("end"))
        await room.flush()

        assert await texts(room, "end") == [str(number) for number in range(92, 100)] + ["end"]


async def test_unreliable_and_reliable_messages_are_read_in_the_order_they_came(server: Server) -> None:
    async with seated(server) as (_, room):
        await room.send(Spam(1, latest=True))
        await room.flush()
        await room.send(Say("a"))
        await room.flush()
        await room.send(Spam(1, latest=True))
        await room.flush()

        assert [str(message.text) for message in room.poll() if isinstance(message, Said)] == ["0", "a", "0"]


async def test_a_reader_who_does_not_read_stops_the_server_at_the_window() -> None:
    async with serve(limits=SMALL) as server, seated(server) as (_, room):
        await room.send(Spam(10))
        await room.flush()
        (server_session,) = server.sessions
        channel = server_session.channel
        assert channel is not None
        assert (channel.sent, channel.acked) == (4, 0)

        assert await texts(room, "9") == [str(number) for number in range(10)]
        room.acknowledge()
        await room.send(Say("end"))
        await texts(room, "end")
        assert channel.acked >= 10


async def test_a_message_is_acknowledged_when_the_next_one_is_asked_for() -> None:
    async with serve(limits=SMALL) as server, seated(server, limits=Limits(client_ack_s=0.01)) as (_, room):
        await room.send(Say("a"))
        await soon(room.receive())
        await room.flush()
        (server_session,) = server.sessions
        channel = server_session.channel
        assert channel is not None
        assert channel.acked == 0

        room.acknowledge()
        await room.send(Say("b"))
        await room.flush()

        assert channel.acked == 1


async def test_everybody_who_waits_for_the_window_gets_through() -> None:
    async with serve(limits=SMALL) as server, seated(server) as (session, room):
        senders = [asyncio.create_task(room.send(Say(str(number)))) for number in range(100)]
        await asyncio.sleep(0)
        session.cut()

        # They also wait for what they are answered to be read.
        heard = [await soon(room.receive()) for _ in range(100)]
        await soon(asyncio.gather(*senders))

        assert sorted(int(message.text) for message in heard if isinstance(message, Said)) == list(range(100))


async def test_more_is_asked_than_may_be_in_flight_and_all_is_answered() -> None:
    limits = Limits(requests_in_flight_max=2, rooms_per_player_max=20)
    async with serve(limits=limits) as server, connect(server) as session:
        rooms = await soon(asyncio.gather(*(session.create("echo") for _ in range(20))))

        assert len({room.id for room in rooms}) == 20
        assert len(server.rooms) == 20
        assert session.drops == 0


# Giving up


async def test_a_send_that_is_cancelled_was_not_sent() -> None:
    async with serve(limits=SMALL) as server, seated(server) as (_, room):
        await room.send(Slow(0.1))
        for number in range(3):
            await room.send(Say(str(number)))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await room.send(Say("cancelled"))
        await room.send(Say("end"))

        assert await texts(room, "end") == ["0", "1", "2", "end"]


async def test_a_receive_that_is_cancelled_loses_nothing(server: Server) -> None:
    async with seated(server) as (_, room):
        heard: list[str] = []
        sending = asyncio.create_task(send_slowly(room, 50))
        while len(heard) < 50:
            try:
                async with asyncio.timeout(0.001):
                    message = await room.receive()
            except TimeoutError:
                continue
            assert isinstance(message, Said)
            heard.append(message.text)
        await sending

        assert heard == [str(number) for number in range(50)]


async def send_slowly(room: holdfast.ClientRoom, count: int) -> None:
    for number in range(count):
        await room.send(Say(str(number)))
        await asyncio.sleep(0.0015)


async def test_requests_that_are_cancelled_do_not_take_the_place_of_others() -> None:
    async with serve(limits=Limits(requests_in_flight_max=2)) as server, connect(server) as session:
        for _ in range(20):
            asking = asyncio.create_task(session.create("echo"))
            await asyncio.sleep(0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

        assert len(await soon(session.search("echo", limit=100))) >= 1
        assert session.drops == 0
        assert server.counters.protocol_errors == 0


async def test_a_message_too_large_for_a_payload_is_refused_and_the_session_lives(server: Server) -> None:
    async with seated(server) as (session, room):
        for send in (room.send, room.send_latest):
            with pytest.raises(Invalid, match="send it in parts"):
                await maybe(send(Say("x" * 70_000)))
        with pytest.raises(Invalid, match="send it in parts"):
            await session.create("echo", properties={"map": "x" * 70_000})
        with pytest.raises(TypeError):
            await session.create("echo", properties={"map": object()})

        await room.send(Say("fits"))
        assert await texts(room, "fits") == ["fits"]
        assert await session.search("echo") != []


async def maybe(result: Any) -> None:
    if result is not None:
        await result
