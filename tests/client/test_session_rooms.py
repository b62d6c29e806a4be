"""The client's session against a real server: rooms that are made, joined and left."""

import asyncio

import pytest

from holdfast import Invalid, NotFound, NotSeated, Reason, Refused, Server
from tests.client.game import Kick, Said, Say, Spam, connect, echo, seated, soon, texts


async def test_rooms_are_created_found_and_joined_with_their_properties(server: Server) -> None:
    async with connect(server) as session:
        made = await session.create("echo", properties={"map": "castle", "kind": "boss"}, max_players=2)
        found = await session.search("echo")
        room = await session.join(made.id)

        assert [info.id for info in found] == [made.id]
        assert (made.properties, made.max_players) == ({"map": "castle", "kind": "boss"}, 2)
        assert echo(server, room.id).properties == {"map": "castle", "kind": "boss"}


async def test_join_or_create_passes_the_properties_to_a_new_room(server: Server) -> None:
    async with connect(server) as session:
        room = await session.join_or_create("echo", properties={"map": "castle"}, max_players=3)

        assert echo(server, room.id).properties == {"map": "castle"}
        assert echo(server, room.id).max_players == 3


async def test_the_servers_side_creates_rooms_with_properties_too(server: Server) -> None:
    agent = server.open_agent("npc")

    made = await server.create_room("echo", properties={"map": "castle"}, max_players=2)
    by_agent = await agent.create("echo", properties={"map": "cave"}, max_players=1)

    assert (made.properties, made.max_players) == ({"map": "castle"}, 2)
    assert (echo(server, by_agent).properties, echo(server, by_agent).max_players) == ({"map": "cave"}, 1)


async def test_a_refusal_is_raised_as_what_it_is(server: Server) -> None:
    async with connect(server) as session:
        with pytest.raises(NotFound, match="unknown kind of room 'chess'"):
            await session.create("chess")
        with pytest.raises(NotFound):
            await session.join("nowhere")
        with pytest.raises(Refused, match="no such map"):
            await session.create("echo", config={"map": "nowhere"})
        with pytest.raises(Invalid):
            await session.search("echo", limit=0)

        assert await session.search() == []


async def test_a_room_that_refuses_a_player_leaves_no_room_behind(server: Server) -> None:
    async with connect(server) as session:
        private = await session.create("echo", properties={"is_private": True})
        with pytest.raises(Refused, match="private"):
            await session.join(private.id)
        public = await session.create("echo")
        room = await session.join(public.id)
        await room.send(Say("here"))

        assert session.room is room
        assert await texts(room, "here") == ["here"]
        (server_session,) = server.sessions
        assert server_session.closing == ()


async def test_what_was_said_before_leaving_arrives(server: Server) -> None:
    async with seated(server) as (session, room):
        for number in range(50):
            await room.send(Say(str(number)))
        await room.leave()

        assert echo(server, room.id).heard == [str(number) for number in range(50)]
        assert session.room is None
        assert room.left is not None
        assert room.left.reason == Reason.LEFT


async def test_a_seat_that_was_left_is_gone_for_every_use_of_it(server: Server) -> None:
    async with seated(server) as (_, room):
        await room.send(Say("unread"))
        await room.leave()
        await room.leave()

        with pytest.raises(NotSeated, match="the seat is gone: left"):
            await room.send(Say("late"))
        with pytest.raises(NotSeated):
            room.send_latest(Say("late"))
        with pytest.raises(NotSeated):
            await room.flush()
        with pytest.raises(NotSeated):
            await room.receive()
        with pytest.raises(NotSeated):
            room.poll()
        assert [message async for message in room] == []


async def test_nothing_of_a_seat_that_was_left_is_kept_on_either_side(server: Server) -> None:
    async with connect(server) as session:
        for _ in range(10):
            room = await session.join_or_create("echo")
            await room.send(Spam(20))
            await room.leave()
        await session.join_or_create("echo")

        (server_session,) = server.sessions
        assert server_session.closing == ()
        assert len(list(session.protocol.channels)) == 1


async def test_leaving_a_room_that_is_over_does_not_leave_the_next_one(server: Server) -> None:
    async with seated(server) as (session, first):
        await first.send(Kick("out"))
        assert [message async for message in first] == [Said("one more thing")]
        second = await session.join_or_create("echo")

        await first.leave()
        await second.send(Say("still here"))

        assert await texts(second, "still here") == ["still here"]


async def test_who_waits_for_a_message_hears_that_the_seat_was_left(server: Server) -> None:
    async with seated(server) as (_, room):
        waiting = asyncio.create_task(room.receive())
        await asyncio.sleep(0)

        await room.leave()

        with pytest.raises(NotSeated):
            await soon(waiting)


async def test_a_kicked_player_reads_to_the_end_and_then_hears_why(server: Server) -> None:
    async with seated(server) as (session, room):
        await room.send(Say("before"))
        await room.send(Kick("no swearing"))

        heard = [message async for message in room]

        assert heard == [Said("before"), Said("one more thing")]
        assert room.left is not None
        assert (room.left.reason, room.left.message) == (Reason.KICKED, "no swearing")
        assert session.room is None
        with pytest.raises(NotSeated, match="no swearing"):
            await room.send(Say("but"))
        (server_session,) = server.sessions
        await session.search()
        assert server_session.closing == ()


async def test_a_session_may_sit_down_again_after_a_kick(server: Server) -> None:
    async with connect(server) as session:
        for _ in range(10):
            room = await session.join_or_create("echo")
            await room.send(Kick("again"))
            with pytest.raises(NotSeated):
                await soon(room.flush())

        room = await session.join_or_create("echo")
        await room.send(Say("here"))
        assert await texts(room, "here") == ["here"]
