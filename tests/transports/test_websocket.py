"""WebSocket's own rules, checked against peers that we did not write: bare sockets and the websockets library."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from holdfast.transports import websocket
from holdfast.transports.port import (
    BROKEN,
    NO_STATUS,
    NORMAL,
    NOT_TEXT,
    TOO_BIG,
    UNSUPPORTED,
    VANISHED,
    Dialect,
    Listener,
)
from tests.transports import raw
from tests.transports.harness import BINARY, LIMITS, TEXT, Harness, SocketAdapter, client_context
from tests.transports.raw import RawPeer, close_body, fragment, websocket_frame
from tests.transports.recorder import Recorder

IMPATIENT = replace(LIMITS, handshake_s=0.2, close_s=0.2)
REQUEST = (
    "GET /anywhere HTTP/1.1\r\nHost: game.example\r\nUpgrade: websocket\r\nConnection: {connection}\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{protocols}\r\n"
)


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    harness = Harness(SocketAdapter(websocket, "ws"))
    yield harness
    await harness.finish()


def upgrade(dialect: Dialect = BINARY) -> bytes:
    return REQUEST.format(connection="Upgrade", protocols=f"Sec-WebSocket-Protocol: {dialect.name}\r\n").encode()


async def raw_link(harness: Harness, listener: Listener, dialect: Dialect = BINARY) -> tuple[RawPeer, Recorder]:
    peer = await harness.raw(listener)
    peer.write(upgrade(dialect))
    assert (await peer.read_head()).startswith(b"HTTP/1.1 101 ")
    return peer, await harness.accept()


async def foreign_client(listener: Listener) -> ClientConnection:
    host, port = listener.addresses[0]
    return await connect(f"ws://{host}:{port}", subprotocols=[Subprotocol(BINARY.name)], proxy=None)


# The handshake.


async def test_a_plain_get_is_told_to_upgrade_and_what_is_spoken(harness: Harness) -> None:
    peer = await harness.raw(await harness.listen(dialects=[BINARY, TEXT]))

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
    assert (await harness.accept()).link.dialect == BINARY


@pytest.mark.parametrize("offer", ["", "Sec-WebSocket-Protocol: chat, TEST.V1.BINARY\r\n"])
async def test_a_client_that_speaks_nothing_of_ours_is_told_what_we_speak(harness: Harness, offer: str) -> None:
    peer = await harness.raw(await harness.listen(dialects=[BINARY, TEXT]))

    peer.write(REQUEST.format(connection="Upgrade", protocols=offer).encode())

    answer = await peer.read_rest()
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"test.v1.binary, test.v1.text" in answer
    assert harness.accepted == []


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x00\x01\x02 garbage \xff\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: game.example\r\nContent-Length: 3\r\n\r\nabc",
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
    class Faulty(tuple[Dialect, ...]):
        def __iter__(self) -> Iterator[Dialect]:
            raise RuntimeError("a secret of the server")

    peer = await harness.raw(await harness.listen(dialects=Faulty()))

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


async def test_whoever_is_halfway_through_the_door_when_it_closes_is_turned_away(harness: Harness) -> None:
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


# Frames.


async def test_a_handshake_and_frames_may_come_byte_by_byte(harness: Harness) -> None:
    peer = await harness.raw(await harness.listen())

    await peer.write_slowly(upgrade() + websocket_frame(raw.BINARY, b"x" * 200) + websocket_frame(raw.BINARY, b"y"))

    assert await (await harness.accept()).payload(2) == [b"x" * 200, b"y"]


async def test_frames_in_one_segment_with_the_handshake_are_delivered_in_order(harness: Harness) -> None:
    peer = await harness.raw(await harness.listen())

    peer.write(upgrade() + b"".join(websocket_frame(raw.BINARY, b"%d" % number) for number in range(100)))

    assert await (await harness.accept()).payload(100) == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize(("dialect", "opcode"), [(BINARY, raw.BINARY), (TEXT, raw.TEXT)])
async def test_payloads_go_out_as_the_dialect_says(harness: Harness, dialect: Dialect, opcode: int) -> None:
    peer, accepted = await raw_link(harness, await harness.listen(dialects=[dialect]), dialect)

    accepted.link.send(b"short")
    accepted.link.send(b"x" * 10_000)

    assert await peer.read_websocket_frame() == (opcode, b"short")
    assert await peer.read_websocket_frame() == (opcode, b"x" * 10_000)


@pytest.mark.parametrize(
    ("dialect", "frame", "code"),
    [
        pytest.param(BINARY, fragment(raw.BINARY, b"x"), BROKEN, id="a message that began before another one ended"),
        pytest.param(BINARY, fragment(0, b"x", is_last=True), BROKEN, id="an orphan continuation"),
        pytest.param(BINARY, fragment(raw.TEXT, b"x"), UNSUPPORTED, id="the start of text in a binary dialect"),
        pytest.param(TEXT, fragment(raw.TEXT, b"\xc3\x28"), NOT_TEXT, id="a fragment that is not UTF-8"),
        pytest.param(
            TEXT, fragment(raw.TEXT, b"\xc3") + fragment(0, b"", is_last=True), NOT_TEXT, id="text that is cut short"
        ),
        pytest.param(
            BINARY,
            fragment(raw.BINARY, b"x" * 60_000) + fragment(0, b"x" * 40_001),
            TOO_BIG,
            id="fragments that are too big together",
        ),
        pytest.param(
            BINARY, fragment(raw.BINARY) + fragment(0) * LIMITS.fragments_max, TOO_BIG, id="too many fragments"
        ),
        pytest.param(
            BINARY,
            fragment(raw.BINARY, b"x") + websocket_frame(0, b"x", first_byte=0xC0),
            BROKEN,
            id="a fragment with a reserved bit",
        ),
        pytest.param(
            BINARY, websocket_frame(0, close_body(NORMAL), first_byte=0xC8), BROKEN, id="a close with a reserved bit"
        ),
        pytest.param(BINARY, websocket_frame(0, b"x", first_byte=0xC2), BROKEN, id="reserved bit 1: compression"),
        pytest.param(BINARY, websocket_frame(0, b"x", first_byte=0xA2), BROKEN, id="reserved bit 2"),
        pytest.param(BINARY, websocket_frame(0, b"x", first_byte=0x92), BROKEN, id="reserved bit 3"),
        pytest.param(BINARY, websocket_frame(0, b"x", first_byte=0xC9), BROKEN, id="a ping with a reserved bit"),
        pytest.param(BINARY, websocket_frame(0, b"x", first_byte=0x09), BROKEN, id="a fragmented ping"),
        pytest.param(BINARY, websocket_frame(0, b"x", first_byte=0x83), BROKEN, id="an unknown opcode"),
        pytest.param(BINARY, websocket_frame(raw.BINARY, b"x", masked=False), BROKEN, id="no mask"),
        pytest.param(BINARY, websocket_frame(raw.TEXT, b"x"), UNSUPPORTED, id="text in a binary dialect"),
        pytest.param(TEXT, websocket_frame(raw.BINARY, b"x"), UNSUPPORTED, id="binary in a text dialect"),
        pytest.param(TEXT, websocket_frame(raw.TEXT, b"\xc3\x28"), NOT_TEXT, id="text that is not UTF-8"),
        pytest.param(BINARY, websocket_frame(raw.BINARY, b"x" * 100_001), TOO_BIG, id="an oversize payload"),
        pytest.param(BINARY, websocket_frame(raw.PING, b"x" * 126), BROKEN, id="an oversize ping"),
    ],
)
async def test_a_frame_that_is_not_allowed_closes_the_link_and_nothing_of_it_is_delivered(
    harness: Harness, dialect: Dialect, frame: bytes, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    peer, accepted = await raw_link(harness, await harness.listen(dialects=[dialect], limits=IMPATIENT), dialect)

    peer.write(frame + websocket_frame(raw.TEXT if dialect.text else raw.BINARY, b"behind it"))

    opcode, body = await peer.read_websocket_frame()
    assert (opcode, body[:2]) == (raw.CLOSE, code.to_bytes(2, "big"))
    assert (await accepted.loss())[0] == code
    assert accepted.payloads == []
    assert caplog.records == [], "strangers must not fill the log"


@pytest.mark.parametrize(("dialect", "opcode"), [(BINARY, raw.BINARY), (TEXT, raw.TEXT)])
async def test_a_message_in_pieces_is_delivered_whole(harness: Harness, dialect: Dialect, opcode: int) -> None:
    peer, accepted = await raw_link(harness, await harness.listen(dialects=[dialect]), dialect)
    euro = "€".encode()

    peer.write(fragment(opcode, b"one " + euro[:1]) + fragment(0) + fragment(0, euro[1:]))
    peer.write(fragment(0, b" two", is_last=True) + websocket_frame(opcode, b"whole"))
    peer.write(fragment(opcode, b"") + fragment(0, b"again", is_last=True))

    assert await accepted.payload(3) == ["one € two".encode(), b"whole", b"again"]


async def test_pieces_may_be_as_many_and_as_large_as_one_payload(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())
    count = LIMITS.fragments_max
    size = LIMITS.payload_bytes_max // count

    peer.write(fragment(raw.BINARY, b"x" * size) + fragment(0, b"x" * size) * (count - 2))
    peer.write(fragment(0, b"x" * size, is_last=True))

    assert await accepted.payload() == [b"x" * LIMITS.payload_bytes_max]


async def test_a_ping_between_two_pieces_is_answered_at_once(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())

    peer.write(fragment(raw.BINARY, b"one ") + websocket_frame(raw.PING, b"now?"))

    assert await peer.read_websocket_frame() == (raw.PONG, b"now?")
    peer.write(fragment(0, b"two", is_last=True))
    assert await accepted.payload() == [b"one two"]


async def test_a_close_between_two_pieces_is_the_end(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())

    peer.write(fragment(raw.BINARY, b"one ") + websocket_frame(raw.CLOSE, close_body(NORMAL)))
    peer.write(fragment(0, b"two", is_last=True))

    assert await accepted.loss() == (NORMAL, "")
    assert accepted.payloads == []


async def test_a_dialect_of_either_kind_answers_as_it_was_spoken_to(harness: Harness) -> None:
    either = Dialect("test.v1.either", text=None)
    peer, accepted = await raw_link(harness, await harness.listen(dialects=[either], limits=IMPATIENT), either)

    for count, opcode in enumerate((raw.TEXT, raw.BINARY, raw.TEXT), start=1):
        peer.write(websocket_frame(opcode, b"ping"))
        await accepted.payload(count)
        accepted.link.send(b"pong")
        assert await peer.read_websocket_frame() == (opcode, b"pong")

    peer.write(websocket_frame(raw.TEXT, b"\xff"))
    assert (await accepted.loss())[0] == NOT_TEXT


async def test_a_dialect_without_a_name_is_for_those_who_ask_for_none(harness: Harness) -> None:
    peer = await harness.raw(await harness.listen(dialects=[BINARY, Dialect("", text=False)]))

    peer.write(REQUEST.format(connection="Upgrade", protocols="").encode())

    assert b"Sec-WebSocket-Protocol" not in await peer.read_head()
    assert (await harness.accept()).link.dialect.name == ""


async def test_a_ping_is_answered_with_its_own_body(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())

    peer.write(websocket_frame(raw.PING, b"are you there?") + websocket_frame(raw.PONG, b"unasked"))
    peer.write(websocket_frame(raw.BINARY, b"data"))

    assert await peer.read_websocket_frame() == (raw.PONG, b"are you there?")
    assert await accepted.payload() == [b"data"]


async def test_pongs_do_not_pile_up_for_a_peer_that_does_not_read(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())
    pings = websocket_frame(raw.PING, b"x" * 125) * 10_000

    while accepted.congested_count == 0:
        await peer.write_all(pings)
    await peer.write_all(pings + websocket_frame(raw.BINARY, b"the last"))
    await accepted.payload()

    assert accepted.link.buffered_bytes < LIMITS.write_high_bytes + 1000


# The end.


@pytest.mark.parametrize("code", [NORMAL, 1001, 3000, 4008, 4999])
async def test_a_close_frame_is_answered_with_its_code_before_the_socket_is_closed(harness: Harness, code: int) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())

    peer.write(websocket_frame(raw.CLOSE, close_body(code, b"bye")))

    assert await peer.read_websocket_frame() == (raw.CLOSE, close_body(code, b"bye"))
    assert await peer.read_rest() == b""
    assert await accepted.loss() == (code, "bye")


async def test_a_close_frame_without_a_code_is_answered_and_told_as_no_status(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())

    peer.write(websocket_frame(raw.CLOSE))

    assert await peer.read_websocket_frame() == (raw.CLOSE, close_body(NORMAL))
    assert await accepted.loss() == (NO_STATUS, "")


@pytest.mark.parametrize("code", [0, 999, 1005, 1006, 1015, 2999, 5000, 65535])
async def test_a_close_code_that_nobody_may_send_breaks_the_protocol(harness: Harness, code: int) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())

    peer.write(websocket_frame(raw.CLOSE, close_body(code)))

    opcode, body = await peer.read_websocket_frame()
    assert (opcode, body[:2]) == (raw.CLOSE, BROKEN.to_bytes(2, "big"))
    assert (await accepted.loss())[0] == BROKEN


@pytest.mark.parametrize(
    "behind", [websocket_frame(raw.CLOSE, close_body(NORMAL)), websocket_frame(0, first_byte=0x83), b"\xff\xff\xff"]
)
async def test_a_close_frame_is_answered_whatever_comes_behind_it(harness: Harness, behind: bytes) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())

    peer.write(websocket_frame(raw.CLOSE, close_body(4001, b"bye")) + behind)

    assert await peer.read_websocket_frame() == (raw.CLOSE, close_body(4001, b"bye"))
    assert await accepted.loss() == (4001, "bye")


async def test_data_behind_a_close_frame_is_not_delivered(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())

    peer.write(websocket_frame(raw.BINARY, b"before") + websocket_frame(raw.CLOSE, close_body(NORMAL)))
    peer.write(websocket_frame(raw.BINARY, b"behind") + websocket_frame(raw.PING, b"behind"))

    assert await accepted.loss() == (NORMAL, "")
    assert accepted.payloads == [b"before"]


async def test_our_close_waits_for_the_answer_of_the_peer(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())

    accepted.link.close(4008, "slow")

    assert await peer.read_websocket_frame() == (raw.CLOSE, close_body(4008, b"slow"))
    await harness.fence()
    assert accepted.end is None
    peer.write(websocket_frame(raw.BINARY, b"on its way") + websocket_frame(raw.CLOSE, close_body(4008)))
    assert await accepted.loss() == (4008, "slow")
    assert accepted.payloads == []


async def test_a_peer_that_closes_and_does_not_read_is_cut(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen(limits=IMPATIENT))
    while accepted.congested_count == 0:
        accepted.link.send(b"x" * 50_000)

    peer.write(websocket_frame(raw.CLOSE, close_body(NORMAL)))

    assert await accepted.loss() == (NORMAL, "")


async def test_a_peer_that_breaks_the_rules_and_does_not_read_is_cut_once_it_is_closed(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen(limits=IMPATIENT))
    while accepted.congested_count == 0:
        accepted.link.send(b"x" * 50_000)
    await peer.write_all(websocket_frame(raw.BINARY, b"x" * 100_001))
    await harness.fence()

    accepted.link.close(4008, "slow")

    assert await accepted.loss() == (4008, "slow")


async def test_a_peer_that_hangs_up_right_behind_its_close_frame_does_not_upset_tls(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = Harness(SocketAdapter(websocket, "wss", tls=True))
    peer = await harness.raw(await harness.listen(), client_context())
    peer.write(upgrade())
    await peer.read_head()
    accepted = await harness.accept()

    peer.write(websocket_frame(raw.CLOSE, close_body(NORMAL)))
    peer.hang_up()

    assert await accepted.loss() == (NORMAL, "")
    assert caplog.records == []
    await harness.finish()


@pytest.mark.parametrize("farewell", [RawPeer.reset, RawPeer.hang_up, RawPeer.half_close])
async def test_a_peer_that_goes_without_a_close_frame_has_vanished(
    harness: Harness, farewell: Callable[[RawPeer], None]
) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())
    peer.write(websocket_frame(raw.BINARY, b"whole") + websocket_frame(raw.BINARY, b"in the middle")[:-3])
    await accepted.payload()

    farewell(peer)

    assert await accepted.loss() == (VANISHED, "")
    assert accepted.payloads == [b"whole"]


async def test_small_payloads_are_not_delayed_by_the_kernel(harness: Harness) -> None:
    for recorder in await harness.pair():
        tcp = recorder.link._tcp  # type: ignore[attr-defined]  # noqa: SLF001 - nothing public shows it

        assert tcp.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


# Another implementation.


async def test_the_websockets_library_is_understood(harness: Harness) -> None:
    listener = await harness.listen()

    async with await foreign_client(listener) as client:
        accepted = await harness.accept()
        await client.send(b"there")
        accepted.link.send(b"x" * 70_000)
        assert await accepted.payload() == [b"there"]
        assert await client.recv() == b"x" * 70_000
        assert client.subprotocol == BINARY.name
        await (await client.ping())

    assert await accepted.loss() == (NORMAL, "")


@pytest.mark.parametrize("code", [1012, 4008, 4209])
async def test_close_codes_travel_both_ways(harness: Harness, code: int) -> None:
    listener = await harness.listen()
    first, second = await foreign_client(listener), await foreign_client(listener)
    told, telling = await harness.accept(1), await harness.accept(2)

    await first.close(code, "from the client")
    telling.link.close(code, "from the server")

    assert await told.loss() == (code, "from the client")
    with pytest.raises(ConnectionClosed) as closed:
        await second.recv()
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (code, "from the server")
    assert await telling.loss() == (code, "from the server")
