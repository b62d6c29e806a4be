"""What strangers say to a door before there is a link: answered or hung up on, and never a line in the log."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.testing.transport_checks import BINARY, LIMITS, LinkRecorder
from holdfast.transports import tcp, websocket
from holdfast.transports.http_upgrade import BadHead, parse_head
from tests.fuzz.targets import Doors
from tests.transports.harness import Harness, SocketAdapter
from tests.transports.raw import RawPeer
from tests.transports.upgrades import upgrade

UPGRADE = upgrade()
# The headers that a server reads.
HEADERS = [
    b"Host",
    b"Upgrade",
    b"Connection",
    b"Sec-WebSocket-Version",
    b"Sec-WebSocket-Key",
    b"Sec-WebSocket-Protocol",
]


def with_header(name: bytes, value: bytes) -> bytes:
    """The request, with this header in place of the one it has, or one more."""
    head, *lines = UPGRADE.rstrip(b"\r\n").split(b"\r\n")
    kept = [line for line in lines if not line.lower().startswith(name.lower() + b":")]
    return b"\r\n".join([head, *kept, name + b": " + value]) + b"\r\n\r\n"


@pytest.fixture
async def complaints() -> AsyncIterator[list[dict[str, Any]]]:
    """What the event loop would log."""
    loop = asyncio.get_running_loop()
    found: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: found.append(context))
    yield found
    loop.set_exception_handler(None)


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("value", [b"\xff", b"caf\xc3\xa9", b"13\x80"])
async def test_a_byte_beyond_ascii_in_a_header_that_is_read_is_refused_and_logs_nothing(
    harness: Harness,
    complaints: list[dict[str, Any]],
    caplog: pytest.LogCaptureFixture,
    name: bytes,
    value: bytes,
) -> None:
    caplog.set_level(logging.INFO)
    peer = await harness.raw(await harness.listen())

    peer.write(with_header(name, value))

    answer = await peer.read_rest()
    await harness.fence()
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert (complaints, caplog.records, harness.accepted) == ([], [], [])


async def test_a_byte_beyond_ascii_in_a_header_that_nobody_reads_is_ignored(harness: Harness) -> None:
    peer = await harness.raw(await harness.listen())

    peer.write(with_header(b"CF-IPCity", "Zürich".encode()))

    assert (await peer.read_head()).startswith(b"HTTP/1.1 101 ")
    await harness.accept()


@pytest.mark.parametrize(
    "host",
    [
        *(
            b"",
            b" ",
            b"a b",
            b"a,b",
            b"user@game.example",
            b"game.example/path",
            b"http://game.example",
            b"a..b",
            b".a",
        ),
        *(b"game.example:", b"game.example:0", b"game.example:65536", b"game.example:7777x", b"a:1:2", b"x" * 300),
        *(b"::1", b"[::1", b"[::g]", b"[1.2.3.4]", b"game\texample", b"<script>", b"game.example\r\nHost: other"),
    ],
)
async def test_a_host_that_is_none_is_refused(harness: Harness, host: bytes) -> None:
    peer = await harness.raw(await harness.listen())

    peer.write(with_header(b"Host", host))

    answer = await peer.read_rest()
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"Host" in answer
    assert harness.accepted == []


@pytest.mark.parametrize(
    "host", [b"game.example", b"GAME.example.:443", b"127.0.0.1:7777", b"[::1]:7777", b"[fe80::1]", b"my_game-1"]
)
async def test_a_host_as_clients_send_it_is_welcome(harness: Harness, host: bytes) -> None:
    peer = await harness.raw(await harness.listen())

    peer.write(with_header(b"Host", host))

    assert (await peer.read_head()).startswith(b"HTTP/1.1 101 ")


async def test_a_request_without_a_host_is_refused(harness: Harness) -> None:
    peer = await harness.raw(await harness.listen())

    peer.write(UPGRADE.replace(b"Host: game.example\r\n", b""))

    assert (await peer.read_rest()).startswith(b"HTTP/1.1 400 Bad Request\r\n")


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: game.example\r\n\r\n",
        b"POST / HTTP/1.0\r\nHost: game.example\r\nContent-Length: 3\r\n\r\nabc",
        b"\r\nGET / HTTP/1.1\r\nHost: game.example\r\n\r\n",
    ],
)
async def test_a_browser_at_the_websocket_port_is_told_where_the_pages_are(said: bytes) -> None:
    listener = await websocket.listen(
        LinkRecorder,
        host="127.0.0.1",
        port=0,
        subprotocols=[BINARY],
        limits=LIMITS,
        directions=lambda host: f"The pages of {host} are elsewhere.",
    )
    peer = await RawPeer.connect(*listener.addresses[0])

    peer.write(said)

    answer = await peer.read_rest()
    assert answer.startswith(b"HTTP/1.1 426 Upgrade Required\r\n")
    assert b"\r\nContent-Type: text/plain; charset=utf-8\r\n" in answer
    assert b"game port of a Holdfast server" in answer
    assert answer.endswith(b"The pages of game.example are elsewhere.\n")
    peer.abandon()
    await listener.close()


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"HEAD / HTTP/1.1\r\nHost: game.example\r\n\r\n", b"426"),
        (b"HEAD / HTTP/1.1\r\n\r\n", b"400"),
        (b"HEAD / HTTP/1.0\r\n\r\n", b"426"),
    ],
)
async def test_the_answer_to_a_head_has_no_body(harness: Harness, said: bytes, status: bytes) -> None:
    peer = await harness.raw(await harness.listen())

    peer.write(said)

    answer = await peer.read_rest()
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"\r\nContent-Length: " in answer
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"GET / HTTP/1.0\r\n\r\n", b"426"),
        (b"\r\n\r\nGET / HTTP/1.1\r\nHost: game.example\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\nHost: game.example\n\n", b"400"),
    ],
)
async def test_an_odd_request_is_answered_at_once(harness: Harness, said: bytes, status: bytes) -> None:
    peer = await harness.raw(await harness.listen())

    peer.write(said)

    assert (await peer.read_rest()).startswith(b"HTTP/1.1 " + status)


async def test_an_empty_line_may_come_before_a_request_also_in_pieces(harness: Harness) -> None:
    peer = await harness.raw(await harness.listen())

    for byte in b"\r\n":
        peer.write(bytes([byte]))
        await harness.fence()
    peer.write(UPGRADE)

    assert (await peer.read_head()).startswith(b"HTTP/1.1 101 ")


@pytest.mark.parametrize("start", ["GET / HTTP/1.1", "POST /v1/rooms HTTP/1.1", "OPTIONS * HTTP/1.1"])
async def test_a_browser_at_the_tcp_port_is_told_where_the_pages_are(start: str) -> None:
    listener = await tcp.listen(
        LinkRecorder,
        host="127.0.0.1",
        port=0,
        subprotocols=[BINARY],
        limits=LIMITS,
        directions=lambda _: "The pages are elsewhere.",
    )
    peer = await RawPeer.connect(*listener.addresses[0])

    peer.write(f"{start}\r\nHost: game.example\r\n\r\n".encode())

    answer = await peer.read_rest()
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"not for HTTP. The pages are elsewhere.\n" in answer
    peer.abandon()
    await listener.close()


async def test_tls_at_a_port_without_it_is_refused_at_once(harness: Harness) -> None:
    peer = await harness.raw(await harness.listen())

    peer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")

    assert (await peer.read_rest()).startswith(b"HTTP/1.1 400 Bad Request\r\n")


async def test_a_request_in_pieces_and_a_message_right_behind_it_are_understood() -> None:
    harness = Harness(SocketAdapter(websocket, "ws"))
    peer = await harness.raw(await harness.listen())

    await peer.write_slowly(UPGRADE[:-1])
    # The last byte comes with a masked message of three bytes, larger than what is read at first.
    peer.write(UPGRADE[-1:] + b"\x82\x83\x00\x00\x00\x00abc")

    assert (await peer.read_head()).startswith(b"HTTP/1.1 101 ")
    assert await (await harness.accept()).payload() == [b"abc"]
    await harness.finish()


# Whatever they say


@given(
    st.one_of(
        st.binary(max_size=300).map(lambda noise: b"GET / HTTP/1.1\r\n" + noise + b"\r\n\r\n"),
        st.tuples(st.sampled_from(HEADERS), st.binary(max_size=40)).map(lambda each: with_header(*each)),
        st.tuples(st.integers(0, len(UPGRADE) - 1), st.integers(0, 255)).map(
            lambda each: UPGRADE[: each[0]] + bytes([each[1]]) + UPGRADE[each[0] + 1 :]
        ),
    )
)
def test_no_request_makes_a_listener_raise(said: bytes) -> None:
    doors = Doors()

    doors(said)

    doors.close()


@given(st.binary(max_size=400))
def test_what_is_read_can_be_written_and_is_read_again_as_the_same(head: bytes) -> None:
    try:
        request = parse_head(UPGRADE.rstrip(b"\r\n") + b"\r\n" + head)
    except BadHead:
        return

    assert parse_head(request.to_bytes().removesuffix(b"\r\n\r\n")) == request
