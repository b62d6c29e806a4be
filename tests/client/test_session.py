"""The client's session against a real server: how it begins and how it ends."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Auth, Invalid, Message, Outcome, Reason, Server, SessionEnded, Untyped
from holdfast.core.codecs import CODECS
from holdfast.events import Ended
from holdfast.transports.port import DialError
from tests.cases import every_case
from tests.client.game import Said, Say, connect, echo, seated, serve, soon, texts, url_of
from tests.log_lines import line_of

# Connecting


@pytest.mark.parametrize("codec", ["holdfast.v1.msgpack", "holdfast.v1.json", "holdfast.v1.protobuf"])
@pytest.mark.parametrize("transport", ["websocket", "tcp"])
async def test_a_message_goes_to_the_room_and_comes_back(server: Server, transport: str, codec: str) -> None:
    async with holdfast.connect(url_of(server, transport), messages=[Said], codec=codec) as session:
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


HALF_A_CHARACTER = "\ud800"


@every_case(
    ("options", "error", "said"),
    [
        ({"name": 5}, TypeError, "a player's name is text; got 5"),
        ({"name": HALF_A_CHARACTER}, Invalid, "`name` has a lone surrogate"),
        ({"auth": Auth("password", HALF_A_CHARACTER)}, Invalid, "`auth` has a lone surrogate"),
        ({"auth": "ada:secret"}, TypeError, "`auth` is an Auth.*; got str"),
        ({"messages": Said}, TypeError, r"write messages=\[Said\]"),
        ({"messages": [Said("hello")]}, TypeError, "lists Message classes.*hello"),
        ({"messages": "said"}, TypeError, "lists Message classes"),
    ],
)
def test_a_wrong_option_is_an_error_that_says_what_to_write(
    options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        holdfast.connect("ws://127.0.0.1:1", **options)


async def test_what_cannot_be_encoded_is_refused_and_the_session_goes_on(server: Server) -> None:
    async with connect(server) as session:
        room = await session.join_or_create("echo")

        for wrong in (
            session.create("echo", name=HALF_A_CHARACTER),
            session.create("echo", config={"seed": 2**65}),
            room.send(Say(HALF_A_CHARACTER)),
            room.ask(Say(HALF_A_CHARACTER)),
        ):
            with pytest.raises(Invalid, match="cannot be sent"):
                await wrong
        with pytest.raises(TypeError, match="'join_or_create' cannot be sent"):
            await session.join_or_create(Message)  # type: ignore[arg-type] # what is wrong with it
        session.cut()
        await room.send(Say("still here"))

        assert await soon(room.receive()) == Said("still here")


def test_a_client_without_the_library_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(CODECS, "holdfast.v1.protobuf")

    with pytest.raises(Invalid, match=r"pip install 'holdfast\[protobuf\]'"):
        holdfast.connect("ws://127.0.0.1:1", codec="holdfast.v1.protobuf")


async def test_a_server_that_does_not_speak_our_codec_is_an_error() -> None:
    async with serve() as server:
        with pytest.raises(Invalid, match=r"holdfast\.v1\.msgpack, holdfast\.v1\.json"):
            holdfast.connect(url_of(server), codec="holdfast.v0")


def test_an_option_that_is_refused_leaves_the_saved_session_to_others(tmp_path: Path) -> None:
    file = tmp_path / "ada.session"

    with pytest.raises(Invalid):
        holdfast.connect("ws://127.0.0.1:1", saved=file, codec="holdfast.v0")

    holdfast.SessionFile(file).close()


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


async def test_a_type_that_was_forgotten_is_named_in_a_warning_once(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async with seated(server, messages=[]) as (_, room):
        for text in ("one", "two"):
            await room.send(Say(text))
            await soon(room.receive())
        assert room.unconfirmed == []

    warned = [line_of(record) for record in caplog.records if record.name == "holdfast.client"]
    problem = "its class is missing in connect(url, messages=[…])"
    assert warned == [("a message arrives as Untyped", {"type": "said", "problem": problem})]


async def test_a_body_that_does_not_fit_is_named_with_what_is_wrong(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    class Number(Message):
        wire_name = "said"
        text: int

    async with seated(server, messages=[Number]) as (_, room):
        await room.send(Say("hello"))
        await soon(room.receive())

    assert "it does not fit its class: Expected `int`, got `str` - at `$.text`" in caplog.text


async def test_a_client_that_lists_untyped_is_not_warned(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    async with seated(server, messages=[Untyped]) as (_, room):
        await room.send(Say("hello"))

        assert await soon(room.receive()) == Untyped("said", {"text": "hello"})

    assert not [record for record in caplog.records if record.name == "holdfast.client"]


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


# Ends


async def test_what_was_sent_goes_out_before_the_session_closes(server: Server) -> None:
    ended = asyncio.Event()
    server.on(Ended, lambda _: ended.set())
    async with seated(server) as (_, room):
        for number in range(200):
            await room.send(Say(str(number)))

    await soon(ended.wait())
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
