"""What becomes of seats and their messages on links that break or are slow, in virtual time."""

import asyncio

import pytest
from msgspec import structs

import holdfast
from holdfast import Limits
from holdfast.schemas.frames import Ack, ChannelInfo, Data, Hello, SeatFrame
from tests.client.fake_server import CUT, FakeLink, FakeServer, connect, in_virtual_time, pings, raw, welcome

# Seats


@in_virtual_time
async def test_what_was_processed_is_acknowledged_soon_also_if_nothing_is_sent() -> None:
    seat = SeatFrame("joined", 1, 1, "r", "arena")
    server = FakeServer([welcome(), seat, Data(1, 1, 0, "hit", raw(1))])
    session = await connect(server, limits=Limits(client_ack_s=0.5))
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
    seats = [SeatFrame("joined", channel, 1, f"room-{channel}", "arena") for channel in (1, 2)]
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

    server = FakeServer([welcome(), SeatFrame("joined", 1, 1, "r", "arena"), *pings(1.0, 1)])
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
