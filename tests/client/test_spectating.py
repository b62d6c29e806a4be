"""The client's side of watching a room: what is asked for, and which room is which."""

import asyncio

import pytest

from holdfast import AlreadySpectating, NotSeated, SeatLeft
from holdfast.schemas.frames import ChannelInfo, Data, SeatFrame
from tests.client.desk import Desk, room, visit
from tests.client.fake_server import in_virtual_time, raw

PLACE = SeatFrame("joined", 1, 1, "room-1", "arena", "spectator")
SEAT = SeatFrame("joined", 2, 1, "room-1", "arena", "seat")


@in_virtual_time
async def test_a_room_is_watched_by_its_id_and_left_by_a_request_of_its_own() -> None:
    desk = Desk()
    async with visit(desk) as session:
        watching = asyncio.create_task(session.spectate("room-1", password="sesame"))
        asked = await desk.asked("spectate", room="room-1", password="sesame")
        asked.link.say(PLACE, asked.reply(room(1)))
        watched = await watching
        leaving = asyncio.create_task(watched.leave())
        (await desk.asked("unspectate")).answer(None)
        await leaving

        assert watched.is_spectator
        assert (watched.info, watched.left) == (room(1), SeatLeft("left"))
        assert (session.room, session.spectating) == (None, None)


@in_virtual_time
async def test_a_refusal_to_watch_is_raised_as_what_it_is() -> None:
    desk = Desk()
    async with visit(desk) as session:
        watching = asyncio.create_task(session.spectate(code="ABC234"))
        (await desk.asked("spectate", code="ABC234")).refuse("already_spectating")

        with pytest.raises(AlreadySpectating):
            await watching


@in_virtual_time
async def test_a_seat_in_the_watched_room_is_another_room_and_the_end_of_the_first_says_so() -> None:
    desk = Desk()
    async with visit(desk) as session:
        watching = asyncio.create_task(session.spectate("room-1"))
        asked = await desk.asked("spectate", room="room-1")
        asked.link.say(PLACE, asked.reply(room(1)))
        watched = await watching

        desk.link.say(SEAT, Data(1, 1, 0, "holdfast.left", raw({"reason": "seated", "message": ""})))
        await asyncio.sleep(0.1)

        assert session.room is not None
        assert (session.room.channel, session.room.is_spectator, session.spectating) == (2, False, None)
        assert watched.left == SeatLeft("seated")
        with pytest.raises(NotSeated, match="the place is gone: seated"):
            await watched.receive()


@in_virtual_time
async def test_a_seat_and_a_watched_room_come_back_as_what_they_are() -> None:
    desk = Desk()
    async with visit(desk) as session:
        watching = asyncio.create_task(session.spectate("room-1"))
        asked = await desk.asked("spectate", room="room-1")
        asked.link.say(PLACE, SeatFrame("joined", 2, 1, "room-2", "arena"), asked.reply(room(1)))
        watched, seat = await watching, session.room
        protocol = session.protocol

        infos = [ChannelInfo(1, 1, 0, "room-1", "arena", purpose="spectator"), ChannelInfo(2, 1, 0, "room-2", "arena")]
        protocol.channels.resume(infos, "")

        assert seat is not None
        assert (session.spectating, session.room) == (watched, seat)
        assert [position.channel for position in protocol.channels.positions()] == [1, 2]
