"""WebSocket's frames, checked against peers that we did not write: bare sockets."""

import pytest

from holdfast.testing.transport_checks import BINARY, LIMITS, TEXT
from holdfast.transports.port import BROKEN, NORMAL, NOT_TEXT, TOO_BIG, UNSUPPORTED, Subprotocol
from tests.transports import raw
from tests.transports.harness import Harness
from tests.transports.raw import close_body, fragment, websocket_frame
from tests.transports.upgrades import IMPATIENT, REQUEST, raw_link, upgrade


async def test_a_handshake_and_frames_may_come_byte_by_byte(harness: Harness) -> None:
    peer = await harness.raw(await harness.listen())

    await peer.write_slowly(upgrade() + websocket_frame(raw.BINARY, b"x" * 200) + websocket_frame(raw.BINARY, b"y"))

    assert await (await harness.accept()).payload(2) == [b"x" * 200, b"y"]


async def test_frames_in_one_segment_with_the_handshake_are_delivered_in_order(harness: Harness) -> None:
    peer = await harness.raw(await harness.listen())

    peer.write(upgrade() + b"".join(websocket_frame(raw.BINARY, b"%d" % number) for number in range(100)))

    assert await (await harness.accept()).payload(100) == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize(("subprotocol", "opcode"), [(BINARY, raw.BINARY), (TEXT, raw.TEXT)])
async def test_payloads_go_out_as_the_subprotocol_says(harness: Harness, subprotocol: Subprotocol, opcode: int) -> None:
    peer, accepted = await raw_link(harness, await harness.listen(subprotocols=[subprotocol]), subprotocol)

    accepted.link.send(b"short")
    accepted.link.send(b"x" * 10_000)

    assert await peer.read_websocket_frame() == (opcode, b"short")
    assert await peer.read_websocket_frame() == (opcode, b"x" * 10_000)


@pytest.mark.parametrize(
    ("subprotocol", "frame", "code"),
    [
        pytest.param(BINARY, fragment(raw.BINARY, b"x"), BROKEN, id="a message that began before another one ended"),
        pytest.param(BINARY, fragment(0, b"x", is_last=True), BROKEN, id="an orphan continuation"),
        pytest.param(BINARY, fragment(raw.TEXT, b"x"), UNSUPPORTED, id="the start of text in a binary subprotocol"),
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
        pytest.param(BINARY, websocket_frame(raw.TEXT, b"x"), UNSUPPORTED, id="text in a binary subprotocol"),
        pytest.param(TEXT, websocket_frame(raw.BINARY, b"x"), UNSUPPORTED, id="binary in a text subprotocol"),
        pytest.param(TEXT, websocket_frame(raw.TEXT, b"\xc3\x28"), NOT_TEXT, id="text that is not UTF-8"),
        pytest.param(BINARY, websocket_frame(raw.BINARY, b"x" * 100_001), TOO_BIG, id="an oversize payload"),
        pytest.param(BINARY, websocket_frame(raw.PING, b"x" * 126), BROKEN, id="an oversize ping"),
    ],
)
async def test_a_frame_that_is_not_allowed_closes_the_link_and_nothing_of_it_is_delivered(
    harness: Harness, subprotocol: Subprotocol, frame: bytes, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    peer, accepted = await raw_link(
        harness, await harness.listen(subprotocols=[subprotocol], limits=IMPATIENT), subprotocol
    )

    peer.write(frame + websocket_frame(raw.TEXT if subprotocol.text else raw.BINARY, b"behind it"))

    opcode, body = await peer.read_websocket_frame()
    assert (opcode, body[:2]) == (raw.CLOSE, code.to_bytes(2, "big"))
    assert (await accepted.loss())[0] == code
    assert accepted.payloads == []
    assert caplog.records == [], "strangers must not fill the log"


@pytest.mark.parametrize(("subprotocol", "opcode"), [(BINARY, raw.BINARY), (TEXT, raw.TEXT)])
async def test_a_message_in_pieces_is_delivered_whole(harness: Harness, subprotocol: Subprotocol, opcode: int) -> None:
    peer, accepted = await raw_link(harness, await harness.listen(subprotocols=[subprotocol]), subprotocol)
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


async def test_a_subprotocol_of_either_kind_answers_as_it_was_spoken_to(harness: Harness) -> None:
    either = Subprotocol("test.v1.either", text=None)
    peer, accepted = await raw_link(harness, await harness.listen(subprotocols=[either], limits=IMPATIENT), either)

    for count, opcode in enumerate((raw.TEXT, raw.BINARY, raw.TEXT), start=1):
        peer.write(websocket_frame(opcode, b"ping"))
        await accepted.payload(count)
        accepted.link.send(b"pong")
        assert await peer.read_websocket_frame() == (opcode, b"pong")

    peer.write(websocket_frame(raw.TEXT, b"\xff"))
    assert (await accepted.loss())[0] == NOT_TEXT


async def test_a_subprotocol_without_a_name_is_for_those_who_ask_for_none(harness: Harness) -> None:
    peer = await harness.raw(await harness.listen(subprotocols=[BINARY, Subprotocol("", text=False)]))

    peer.write(REQUEST.format(connection="Upgrade", protocols="").encode())

    assert b"Sec-WebSocket-Protocol" not in await peer.read_head()
    assert (await harness.accept()).link.subprotocol.name == ""


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
