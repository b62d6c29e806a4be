"""permessage-deflate over real sockets: what is negotiated and which frames may be deflated."""

import zlib
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.extensions import ClientExtensionFactory
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.typing import Subprotocol as Offer

from holdfast.testing.transport_checks import BINARY, LIMITS, TEXT, LinkRecorder
from holdfast.transports import websocket
from holdfast.transports.deflate import deflated
from holdfast.transports.port import BROKEN, NORMAL, NOT_TEXT, POLICY, TOO_BIG, Listener, Subprotocol
from tests.transports import raw
from tests.transports.harness import Harness, SocketAdapter
from tests.transports.raw import RawPeer, close_body, fragment, websocket_frame

IMPATIENT = replace(LIMITS, close_s=0.2)
REQUEST = (
    "GET / HTTP/1.1\r\nHost: game.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    "Sec-WebSocket-Protocol: {subprotocol}\r\nSec-WebSocket-Extensions: {offer}\r\n\r\n"
)
ANSWER = b"\r\nSec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover"
HELLO = bytes.fromhex("f248cdc9c90700")
LARGE = b"the same again and again, " * 20
# The first byte of a frame: the last of its message and deflated, or only deflated.
DEFLATED, DEFLATED_FIRST = 0xC0, 0x40


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    harness = Harness(SocketAdapter(websocket, "ws", compression=True))
    yield harness
    await harness.finish()


async def raw_link(
    harness: Harness, listener: Listener, subprotocol: Subprotocol = BINARY, offer: str = "permessage-deflate"
) -> tuple[RawPeer, LinkRecorder]:
    """A link to a peer that has compression if it offers it."""
    peer = await harness.raw(listener)
    peer.write(REQUEST.format(subprotocol=subprotocol.name, offer=offer).encode())
    head = await peer.read_head()
    assert head.startswith(b"HTTP/1.1 101 ")
    assert (ANSWER in head) == bool(offer)
    return peer, await harness.accept()


def message(payload: bytes, opcode: int = raw.BINARY) -> bytes:
    """A frame that is a whole message, deflated."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = (deflater.compress(payload) + deflater.flush(zlib.Z_SYNC_FLUSH))[:-4]
    return websocket_frame(0, body, first_byte=DEFLATED | opcode)


def inflated(body: bytes, window_bits: int = 15) -> bytes:
    return zlib.decompressobj(-window_bits).decompress(body + b"\x00\x00\xff\xff")


# The handshake


@pytest.mark.parametrize("offer", ["", "permessage-deflate; server_max_window_bits=99", "permessage-deflate;;"])
async def test_without_a_good_offer_there_is_no_compression(harness: Harness, offer: str) -> None:
    peer = await harness.raw(await harness.listen(limits=IMPATIENT))

    peer.write(REQUEST.format(subprotocol=BINARY.name, offer=offer).encode())

    head = await peer.read_head()
    assert head.startswith(b"HTTP/1.1 101 ")
    assert b"Sec-WebSocket-Extensions" not in head
    accepted = await harness.accept()
    assert not accepted.link.is_compressed
    accepted.link.send(LARGE)
    accepted.link.send(LARGE)
    assert [await peer.read_websocket_frame() for _ in range(2)] == [(raw.BINARY, LARGE)] * 2
    peer.write(message(LARGE))
    assert (await accepted.loss())[0] == BROKEN


# What goes out


@pytest.mark.parametrize(("subprotocol", "opcode"), [(BINARY, raw.BINARY), (TEXT, raw.TEXT)])
async def test_all_but_the_first_payload_and_the_small_ones_go_out_deflated(
    harness: Harness, subprotocol: Subprotocol, opcode: int
) -> None:
    peer, accepted = await raw_link(harness, await harness.listen(subprotocols=[subprotocol]), subprotocol)
    large = b"".join(b"%d, " % number for number in range(15_000))

    for payload in (LARGE, LARGE, b"small", LARGE, large):
        accepted.link.send(payload)

    assert accepted.link.is_compressed
    assert await peer.read_websocket_frame() == (opcode, LARGE)
    assert await peer.read_websocket_frame(is_deflated=True) == (opcode, deflated(LARGE))
    assert await peer.read_websocket_frame() == (opcode, b"small")
    assert await peer.read_websocket_frame(is_deflated=True) == (opcode, deflated(LARGE))
    _, body = await peer.read_websocket_frame(is_deflated=True)
    assert len(body) > 8192, "it takes the other way through picows"
    assert inflated(body) == large


async def test_the_window_is_as_small_as_the_client_wants_it(harness: Harness) -> None:
    peer = await harness.raw(await harness.listen())
    offer = "permessage-deflate; server_max_window_bits=9"
    peer.write(REQUEST.format(subprotocol=BINARY.name, offer=offer).encode())
    assert ANSWER + b"; server_max_window_bits=9\r\n" in await peer.read_head()
    accepted = await harness.accept()
    payload = bytes(index * index % 251 for index in range(2000)) * 4

    accepted.link.send(b"first")
    accepted.link.send(payload)

    await peer.read_websocket_frame()
    assert inflated((await peer.read_websocket_frame(is_deflated=True))[1], 9) == payload


async def test_nothing_is_sent_behind_the_end(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())
    accepted.link.send(b"first")

    accepted.link.close(4008, "enough")
    accepted.link.send(LARGE)

    assert await peer.read_websocket_frame() == (raw.BINARY, b"first")
    assert (await peer.read_websocket_frame())[0] == raw.CLOSE


# What comes in


@pytest.mark.parametrize(("subprotocol", "opcode"), [(BINARY, raw.BINARY), (TEXT, raw.TEXT)])
async def test_messages_may_be_deflated_or_not_whole_or_in_pieces(
    harness: Harness, subprotocol: Subprotocol, opcode: int
) -> None:
    peer, accepted = await raw_link(harness, await harness.listen(subprotocols=[subprotocol]), subprotocol)
    euros = "€€€".encode()

    peer.write(websocket_frame(opcode, b"plain") + websocket_frame(0, HELLO, first_byte=DEFLATED | opcode))
    peer.write(fragment(opcode, b"plain ") + fragment(0, b"pieces", is_last=True))
    peer.write(websocket_frame(0, HELLO[:3], first_byte=DEFLATED_FIRST | opcode) + fragment(0))
    peer.write(websocket_frame(raw.PING, b"between") + fragment(0, HELLO[3:], is_last=True))
    peer.write(message(euros, opcode) + websocket_frame(0, b"\x00", first_byte=DEFLATED | opcode))

    assert await accepted.payload(6) == [b"plain", b"Hello", b"plain pieces", b"Hello", euros, b""]
    assert await peer.read_websocket_frame() == (raw.PONG, b"between")


@pytest.mark.parametrize(
    ("subprotocol", "frame", "code"),
    [
        pytest.param(BINARY, websocket_frame(0, HELLO, first_byte=0xE2), BROKEN, id="another reserved bit too"),
        pytest.param(BINARY, websocket_frame(0, HELLO, first_byte=0xA2), BROKEN, id="another reserved bit"),
        pytest.param(BINARY, websocket_frame(0, b"x", first_byte=0xC9), BROKEN, id="a deflated ping"),
        pytest.param(BINARY, websocket_frame(0, b"x", first_byte=0xCA), BROKEN, id="a deflated pong"),
        pytest.param(BINARY, websocket_frame(0, close_body(NORMAL), first_byte=0xC8), BROKEN, id="a deflated close"),
        pytest.param(BINARY, websocket_frame(0, HELLO, first_byte=0xC0), BROKEN, id="an orphan continuation"),
        pytest.param(
            BINARY,
            websocket_frame(0, HELLO[:3], first_byte=0x42) + websocket_frame(0, HELLO[3:], first_byte=0xC0),
            BROKEN,
            id="a continuation that says it is deflated",
        ),
        pytest.param(
            BINARY,
            fragment(raw.BINARY, b"x") + websocket_frame(0, HELLO, first_byte=0xC2),
            BROKEN,
            id="a message that began before another one ended",
        ),
        pytest.param(BINARY, websocket_frame(0, b"\xff\xff", first_byte=0xC2), BROKEN, id="no DEFLATE at all"),
        pytest.param(BINARY, websocket_frame(0, HELLO[:3], first_byte=0xC2), BROKEN, id="DEFLATE that is cut short"),
        pytest.param(TEXT, message(b"\xc3\x28", raw.TEXT), NOT_TEXT, id="text that is not UTF-8"),
        pytest.param(TEXT, message(b"\xc3", raw.TEXT), NOT_TEXT, id="text that is cut short"),
        pytest.param(BINARY, message(b"x", raw.TEXT), 1003, id="text in a binary subprotocol"),
        pytest.param(BINARY, message(bytes(LIMITS.payload_bytes_max + 1)), TOO_BIG, id="one byte too many"),
        pytest.param(
            BINARY,
            websocket_frame(raw.BINARY, bytes(LIMITS.payload_bytes_max + 1)),
            TOO_BIG,
            id="one byte too many, not deflated",
        ),
        pytest.param(BINARY, message(bytes(50_000_000)), TOO_BIG, id="a bomb"),
        pytest.param(
            BINARY,
            websocket_frame(0, b"\x00\x00\x00\xff\xff" * 12_000, first_byte=0x42)
            + fragment(0, b"\x00\x00\x00\xff\xff" * 12_000),
            TOO_BIG,
            id="much that says nothing",
        ),
        pytest.param(
            BINARY,
            websocket_frame(0, first_byte=0x42) + fragment(0) * LIMITS.fragments_max,
            TOO_BIG,
            id="too many fragments",
        ),
    ],
)
async def test_a_message_that_is_not_allowed_closes_the_link_and_nothing_of_it_is_delivered(
    harness: Harness, subprotocol: Subprotocol, frame: bytes, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    peer, accepted = await raw_link(
        harness, await harness.listen(subprotocols=[subprotocol], limits=IMPATIENT), subprotocol
    )

    peer.write(frame + message(b"behind it", raw.TEXT if subprotocol.text else raw.BINARY))

    opcode, body = await peer.read_websocket_frame()
    assert (opcode, body[:2]) == (raw.CLOSE, code.to_bytes(2, "big"))
    assert (await accepted.loss())[0] == code
    assert accepted.payloads == []
    assert caplog.records == [], "strangers must not fill the log"


async def test_behind_a_close_nothing_is_inflated(harness: Harness) -> None:
    class Overfed(LinkRecorder):
        def received(self, payload: bytes) -> None:
            super().received(payload)
            self.link.close(POLICY, "enough")

    harness.make = Overfed
    peer, accepted = await raw_link(harness, await harness.listen())

    # The second would be the end of the link by itself.
    peer.write(message(b"one") + websocket_frame(0, b"\xff\xff", first_byte=DEFLATED | raw.BINARY) + message(b"two"))
    peer.write(websocket_frame(raw.CLOSE, close_body(POLICY)))

    assert await peer.read_websocket_frame() == (raw.CLOSE, close_body(POLICY, b"enough"))
    assert await accepted.loss() == (POLICY, "enough")
    assert accepted.payloads == [b"one"]


# Another implementation


class Echo(LinkRecorder):
    def received(self, payload: bytes) -> None:
        super().received(payload)
        self.link.send(payload)


async def foreign_client(listener: Listener, *offers: ClientExtensionFactory) -> ClientConnection:
    host, port = listener.addresses[0]
    return await connect(
        f"ws://{host}:{port}", subprotocols=[Offer(BINARY.name)], proxy=None, extensions=offers, compression=None
    )


@pytest.mark.parametrize(
    "offer",
    [
        ClientPerMessageDeflateFactory(client_max_window_bits=True),
        ClientPerMessageDeflateFactory(server_no_context_takeover=True, client_no_context_takeover=True),
        ClientPerMessageDeflateFactory(server_max_window_bits=9, client_max_window_bits=9),
        ClientPerMessageDeflateFactory(server_max_window_bits=15),
    ],
    ids=["like a browser", "no contexts", "small windows", "large windows"],
)
async def test_the_websockets_library_is_understood(harness: Harness, offer: ClientPerMessageDeflateFactory) -> None:
    harness.make = Echo
    # What is random becomes larger when it is deflated.
    random = Random(0).randbytes(LIMITS.payload_bytes_max)
    payloads = [LARGE, LARGE, b"", b"x", bytes(LIMITS.payload_bytes_max), random, LARGE * 30]

    async with await foreign_client(await harness.listen(), offer) as client:
        for payload in payloads:
            await client.send(payload)
            assert await client.recv() == payload
        await client.send([b"one, ", b"two, ", b"three"])
        assert await client.recv() == b"one, two, three"
        assert [extension.name for extension in client.protocol.extensions] == ["permessage-deflate"]

    assert await harness.accepted[0].loss() == (NORMAL, "")
