"""The client's session against a real server: what a game sees."""

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast import (
    Auth,
    Invalid,
    Limits,
    Message,
    NotFound,
    NotSeated,
    Outcome,
    Reason,
    Refused,
    Resynced,
    Server,
    SessionEnded,
    Untyped,
)
from holdfast.transports.port import DialError
from tests.client.game import (
    AtOnce,
    Kick,
    Said,
    Say,
    Slow,
    Spam,
    connect,
    echo,
    seated,
    serve,
    soon,
    texts,
    until_back,
    url_of,
)

SMALL = Limits(window_messages_max=4, ack_messages=2, ack_s=0.01, ping_s=0.2)


# Connecting


@pytest.mark.parametrize("dialect", ["holdfast.v1.msgpack", "holdfast.v1.json"])
@pytest.mark.parametrize("transport", ["websocket", "tcp"])
async def test_a_message_goes_to_the_room_and_comes_back(server: Server, transport: str, dialect: str) -> None:
    async with holdfast.connect(url_of(server, transport), messages=[Said], dialect=dialect) as session:
        room = await session.join_or_create("echo")
        await room.send(Say("hello"))

        assert await soon(room.receive()) == Said("hello")
        assert (session.outcome, session.connected) == (Outcome("new"), True)
        assert session.room is room


async def test_a_session_can_be_had_without_a_block(server: Server) -> None:
    session = await connect(server)
    player_ids = [each.player_id for each in server.sessions]
    await session.close()

    assert player_ids == [session.player_id]
    assert len(server.sessions) == 0


async def test_nobody_at_the_address_is_an_oserror_that_names_it() -> None:
    with pytest.raises(OSError, match=r"ws://127\.0\.0\.1:1 cannot be reached"):
        await soon(holdfast.connect("ws://127.0.0.1:1").__aenter__())


@pytest.mark.parametrize("url", ["http://127.0.0.1:7777", "127.0.0.1:7777", "", "tcp://127.0.0.1", "ws://[::1"])
async def test_an_address_that_is_none_is_refused_with_what_to_write(url: str) -> None:
    with pytest.raises(DialError) as error:
        await soon(holdfast.connect(url).__aenter__())

    assert not error.value.retry
    assert "://" in str(error.value) or "URL" in str(error.value)


async def test_a_server_that_does_not_speak_our_dialect_is_an_error() -> None:
    async with serve() as server:
        with pytest.raises(Invalid, match=r"holdfast\.v1\.msgpack, holdfast\.v1\.json"):
            holdfast.connect(url_of(server), dialect="holdfast.v0")


async def test_a_server_of_another_kind_is_an_error() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        with pytest.raises(DialError, match="404") as error:
            await soon(holdfast.connect(f"ws://127.0.0.1:{port}").__aenter__())

    assert not error.value.retry


async def test_two_types_of_the_same_name_are_refused(server: Server) -> None:
    class Other(Message):
        wire_name = "said"

    with pytest.raises(Invalid, match="two types of messages are called 'said'"):
        connect(server, messages=[Said, Other])


async def test_a_type_that_the_client_was_not_told_about_arrives_as_plain_data(server: Server) -> None:
    async with seated(server, messages=[]) as (_, room):
        await room.send(Say("hello"))

        assert await soon(room.receive()) == Untyped("said", {"text": "hello"})


async def test_a_body_that_does_not_fit_its_type_arrives_as_plain_data(server: Server) -> None:
    class Number(Message):
        wire_name = "said"
        text: int

    async with seated(server, messages=[Number]) as (_, room):
        await room.send(Say("hello"))

        assert await soon(room.receive()) == Untyped("said", {"text": "hello"})


async def test_a_credential_makes_the_same_player_again(server: Server) -> None:
    async with connect(server) as first:
        player_id, credential = first.player_id, first.credential

    async with connect(server, auth=Auth("guest", credential)) as again, connect(server) as other:
        assert again.player_id == player_id
        assert other.player_id != player_id


async def test_a_credential_that_proves_nothing_is_refused(server: Server) -> None:
    with pytest.raises(SessionEnded, match="credential") as error:
        await soon(connect(server, auth=Auth("guest", "ada.guessed")).__aenter__())

    assert error.value.reason == Reason.AUTH_FAILED


# Rooms


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
        with pytest.raises(NotFound, match="no kind of room is called 'chess'"):
            await session.create("chess")
        with pytest.raises(NotFound):
            await session.join("nowhere")
        with pytest.raises(Refused, match="no such map"):
            await session.create("echo", properties={"map": "nowhere"})
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
        assert server_session.closing == []


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
        assert server_session.closing == []
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
        assert server_session.closing == []


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


# Drops


async def test_a_lost_connection_is_replaced_and_nothing_is_lost(server: Server) -> None:
    async with seated(server) as (session, room):
        told: list[Any] = []
        session.on_drop = lambda: told.append(session.connected)
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
        assert echo(server, room.id).seats_used == 1
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
        session.on_resume = told.set_result

    asked = asyncio.create_task(session.search())
    async with serve(secret=secret, port=port) as server:
        assert await soon(told) == Outcome("reset", reason=Reason.EXPIRED)
        with pytest.raises(Refused, match="ask again"):
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
        first, second = await soon(room.receive()), await soon(room.receive())

        assert outcome.kind == "resynced"
        assert (first, second) == (Resynced(), Said("state: 0"))
        await room.send(Say("on we go"))
        assert await texts(room, "on we go") == ["on we go"]


def server_says(server: Server, room_id: str, count: int) -> None:
    (player,) = echo(server, room_id).players
    for number in range(count):
        player.send(Said(str(number)))


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
    async with serve(limits=SMALL) as server, seated(server, limits=Limits(ack_s=0.01)) as (_, room):
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

        await soon(asyncio.gather(*senders))
        heard = [await soon(room.receive()) for _ in range(100)]

        assert sorted(int(message.text) for message in heard if isinstance(message, Said)) == list(range(100))


async def test_more_is_asked_than_may_be_in_flight_and_all_is_answered() -> None:
    async with serve(limits=Limits(requests_in_flight_max=2)) as server, connect(server) as session:
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


# Ends


async def test_what_was_sent_goes_out_before_the_session_closes(server: Server) -> None:
    async with seated(server) as (_, room):
        for number in range(200):
            await room.send(Say(str(number)))

    assert echo(server, room.id).heard == [str(number) for number in range(200)]
    assert len(server.sessions) == 0


async def test_a_closed_session_says_so_to_whoever_waits_and_whoever_asks(server: Server) -> None:
    async with seated(server) as (session, room):
        waiting = [asyncio.create_task(room.receive()), asyncio.create_task(session.search())]
        await asyncio.sleep(0)
        session.cut()

        await session.close()

        for task in waiting:
            with pytest.raises(SessionEnded, match="closed by this client"):
                await task
        with pytest.raises(SessionEnded):
            await session.create("echo")
        with pytest.raises(SessionEnded):
            await room.send(Say("late"))
        with pytest.raises(SessionEnded):
            room.send_latest(Say("late"))
        with pytest.raises(SessionEnded):
            room.poll()


async def test_what_had_arrived_can_be_read_after_the_session_ended(server: Server) -> None:
    async with seated(server) as (session, room):
        await room.send(Say("a"))
        await room.flush()
        await session.close()

        assert await soon(room.receive()) == Said("a")
        with pytest.raises(SessionEnded):
            await room.receive()


async def test_a_session_that_the_server_ends_tells_why(server: Server) -> None:
    async with seated(server) as (session, room):
        (server_session,) = server.sessions

        server_session.end("cheating")

        assert [message async for message in room] == []
        assert room.left is not None
        assert (room.left.reason, room.left.message) == (Reason.KICKED, "cheating")
        with pytest.raises(SessionEnded, match="cheating") as error:
            await soon(session.search())
        assert error.value.reason == Reason.KICKED
        assert not session.connected


async def test_an_exception_in_the_block_gives_the_seat_back(server: Server) -> None:
    with pytest.raises(ZeroDivisionError):
        async with seated(server):
            raise ZeroDivisionError

    assert len(server.sessions) == 0


# Another process


async def test_a_suspended_session_goes_on_with_what_was_not_read_and_not_sent(server: Server) -> None:
    async with seated(server) as (first, room):
        await room.send(Say("a"))
        await room.send(Say("b"))
        await room.flush()
        assert await soon(room.receive()) == Said("a")
        first.cut()
        await room.send(Say("c"))
        state = await first.suspend()

    async with connect(server, resume=state) as second:
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
        state = first.save()
        await room.send(Say("b"))
        first.cut()

        async with connect(server, resume=state) as second:
            assert second.room is not None
            await second.room.send(Say("c"))
            heard = await texts(second.room, "c")

        assert [text for text in heard if text != "b"] == [*comes_again, "c"]
        assert second.outcome is not None
        assert second.outcome.kind == "resumed"


async def test_a_message_that_is_sent_before_the_session_is_back_waits_for_it(server: Server) -> None:
    async with seated(server, give_up_s=0.0) as (first, room):
        state = first.save()
        await room.send(Say("after the save"))
        await room.flush()
        first.cut()
        connecting = connect(server, resume=state)
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
        old = first.save()
        await until_back(first, first.cut)
        await room.send(Say("with the new token"))
        await room.flush()

        async with connect(server, resume=old) as second:
            assert second.outcome == Outcome("reset", reason=Reason.TOKEN_REUSED)
            assert second.player_id == first.player_id
            assert second.room is None


async def test_what_is_no_saved_session_is_refused(server: Server) -> None:
    with pytest.raises(Invalid, match="not a saved session"):
        connect(server, resume=b"junk")


async def test_two_servers_and_their_clients_live_side_by_side() -> None:
    async with (
        serve() as one,
        serve() as other,
        seated(one) as (_, here),
        seated(other) as (_, there),
    ):
        await here.send(Say("here"))
        await there.send(Say("there"))

        assert await texts(here, "here") == ["here"]
        assert await texts(there, "there") == ["there"]
        assert [len(server.rooms) for server in (one, other)] == [1, 1]
