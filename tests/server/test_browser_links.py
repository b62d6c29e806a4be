"""Links of browsers, which compress by themselves: the `websockets` library offers what they offer."""

import asyncio
import json
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from holdfast import Limits, Server, SessionFlags, WebSocket
from holdfast.schemas.events import LimitExceeded
from tests.server.foreign import JSON, MSGPACK, Foreigner, WebSocketWire
from tests.server.world import World, chat, url_of
from tests.transports import raw
from tests.transports.raw import RawPeer, websocket_frame

UPGRADE = (
    "GET / HTTP/1.1\r\nHost: game.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: {codec}\r\n"
    "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n"
)
ANSWER = b"\r\nSec-WebSocket-Extensions: permessage-deflate; "


@asynccontextmanager
async def browser(server: Server, codec: str) -> AsyncIterator[Foreigner]:
    async with connect(
        url_of(server), subprotocols=[Subprotocol(codec)], compression="deflate", ping_interval=None, proxy=None
    ) as connection:
        yield Foreigner(WebSocketWire(connection, text=codec == JSON), codec)


@asynccontextmanager
async def raw_browser(server: Server, codec: str = JSON) -> AsyncIterator[tuple[RawPeer, bytes]]:
    """A socket, and what the server answered."""
    peer = await RawPeer.connect(*server.addresses["websocket"])
    peer.write(UPGRADE.format(codec=codec).encode())
    try:
        yield peer, await peer.read_head()
    finally:
        peer.abandon()


def message(payload: bytes) -> bytes:
    """Text, deflated, in one frame."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = (deflater.compress(payload) + deflater.flush(zlib.Z_SYNC_FLUSH))[:-4]
    return websocket_frame(0, body, first_byte=0xC0 | raw.TEXT)


@pytest.mark.parametrize("codec", [MSGPACK, JSON])
async def test_a_browser_plays_over_a_compressed_link(world: World, codec: str) -> None:
    server = await world.serve(chat(), listen=[WebSocket(port=0, compression=True)])
    room = await server.create_room("chat")

    async with browser(server, codec) as client:
        channel = await client.sit_down(room.id)
        for number in range(1, 21):
            await client.say(["data", channel, number, 0, "say", {"text": f"{number}: " + "the same words " * 20}])
            said = await client.message("said")

            assert said[5]["text"] == f"{number}: " + "the same words " * 20
        (session,) = server.sessions
        assert session.flags is SessionFlags.COMPRESSION


async def test_without_the_setting_the_offer_is_declined(world: World) -> None:
    server = await world.serve(chat())

    async with raw_browser(server) as (_, head), browser(server, JSON) as client:
        await client.sign_in()

        assert ANSWER not in head
        (session,) = server.sessions
        assert session.flags is SessionFlags.NONE


async def test_the_welcome_with_its_token_is_not_compressed(world: World) -> None:
    server = await world.serve(chat(), listen=[WebSocket(port=0, compression=True)])

    async with raw_browser(server) as (peer, _):
        peer.write(message(b'[["hello",{"scheme":"guest"}]]'))
        _, body = await peer.read_websocket_frame()
        welcome = json.loads(body)[0]
        assert (welcome[0], len(body) > 200) == ("welcome", True)

        for _ in range(2):
            peer.write(message(b'[["hello",null,{"session":"%s","token":"%s"}]]' % (b"x" * 100, b"y" * 100)))
        opcode, _ = await peer.read_websocket_frame(is_deflated=True)
        assert opcode == raw.TEXT, "what follows is compressed"


async def test_a_thousand_bombs_in_one_segment_cost_no_more_than_may_wait(world: World) -> None:
    limits = Limits()
    server = await world.serve(chat(), listen=[WebSocket(port=0, compression=True)], limits=limits)
    told: asyncio.Queue[LimitExceeded] = asyncio.Queue()
    server.on(LimitExceeded, told.put_nowait)
    # An array without frames, and blanks: a payload like any other.
    bomb = message(b"[]" + b" " * (limits.payload_bytes_max - 2))
    bombs = bomb * 1000
    assert len(bombs) < 2 * limits.payload_bytes_max

    async with raw_browser(server) as (peer, _), browser(server, JSON) as neighbour:
        await neighbour.sign_in()
        peer.write(message(b'[["hello",{"scheme":"guest"}]]'))
        await peer.read_websocket_frame()
        # The buffer for it grows with need.
        peer.write(websocket_frame(raw.TEXT, b"[]" + b" " * 60_000) + websocket_frame(raw.PING, b"read"))
        await peer.read_websocket_frame()
        tracemalloc.start()
        try:
            await peer.write_all(bombs)
            for number in range(1, 21):
                await neighbour.ask(number, "search", {"kind": "chat"})
            event = await told.get()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert (event.limit, event.action) == ("fair_queue_bytes_max", "disconnected")
    # What waits to be heard, what is being inflated (Python doubles its buffer as it fills), and what was written.
    assert peak < limits.fair_queue_bytes_max + 5 * limits.payload_bytes_max + 2 * len(bombs)
