"""Clients that send a byte now and then, on real sockets: each is cut off when its time is up."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from holdfast import Limits, Server, Tcp, WebSocket
from tests.deadlines import DEADLINE_S
from tests.server.foreign import TcpWire, bare_socket
from tests.server.world import chat

# Between two bytes: many of them fit into the time for a hello.
PAUSE_S = 0.02
LIMITS = Limits(handshake_s=0.4, hello_s=0.4)

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: holdfast.v1.msgpack\r\n"
)
PREFACE = b"holdfast.v1.msgpack"


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server([chat()], listen=[WebSocket(port=0), Tcp(port=0)], limits=LIMITS) as server:
        yield server


async def dribble(wire: TcpWire, octets: bytes) -> int:
    """Send one byte after the other until the server hangs up: how many that were."""
    reading = asyncio.ensure_future(wire.reader.read())
    sent = 0
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not reading.done():
                if sent < len(octets):
                    wire.writer.write(octets[sent : sent + 1])
                    sent += 1
                await asyncio.wait([reading], timeout=PAUSE_S)
    finally:
        reading.cancel()
        await wire.hang_up()
    return sent


async def test_a_websocket_handshake_that_is_dribbled_is_cut_off(server: Server) -> None:
    wire = await bare_socket(*server.addresses["websocket"])

    sent = await dribble(wire, UPGRADE)

    assert 1 < sent < len(UPGRADE)
    assert len(server.parts.connections) == 0


async def test_a_preface_that_is_dribbled_is_cut_off(server: Server) -> None:
    wire = await bare_socket(*server.addresses["tcp"])
    endless = (200).to_bytes(4, "big") + b"x" * 200

    sent = await dribble(wire, endless)

    assert 1 < sent < len(endless)


async def test_a_hello_that_is_dribbled_is_cut_off(server: Server) -> None:
    wire = await bare_socket(*server.addresses["tcp"])
    await wire.send(PREFACE)
    assert await wire.receive() == PREFACE
    endless = (2000).to_bytes(4, "big") + b"x" * 2000

    sent = await dribble(wire, endless)

    assert 1 < sent < len(endless)
    assert len(server.parts.connections) == 0
