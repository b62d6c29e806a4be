"""Frames of WebSocket that are no payloads, on real sockets: they cost work too, and count."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from holdfast import Limits
from holdfast.core.codec import MSGPACK
from holdfast.schemas.events import LimitExceeded
from holdfast.schemas.frames import Auth, Hello
from tests.deadlines import DEADLINE_S
from tests.server.limits.street import Hall
from tests.server.world import World
from tests.transports import raw
from tests.transports.raw import RawPeer, fragment, websocket_frame

UPGRADE = (
    "GET / HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: {MSGPACK.name}\r\n\r\n"
).encode()
PING, PONG = websocket_frame(raw.PING), websocket_frame(raw.PONG)
# A payload of no frames.
PIECES = fragment(raw.BINARY, MSGPACK.encode([])) + fragment(0) * 500 + fragment(0, is_last=True)
# Forgives little, so that it ends soon.
STRICT = Limits(violations_max=50, violations_per_s=0.001, flood_pause_s=0.001)


async def until(claim: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not claim():  # noqa: ASYNC110 - a deadline, not a time
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("flood", [PING, PONG, PIECES], ids=["pings", "pongs", "pieces"])
async def test_who_floods_with_frames_that_are_no_payloads_is_cut_off_like_any_other(
    world: World, flood: bytes
) -> None:
    server = await world.serve(Hall, limits=STRICT)
    heard: list[LimitExceeded] = []
    server.on(LimitExceeded, heard.append)
    flooder = await RawPeer.connect(*server.addresses["websocket"])
    flooder.write(UPGRADE + websocket_frame(raw.BINARY, MSGPACK.payload(Hello(Auth("guest")))))
    await until(lambda: any(session.connection is not None for session in server.sessions))

    async def go_on() -> None:
        with suppress(ConnectionError):
            while True:
                await flooder.write_all(flood * 100)
                await asyncio.sleep(0)

    flooding = asyncio.ensure_future(go_on())
    await until(lambda: bool(server.counters.floods))

    flooding.cancel()
    flooder.abandon()
    await until(lambda: any(event.action == "disconnected" for event in heard))
    assert {event.limit for event in heard} == {"bytes_per_s"}


async def test_an_unauthenticated_client_who_pings_and_does_not_say_hello_is_cut_off(world: World) -> None:
    server = await world.serve(Hall)
    stranger = await RawPeer.connect(*server.addresses["websocket"])

    stranger.write(UPGRADE + PING * 100)

    assert b"flooding" in await stranger.read_rest()
    stranger.abandon()


async def test_a_ping_now_and_then_is_answered(world: World) -> None:
    server = await world.serve(Hall)
    peer = await RawPeer.connect(*server.addresses["websocket"])
    peer.write(UPGRADE)
    await peer.read_head()

    for _ in range(5):
        peer.write(PING)
        assert await peer.read_websocket_frame() == (raw.PONG, b"")

    peer.abandon()
