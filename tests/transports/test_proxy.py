"""The PROXY protocol: the headers by themselves, and at the doors of both transports, with TLS and without."""

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.testing.transport_checks import BINARY, LIMITS
from holdfast.transports import tcp, websocket
from holdfast.transports.port import Accept, Listener, Subprotocol, TransportLimits
from holdfast.transports.proxies import Address, BadHeader, TrustedProxies, read_header
from tests.cases import every_case
from tests.transports import raw
from tests.transports.harness import Harness, SocketAdapter, client_context, server_context
from tests.transports.raw import RawPeer, tcp_frame, websocket_frame

V2 = b"\r\n\r\n\x00\r\nQUIT\n"
V1_TCP4 = b"PROXY TCP4 203.0.113.7 192.0.2.1 51234 443\r\n"
V1_TCP6 = b"PROXY TCP6 2001:db8::7 2001:db8::1 51234 443\r\n"
BYTES_MAX = 536
# Who connects in these tests.
HERE = ["127.0.0.1"]
ELSEWHERE = ["192.0.2.1"]
IMPATIENT = replace(LIMITS, handshake_s=0.2, close_s=0.2)


def v2(command: int, family: int, body: bytes, length: int | None = None) -> bytes:
    return V2 + struct.pack(">BBH", command, family, len(body) if length is None else length) + body


V2_TCP4 = v2(0x21, 0x11, bytes([203, 0, 113, 7, 192, 0, 2, 1]) + struct.pack(">HH", 51234, 443))
V2_TCP6 = v2(0x21, 0x21, bytes.fromhex("20010db8000000000000000000000007" + "00" * 16) + struct.pack(">HH", 51234, 443))
V2_WITH_EXTRAS = v2(0x21, 0x11, V2_TCP4[16:] + b"\x04\x00\x0cgame.example")
V2_LOCAL = v2(0x20, 0x00, b"")


async def read(data: bytes) -> tuple[Address | None, bytes]:
    """Who is named, and what is left."""
    rest = bytearray(data)

    async def take(size: int) -> bytes:
        if len(rest) < size:
            raise BadHeader("the proxy closed the connection")
        taken = bytes(rest[:size])
        del rest[:size]
        return taken

    return await read_header(take, bytes_max=BYTES_MAX), bytes(rest)


@every_case(
    ("header", "client"),
    [
        (V1_TCP4, ("203.0.113.7", 51234)),
        (V1_TCP6, ("2001:db8::7", 51234)),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
        (V2_TCP4, ("203.0.113.7", 51234)),
        (V2_TCP6, ("2001:db8::7", 51234)),
        (V2_WITH_EXTRAS, ("203.0.113.7", 51234)),
        (V2_LOCAL, None),
        (v2(0x20, 0x11, V2_TCP4[16:]), None),
        (v2(0x21, 0x00, b""), None),
        (v2(0x21, 0x31, bytes(216)), None),
    ],
)
@every_case("rest", [b"", b"GET / HTTP/1.1\r\n\r\n"])
async def test_a_header_is_read_to_its_end_and_not_further(header: bytes, client: Address | None, rest: bytes) -> None:
    assert await read(header + rest) == (client, rest)


@every_case(
    "header",
    [
        b"GET / HTTP/1.1\r\nHost: game.example\r\n\r\n",
        b"PROXY\r\n" + bytes(20),
        b"PROXY TCP4 203.0.113.7 192.0.2.1 51234\r\n",
        b"PROXY TCP4 203.0.113.7 192.0.2.1 51234 443 1\r\n",
        b"PROXY TCP4 2001:db8::7 192.0.2.1 51234 443\r\n",
        b"PROXY TCP6 203.0.113.7 192.0.2.1 51234 443\r\n",
        b"PROXY TCP4 somebody 192.0.2.1 51234 443\r\n",
        b"PROXY TCP4 203.0.113.7 192.0.2.1 65536 443\r\n",
        b"PROXY TCP4 203.0.113.7 192.0.2.1 -1 443\r\n",
        b"PROXY UDP4 203.0.113.7 192.0.2.1 51234 443\r\n",
        b"PROXY TCP4 \xff\xff\xff\xff 192.0.2.1 51234 443\r\n",
        b"PROXY TCP4 " + b"1" * 200 + b"\r\n",
        v2(0x11, 0x11, V2_TCP4[16:]),
        v2(0x22, 0x11, V2_TCP4[16:]),
        v2(0x21, 0x11, V2_TCP4[16:-1]),
        v2(0x21, 0x21, V2_TCP4[16:]),
        v2(0x21, 0x11, V2_TCP4[16:] + bytes(BYTES_MAX)),
        v2(0x21, 0x11, b"", length=65535),
        b"",
    ],
)
async def test_anything_else_is_no_header(header: bytes) -> None:
    with pytest.raises(BadHeader):
        await read(header)


@given(st.sampled_from([b"PROXY TCP4 ", b"PROXY ", V2, V2 + b"\x21\x11\x00\x0c", b""]), st.binary(max_size=120))
def test_whatever_comes_is_a_header_or_is_none(start: bytes, rest: bytes) -> None:
    try:
        client, _ = asyncio.run(read(start + rest))
    except BadHeader:
        return

    assert client is None or 0 <= client[1] <= 65535


# At the doors.


class Door(SocketAdapter):
    """A listener behind proxies, and what a client says to open a link."""

    def __init__(self, scheme: str) -> None:
        self.module = websocket if scheme.startswith("ws") else tcp
        super().__init__(self.module, scheme)
        self.is_tls = scheme in {"wss", "tcps"}
        self.proxies = TrustedProxies(HERE, proxy_protocol=True)

    async def listen(self, accept: Accept, subprotocols: Sequence[Subprotocol], limits: TransportLimits) -> Listener:
        listener: Listener = await self.module.listen(
            accept,
            host="127.0.0.1",
            port=0,
            subprotocols=subprotocols,
            limits=limits,
            ssl=server_context() if self.is_tls else None,
            proxies=self.proxies,
        )
        return listener

    @property
    def greeting(self) -> bytes:
        if self.module is tcp:
            return tcp_frame(BINARY.name.encode())
        return (
            "GET / HTTP/1.1\r\nHost: game.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "X-Forwarded-For: 198.51.100.66\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: {BINARY.name}\r\n\r\n"
        ).encode()

    def frame(self, payload: bytes) -> bytes:
        return tcp_frame(payload) if self.module is tcp else websocket_frame(raw.BINARY, payload)


@pytest.fixture(params=["ws", "wss", "tcp", "tcps"])
async def harness(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    harness = Harness(Door(request.param))
    yield harness
    await harness.finish()


def door_of(harness: Harness) -> Door:
    assert isinstance(harness.adapter, Door)
    return harness.adapter


async def greet(harness: Harness, listener: Listener, header: bytes, payload: bytes = b"hello") -> RawPeer:
    """Everything that a client says, behind a header, in as few segments as there can be."""
    door = door_of(harness)
    words = door.greeting + door.frame(payload)
    if not door.is_tls:
        peer = await harness.raw(listener)
        peer.write(header + words)
        return peer
    # TLS over memory, because asyncio cannot begin it where a stream has already begun.
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    peer = await harness.raw(listener)
    peer.write(header)
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            peer.write(outgoing.read())
            incoming.write(await peer.read(1))
    tls.write(words)
    peer.write(outgoing.read())
    return peer


@pytest.mark.parametrize(
    ("header", "name"),
    [(V1_TCP4, "203.0.113.7:51234"), (V2_TCP6, "[2001:db8::7]:51234"), (V2_WITH_EXTRAS, "203.0.113.7:51234")],
)
async def test_the_peer_of_a_link_is_the_client_that_the_proxy_names(
    harness: Harness, header: bytes, name: str
) -> None:
    await greet(harness, await harness.listen(), header)

    accepted = await harness.accept()
    assert accepted.link.peer == name
    assert await accepted.payload() == [b"hello"]


async def test_a_proxy_that_speaks_for_itself_is_the_peer(harness: Harness) -> None:
    peer = await greet(harness, await harness.listen(), V2_LOCAL)

    accepted = await harness.accept()
    if door_of(harness).module is tcp:
        assert accepted.link.peer == peer.name
    else:
        # It is a proxy, and its HTTP headers count too.
        assert accepted.link.peer == "198.51.100.66:0"


@pytest.mark.parametrize("harness", ["ws", "tcp"], indirect=True)
async def test_a_header_may_come_byte_by_byte(harness: Harness) -> None:
    door = door_of(harness)
    peer = await harness.raw(await harness.listen())

    await peer.write_slowly(V1_TCP4 + door.greeting + door.frame(b"hello"))

    accepted = await harness.accept()
    assert accepted.link.peer == "203.0.113.7:51234"
    assert await accepted.payload() == [b"hello"]


@pytest.mark.parametrize("header", [b"", b"PROXY TCP4 nonsense\r\n", v2(0x21, 0x11, b"", length=60_000)])
async def test_a_proxy_without_a_good_header_is_cut_off_without_an_answer(harness: Harness, header: bytes) -> None:
    peer = await harness.raw(await harness.listen())

    peer.write(header + door_of(harness).greeting)

    assert await peer.read_rest() == b""
    assert harness.accepted == []


@pytest.mark.parametrize("said", [b"", V1_TCP4[:-1], V2_TCP4[:20]])
async def test_a_header_that_takes_too_long_is_not_waited_for(harness: Harness, said: bytes) -> None:
    peer = await harness.raw(await harness.listen(limits=IMPATIENT))

    peer.write(said)

    assert await peer.read_rest() == b""
    assert harness.accepted == []


async def test_a_header_of_who_is_no_proxy_is_not_believed(harness: Harness) -> None:
    door_of(harness).proxies = TrustedProxies(ELSEWHERE, proxy_protocol=True)
    peer = await harness.raw(await harness.listen(limits=IMPATIENT))

    peer.write(V1_TCP4 + door_of(harness).greeting)

    await peer.read_rest()
    assert harness.accepted == []


async def test_who_is_no_proxy_comes_in_without_a_header(harness: Harness) -> None:
    door_of(harness).proxies = TrustedProxies(ELSEWHERE, proxy_protocol=True)

    await greet(harness, await harness.listen(), b"")

    accepted = await harness.accept()
    assert accepted.link.peer.startswith("127.0.0.1:")
    assert await accepted.payload() == [b"hello"]


async def test_a_listener_that_closes_turns_away_whoever_is_still_saying_its_header(harness: Harness) -> None:
    listener = await harness.listen()
    peer = await harness.raw(listener)
    peer.write(V1_TCP4[:10])
    await greet(harness, listener, V1_TCP4)
    await harness.accept()

    await listener.close()

    assert await peer.read_rest() == b""
    assert [recorder.end for recorder in harness.accepted] == [None], "who came later is in, and stays"


async def test_an_address_that_is_taken_is_told_in_the_words_of_asyncio(harness: Harness) -> None:
    listener = await harness.listen()
    port = listener.addresses[0][1]

    with pytest.raises(OSError, match=rf"error while attempting to bind on address \('127.0.0.1', {port}\): "):
        await door_of(harness).module.listen(
            harness.make,
            host="127.0.0.1",
            port=port,
            subprotocols=[BINARY],
            limits=LIMITS,
            proxies=TrustedProxies(HERE, proxy_protocol=True),
        )
