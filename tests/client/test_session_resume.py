"""The client's session against a real server: lost connections, and other processes that go on."""

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast import Invalid, Limits, NotSeated, Outcome, Reason, Reset, Resynced, RoomUpdated, Server, WebSocket
from holdfast.core.room import context_of
from holdfast.testing import MemoryStorage
from tests.client.game import AtOnce, Said, Say, connect, echo, seated, serve, soon, texts, until_back, url_of
from tests.saved_sessions import storage_of, suspended

# Drops


async def test_a_lost_connection_is_replaced_and_nothing_is_lost(server: Server) -> None:
    async with seated(server) as (session, room):
        told: list[Any] = []
        session.on_drop(lambda _: told.append(session.connected))
        await room.send(Say("a"))
        await room.flush()

        outcome = await until_back(session, session.cut)
        await room.send(Say("b"))

        assert told == [False]
        assert outcome == session.outcome == Outcome("resumed", replayed=1)
        assert await texts(room, "b") == ["a", "b"]
        assert echo(server, room.id).heard == ["a", "b"]


@pytest.mark.parametrize("transport", ["websocket", "tcp"])
async def test_everything_arrives_once_and_in_order_however_often_the_link_breaks(
    server: Server, transport: str
) -> None:
    url = url_of(server, transport)
    async with holdfast.connect(url, messages=[Said], random=AtOnce()) as session:
        room = await session.join_or_create("echo")
        expected = [str(number) for number in range(600)]

        async def send() -> None:
            for number, text in enumerate(expected):
                await room.send(Say(text))
                if number % 50 == 7:
                    session.cut()
                if number % 10 == 0:
                    await asyncio.sleep(0.001)

        sending = asyncio.create_task(send())
        heard = await texts(room, expected[-1])
        await sending

        assert heard == expected
        assert echo(server, room.id).heard == expected
        assert session.drops > 3


async def test_what_is_asked_while_away_is_answered_after_the_return(server: Server) -> None:
    async with connect(server) as session:
        session.cut()

        made = await soon(session.create("echo"))

        assert [room.id for room in server.rooms] == [made.id]


async def test_a_join_whose_answer_was_lost_is_answered_once_and_seats_once(server: Server) -> None:
    async with connect(server) as session:
        joining = asyncio.create_task(session.join_or_create("echo"))
        for _ in range(3):
            await asyncio.sleep(0.001)
            session.cut()

        room = await soon(joining)

        assert len(server.rooms) == 1
        assert context_of(echo(server, room.id)).seats.used == 1
        await room.send(Say("here"))
        assert await texts(room, "here") == ["here"]


async def test_a_server_that_restarts_resets_the_session_and_the_player_stays_who_they_are() -> None:
    secret = bytes(32)
    async with serve(secret=secret) as server:
        port = server.addresses["websocket"][1]
        session = await connect(server)
        player_id, first_id = session.player_id, session.id
        room = await session.join_or_create("echo")
        await room.send(Say("read before the end"))
        await room.flush()
        told: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        session.on_resume(told.set_result)

    asked = asyncio.create_task(session.search())
    async with serve(secret=secret, listen=[WebSocket(port=port)]) as server:
        assert await soon(told) == Outcome("reset", reason=Reason.EXPIRED)
        with pytest.raises(Reset, match="it is not known whether this was carried out"):
            await asked
        assert (session.player_id, session.room) == (player_id, None)
        assert session.id != first_id
        assert [message async for message in room] == [Said("read before the end")]
        with pytest.raises(NotSeated):
            await room.send(Say("late"))
        again = await session.join_or_create("echo")
        await again.send(Say("new"))
        assert await texts(again, "new") == ["new"]
        await session.close()


async def test_a_reader_too_slow_for_what_is_kept_is_resynced_and_told_so() -> None:
    limits = Limits(window_messages_max=4, kept_messages_max=8)
    async with serve(limits=limits) as server, seated(server) as (session, room):
        outcome = await until_back(session, lambda: server_says(server, room.id, 20))
        first, second, third = [await soon(room.receive()) for _ in range(3)]

        assert outcome.kind == "resynced"
        assert (first, second) == (Resynced(), Said("state: 0"))
        assert isinstance(third, RoomUpdated)
        await room.send(Say("on we go"))
        assert await texts(room, "on we go") == ["on we go"]


def server_says(server: Server, room_id: str, count: int) -> None:
    (player,) = echo(server, room_id).players
    for number in range(count):
        player.send(Said(str(number)))


# Another process


async def test_a_suspended_session_goes_on_with_what_was_not_read_and_not_sent(server: Server) -> None:
    async with seated(server) as (first, room):
        await room.send(Say("a"))
        await room.send(Say("b"))
        await room.flush()
        assert await soon(room.receive()) == Said("a")
        first.cut()
        await room.send(Say("c"))
        state = await suspended(first)

    async with connect(server, saved=storage_of(state)) as second:
        assert (second.id, second.player_id) == (first.id, first.player_id)
        assert second.room is not None
        assert second.room.id == room.id
        assert await texts(second.room, "c") == ["b", "c"]
        assert echo(server, room.id).heard == ["a", "b", "c"]


@pytest.mark.parametrize(("is_acknowledged", "comes_again"), [(True, []), (False, ["a"])])
async def test_a_process_that_dies_goes_on_from_its_last_save(
    server: Server, *, is_acknowledged: bool, comes_again: list[str]
) -> None:
    async with seated(server, give_up_s=0.0) as (first, room):
        await room.send(Say("a"))
        assert await soon(room.receive()) == Said("a")
        if is_acknowledged:
            room.acknowledge()
        state = first.protocol.save()
        await room.send(Say("b"))
        first.cut()

        async with connect(server, saved=storage_of(state)) as second:
            assert second.room is not None
            await second.room.send(Say("c"))
            heard = await texts(second.room, "c")

        assert [text for text in heard if text != "b"] == [*comes_again, "c"]
        assert second.outcome is not None
        assert second.outcome.kind == "resumed"


async def test_a_message_that_is_sent_before_the_session_is_back_waits_for_it(server: Server) -> None:
    async with seated(server, give_up_s=0.0) as (first, room):
        state = first.protocol.save()
        await room.send(Say("after the save"))
        await room.flush()
        first.cut()
        connecting = connect(server, saved=storage_of(state))
        early = connecting.session.room
        assert early is not None
        sending = asyncio.create_task(early.send(Say("early")))
        await asyncio.sleep(0)

        async with connecting:
            await soon(sending)
            await soon(early.flush())

        assert echo(server, room.id).heard == ["after the save", "early"]


async def test_a_save_that_was_used_up_signs_in_anew_as_the_same_player(server: Server) -> None:
    async with seated(server) as (first, room):
        old = first.protocol.save()
        await until_back(first, first.cut)
        await room.send(Say("with the new token"))
        await room.flush()

        async with connect(server, saved=storage_of(old)) as second:
            assert second.outcome == Outcome("reset", reason=Reason.TOKEN_REUSED)
            assert second.player_id == first.player_id
            assert second.room is None


async def test_what_is_no_saved_session_is_refused(server: Server) -> None:
    with pytest.raises(Invalid, match="not a saved session"):
        connect(server, saved=MemoryStorage(b"junk"))
