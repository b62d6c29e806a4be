"""WebSocket's handshake, as a bare socket says it."""

from dataclasses import replace

from holdfast.testing.transport_checks import BINARY, LIMITS, LinkRecorder
from holdfast.transports.port import Listener, Subprotocol
from tests.transports.harness import Harness
from tests.transports.raw import RawPeer

IMPATIENT = replace(LIMITS, handshake_s=0.2, close_s=0.2)


REQUEST = (
    "GET /anywhere HTTP/1.1\r\nHost: game.example\r\nUpgrade: websocket\r\nConnection: {connection}\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{protocols}\r\n"
)


def upgrade(subprotocol: Subprotocol = BINARY) -> bytes:
    return REQUEST.format(connection="Upgrade", protocols=f"Sec-WebSocket-Protocol: {subprotocol.name}\r\n").encode()


async def raw_link(
    harness: Harness, listener: Listener, subprotocol: Subprotocol = BINARY
) -> tuple[RawPeer, LinkRecorder]:
    peer = await harness.raw(listener)
    peer.write(upgrade(subprotocol))
    assert (await peer.read_head()).startswith(b"HTTP/1.1 101 ")
    return peer, await harness.accept()
