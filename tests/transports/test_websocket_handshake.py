"""WebSocket's handshake, checked against peers that we did not write: bare sockets."""

import asyncio
from collections.abc import Iterator

import pytest

from holdfast.testing.transport_checks import BINARY, TEXT
from holdfast.transports import websocket
from holdfast.transports.port import Subprotocol
from tests.transports import raw
from tests.transports.harness import Harness, SocketAdapter
from tests.transports.raw import websocket_frame
from tests.transports.upgrades import IMPATIENT, REQUEST, raw_link, upgrade


async def test_a_plain_get_is_told_to_upgrade_and_what_is_spoken(harness: Harness) -> None:
    peer = await harness.raw(await harness.listen(subprotocols=[BINARY, TEXT]))

    peer.write(b"GET / HTTP/1.1\r\nHost: game.example\r\n\r\n")

    answer = await peer.read_rest()
    assert answer.startswith(b"HTTP/1.1 426 Upgrade Required\r\n")
    assert b"\r\nUpgrade: websocket\r\n" in answer
    assert b"test.v1.binary, test.v1.text" in answer
    assert harness.accepted == []


@pytest.mark.parametrize(
    "connection", ["keep-alive, Upgrade", "Upgrade, keep-alive", "upgrade", "x\r\nConnection: Upgrade"]
)
async def test_upgrade_may_be_one_of_several_connection_options(harness: Harness, connection: str) -> None:
    peer = await harness.raw(await harness.listen())

    peer.write(upgrade().replace(b"Connection: Upgrade", f"Connection: {connection}".encode()))

    assert (await peer.read_head()).startswith(b"HTTP/1.1 101 ")
    await harness.accept()


@pytest.mark.parametrize(
    "offer",
    [
        "Sec-WebSocket-Protocol: chat, test.v1.binary\r\n",
        "Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Protocol: test.v1.binary\r\n",
        "sec-websocket-protocol:test.v1.binary,chat\r\n",
    ],
)
async def test_the_chosen_sub_protocol_is_in_the_answer(harness: Harness, offer: str) -> None:
    peer = await harness.raw(await harness.listen())

    peer.write(REQUEST.format(connection="Upgrade", protocols=offer).encode())

    assert b"\r\nSec-WebSocket-Protocol: test.v1.binary\r\n" in await peer.read_head()
    assert (await harness.accept()).link.subprotocol == BINARY


@pytest.mark.parametrize("offer", ["", "Sec-WebSocket-Protocol: chat, TEST.V1.BINARY\r\n"])
async def test_a_client_that_speaks_nothing_of_ours_is_told_what_we_speak(harness: Harness, offer: str) -> None:
    peer = await harness.raw(await harness.listen(subprotocols=[BINARY, TEXT]))

    peer.write(REQUEST.format(connection="Upgrade", protocols=offer).encode())

    answer = await peer.read_rest()
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"test.v1.binary, test.v1.text" in answer
    assert harness.accepted == []


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x00\x01\x02 garbage \xff\r\n\r\n",
        upgrade().replace(b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Version: 99"),
        upgrade().replace(b"AAAAAAAAAAAAAAAAAAAAAA==", b"short"),
        upgrade().replace(b"Connection: Upgrade", b"Connection: close"),
    ],
)
async def test_a_malformed_request_is_refused(harness: Harness, request_bytes: bytes) -> None:
    peer = await harness.raw(await harness.listen())

    peer.write(request_bytes)

    assert (await peer.read_rest()).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert harness.accepted == []


async def test_an_endless_request_is_cut_off(harness: Harness) -> None:
    peer = await harness.raw(await harness.listen())

    peer.write(b"GET / HTTP/1.1\r\nX: " + b"x" * 32_768)

    assert await peer.read_rest() == b""
    assert harness.accepted == []


@pytest.mark.parametrize("said", [b"", b"GET / HTT", upgrade()[:-2]])
async def test_a_handshake_that_takes_too_long_is_cut_off(harness: Harness, said: bytes) -> None:
    peer = await harness.raw(await harness.listen(limits=IMPATIENT))

    peer.write(said)

    async with asyncio.timeout(4):  # picows alone would give it 5 s
        assert await peer.read_rest() == b""
    assert harness.accepted == []


async def test_a_fault_while_answering_is_logged_and_not_told(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    class Faulty(tuple[Subprotocol, ...]):
        def __iter__(self) -> Iterator[Subprotocol]:
            raise RuntimeError("a secret of the server")

    peer = await harness.raw(await harness.listen(subprotocols=Faulty()))

    peer.write(upgrade())

    answer = await peer.read_rest()
    assert answer.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert b"secret" not in answer
    assert "a secret of the server" in caplog.text


async def test_an_open_link_outlives_the_deadline_of_its_handshake(harness: Harness) -> None:
    listener = await harness.listen(limits=IMPATIENT)
    peer, accepted = await raw_link(harness, listener)

    silent = await harness.raw(listener)
    assert await silent.read_rest() == b"", "the deadline of a later handshake is over"

    peer.write(websocket_frame(raw.BINARY, b"still here"))
    assert await accepted.payload() == [b"still here"]


async def test_whoever_is_halfway_through_the_handshake_when_the_listener_closes_is_turned_away(
    harness: Harness,
) -> None:
    listener = await harness.listen()
    peer = await harness.raw(listener)
    peer.write(upgrade()[:20])
    await harness.fence()

    await listener.close()
    peer.write(upgrade()[20:])

    assert (await peer.read_rest()).startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert harness.accepted == []


async def test_the_peer_is_named_by_its_address(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())

    assert accepted.link.peer == peer.name
    assert accepted.link.peer.startswith("127.0.0.1:")


async def test_an_ipv6_peer_is_named_in_brackets() -> None:
    harness = Harness(SocketAdapter(websocket, "ws", host="::1"))

    dialed, accepted = await harness.pair()

    assert accepted.link.peer.startswith("[::1]:")
    assert dialed.link.peer == f"[::1]:{harness.port}"
    await harness.finish()
