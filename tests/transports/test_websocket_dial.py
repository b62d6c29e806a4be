"""What a WebSocket client makes of servers that are not ours: what it is worth trying again, and what it hears."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request
from websockets.typing import Subprotocol

from holdfast.testing.transport_checks import BINARY, LIMITS, LinkRecorder
from holdfast.transports import websocket
from holdfast.transports.port import NORMAL, TOO_BIG, DialError
from tests.deadlines import DEADLINE_S
from tests.transports.harness import SocketAdapter
from tests.transports.raw import raw_server

Handler = Callable[[ServerConnection], Awaitable[None]]
Hold = Callable[[ServerConnection, Request], Awaitable[None]]


@asynccontextmanager
async def foreign_server(
    handler: Handler, *, chooses: str | None = BINARY.name, process_request: Hold | None = None
) -> AsyncIterator[str]:
    def choose(_: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
        return None if chooses is None else Subprotocol(chooses)

    async with serve(handler, "127.0.0.1", 0, select_subprotocol=choose, process_request=process_request) as server:
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/play?map=1"


async def dial(url: str, *, handshake_s: float = LIMITS.handshake_s) -> LinkRecorder:
    recorder = LinkRecorder()
    await websocket.dial(recorder, url, subprotocols=[BINARY], limits=replace(LIMITS, handshake_s=handshake_s))
    return recorder


@pytest.mark.parametrize(
    ("answer", "retry"),
    [
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", True),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", True),
        (b"HTTP/1.1 429 Too Many Requests\r\n\r\n", True),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", False),
        (b"HTTP/1.1 302 Found\r\nLocation: ws://127.0.0.1:1/\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\n\r\n", False),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", False),
        (b"SSH-2.0-OpenSSH_9.9\r\n\r\n", False),
        (b"\x00\xff" * 10_000, False),
        (b"HTTP/1.1 101", True),
        (b"", True),
    ],
)
async def test_a_server_that_refuses_for_good_is_told_from_one_that_may_recover(answer: bytes, retry: bool) -> None:
    async with raw_server(answer) as port:
        with pytest.raises(DialError) as failure:
            await dial(f"ws://127.0.0.1:{port}")

    assert failure.value.retry == retry
    assert f"ws://127.0.0.1:{port}" in str(failure.value)


async def test_a_server_that_never_answers_is_worth_another_try() -> None:
    async with raw_server(b"", hangs_up=False) as port:
        with pytest.raises(DialError, match="in time") as failure:
            await dial(f"ws://127.0.0.1:{port}", handshake_s=0.2)

    assert failure.value.retry


@pytest.mark.parametrize("url", ["", "nonsense", "http://127.0.0.1:80", "ws://", "ws://127.0.0.1:99999", "ws://[::1"])
async def test_an_address_that_is_none_is_not_tried_again(url: str) -> None:
    with pytest.raises(DialError) as failure:
        await dial(url)

    assert not failure.value.retry


async def test_a_server_with_a_certificate_that_nobody_vouches_for_is_not_spoken_to() -> None:
    listener = await SocketAdapter(websocket, "wss", tls=True).listen(LinkRecorder, [BINARY], LIMITS)

    with pytest.raises(DialError, match="certificate"):
        await dial(f"wss://127.0.0.1:{listener.addresses[0][1]}")

    await listener.close()


@pytest.mark.parametrize("choice", [None, "test.v2"])
async def test_a_choice_that_was_not_on_offer_is_refused(choice: str | None) -> None:
    async with foreign_server(lambda server: server.wait_closed(), chooses=choice) as url:
        with pytest.raises(DialError) as failure:
            await dial(url)

    assert not failure.value.retry


async def test_an_answer_that_comes_after_the_dial_was_cancelled_opens_nothing() -> None:
    is_asked, may_answer, is_over = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def hold(_: ServerConnection, request: Request) -> None:
        is_asked.set()
        await may_answer.wait()

    async def handle(server: ServerConnection) -> None:
        await server.wait_closed()
        is_over.set()

    recorder = LinkRecorder()
    async with foreign_server(handle, process_request=hold) as url:
        dialing = asyncio.create_task(websocket.dial(recorder, url, subprotocols=[BINARY], limits=LIMITS))
        await is_asked.wait()

        dialing.cancel()
        await asyncio.wait([dialing])
        may_answer.set()

        async with asyncio.timeout(DEADLINE_S):
            await is_over.wait()
    assert recorder.transport is None


async def test_the_websockets_library_is_understood_as_a_server() -> None:
    async def echo(server: ServerConnection) -> None:
        await (await server.ping(b"are you there?"))
        await server.send(await server.recv())
        await server.close(4012, "stopping")

    async with foreign_server(echo) as url:
        recorder = await dial(url)
        recorder.link.send(b"x" * 70_000)

        assert await recorder.loss() == (4012, "stopping")
        assert recorder.payloads == [b"x" * 70_000]


async def test_a_message_that_the_server_sends_in_pieces_arrives_whole() -> None:
    async def speak(server: ServerConnection) -> None:
        await server.send([b"frag", b"men", b"ted"])
        await server.wait_closed()

    async with foreign_server(speak) as url:
        recorder = await dial(url)

        assert await recorder.payload() == [b"fragmented"]
        recorder.link.close(NORMAL, "")


async def test_the_websockets_library_hears_our_close() -> None:
    closed: asyncio.Future[tuple[int | None, str | None]] = asyncio.get_running_loop().create_future()

    async def wait(server: ServerConnection) -> None:
        await server.wait_closed()
        closed.set_result((server.close_code, server.close_reason))

    async with foreign_server(wait) as url:
        recorder = await dial(url)
        recorder.link.close(4200, "bye")

        assert await recorder.loss() == (4200, "bye")
        assert await closed == (4200, "bye")


@pytest.mark.parametrize(("message", "code"), [(b"x" * 100_001, TOO_BIG), (["frag", "ment"], 1003), ("text", 1003)])
async def test_what_the_server_may_not_send_closes_the_link(message: str | bytes | list[str], code: int) -> None:
    async def speak(server: ServerConnection) -> None:
        await server.send(message)
        await server.wait_closed()

    async with foreign_server(speak) as url:
        recorder = await dial(url)

        assert (await recorder.loss())[0] == code
        assert recorder.payloads == []
