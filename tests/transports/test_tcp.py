"""TCP's framing, checked against bare sockets that speak it badly, slowly, or not at all."""

import socket
import tracemalloc
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from holdfast.testing.transport_checks import BINARY, LIMITS, TEXT, LinkRecorder
from holdfast.transports import tcp
from holdfast.transports.port import (
    BROKEN,
    GOING_AWAY,
    INTERNAL,
    NO_STATUS,
    NORMAL,
    TOO_BIG,
    UNSUPPORTED,
    VANISHED,
    DialError,
    Listener,
)
from tests.transports.harness import Harness, SocketAdapter, client_context
from tests.transports.raw import RawPeer, close_body, raw_server, tcp_frame

IMPATIENT = replace(LIMITS, handshake_s=0.2, close_s=0.2)
PREFACE = tcp_frame(BINARY.name.encode())


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    harness = Harness(SocketAdapter(tcp, "tcp"))
    yield harness
    await harness.finish()


async def raw_link(harness: Harness, listener: Listener) -> tuple[RawPeer, LinkRecorder]:
    peer = await harness.raw(listener)
    peer.write(PREFACE)
    assert await peer.read_tcp_frame() == (False, BINARY.name.encode())
    return peer, await harness.accept()


# The handshake.


async def test_the_preface_may_name_several_subprotocols_and_the_first_known_one_is_chosen(harness: Harness) -> None:
    peer = await harness.raw(await harness.listen(subprotocols=[BINARY, TEXT]))

    peer.write(tcp_frame(b"test.v2,test.v1.text,test.v1.binary"))

    assert await peer.read_tcp_frame() == (False, b"test.v1.text")
    assert (await harness.accept()).link.subprotocol == TEXT


async def test_a_preface_that_names_nothing_of_ours_is_answered_with_what_we_speak(harness: Harness) -> None:
    peer = await harness.raw(await harness.listen(subprotocols=[BINARY, TEXT]))

    peer.write(tcp_frame(b"test.v2"))

    refusal = close_body(UNSUPPORTED, b"unsupported protocol; use one of test.v1.binary,test.v1.text")
    assert await peer.read_tcp_frame() == (True, refusal)
    assert harness.accepted == []


@pytest.mark.parametrize(
    ("said", "code"),
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", TOO_BIG, id="TLS"),
        pytest.param(tcp_frame(b"x" * 257), TOO_BIG, id="a preface that is too long"),
        pytest.param(tcp_frame(b"x" * 256), UNSUPPORTED, id="the longest preface"),
        pytest.param(tcp_frame(b"\xff\xfe\x00"), UNSUPPORTED, id="a preface that is not text"),
        pytest.param(tcp_frame(b""), UNSUPPORTED, id="an empty preface"),
        pytest.param(tcp_frame(close_body(NORMAL), is_close=True), NORMAL, id="a close"),
    ],
)
async def test_whatever_else_comes_first_is_answered_with_a_close_and_reaches_nobody(
    harness: Harness, said: bytes, code: int
) -> None:
    peer = await harness.raw(await harness.listen(limits=IMPATIENT))

    peer.write(said)

    is_close, body = await peer.read_tcp_frame()
    assert (is_close, body[:2]) == (True, code.to_bytes(2, "big"))
    assert await peer.read_rest() == b""
    assert harness.accepted == []


@pytest.mark.parametrize("said", [b"", b"\x00", PREFACE[:-1]])
async def test_a_handshake_that_takes_too_long_is_cut_off(harness: Harness, said: bytes) -> None:
    peer = await harness.raw(await harness.listen(limits=IMPATIENT))

    peer.write(said)

    assert await peer.read_rest() == b""
    assert harness.accepted == []


async def test_an_open_link_outlives_the_deadline_of_its_handshake(harness: Harness) -> None:
    listener = await harness.listen(limits=IMPATIENT)
    peer, accepted = await raw_link(harness, listener)

    silent = await harness.raw(listener)
    assert await silent.read_rest() == b"", "the deadline of a later handshake is over"

    peer.write(tcp_frame(b"still here"))
    assert await accepted.payload() == [b"still here"]


async def test_whoever_is_halfway_through_the_handshake_when_the_listener_closes_is_turned_away(
    harness: Harness,
) -> None:
    listener = await harness.listen()
    peer = await harness.raw(listener)
    peer.write(PREFACE[:5])
    await harness.fence()

    await listener.close()
    peer.write(PREFACE[5:])

    assert await peer.read_tcp_frame() == (True, close_body(GOING_AWAY, b"the server is stopping"))
    assert harness.accepted == []


async def test_the_peer_is_named_by_its_address(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())

    assert accepted.link.peer == peer.name


async def test_an_ipv6_peer_is_named_in_brackets() -> None:
    harness = Harness(SocketAdapter(tcp, "tcp", host="::1"))

    dialed, accepted = await harness.pair()

    assert accepted.link.peer.startswith("[::1]:")
    assert dialed.link.peer == f"[::1]:{harness.port}"
    await harness.finish()


# Frames.


async def test_everything_may_come_byte_by_byte(harness: Harness) -> None:
    peer = await harness.raw(await harness.listen())

    await peer.write_slowly(PREFACE + tcp_frame(b"x" * 300) + tcp_frame(b"") + tcp_frame(b"y"))

    assert await (await harness.accept()).payload(3) == [b"x" * 300, b"", b"y"]


async def test_many_frames_in_one_segment_are_delivered_in_order(harness: Harness) -> None:
    peer = await harness.raw(await harness.listen())

    peer.write(PREFACE + b"".join(tcp_frame(b"%d" % number) for number in range(1000)))

    assert await (await harness.accept()).payload(1000) == [b"%d" % number for number in range(1000)]


@pytest.mark.parametrize("size", [1, 3, 4, 5, 7, 64, 1000])
async def test_frames_do_not_depend_on_how_the_stream_is_cut(harness: Harness, size: int) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())
    sent = [bytes([number]) * number * 7 for number in range(40)]
    stream = b"".join(tcp_frame(payload) for payload in sent)

    for start in range(0, len(stream), size):
        await peer.write_all(stream[start : start + size])

    assert await accepted.payload(len(sent)) == sent


async def test_an_oversize_length_is_refused_before_any_of_the_payload_comes(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen(limits=IMPATIENT))

    peer.write(tcp_frame(b"small") + (LIMITS.payload_bytes_max + 1).to_bytes(4, "big"))

    assert await peer.read_tcp_frame() == (True, close_body(TOO_BIG, b"a payload may have at most 100000 bytes"))
    assert (await accepted.loss())[0] == TOO_BIG
    assert accepted.payloads == [b"small"]


async def test_what_follows_an_oversize_length_is_not_taken_for_frames(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())

    peer.write(b"\x7f\xff\xff\xff" + tcp_frame(b"looks like one") * 10)
    await peer.read_tcp_frame()
    peer.write(tcp_frame(b"looks like one") + tcp_frame(close_body(NORMAL), is_close=True))
    peer.hang_up()

    assert (await accepted.loss())[0] == TOO_BIG
    assert accepted.payloads == []


async def test_what_follows_an_oversize_length_is_not_kept(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())
    peer.write(b"\x7f\xff\xff\xff")
    await peer.read_tcp_frame()
    tracemalloc.start()

    for _ in range(200):
        await peer.write_all(bytes(100_000))
    await harness.fence()

    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 5_000_000
    peer.hang_up()
    assert (await accepted.loss())[0] == TOO_BIG


async def test_a_payload_leaves_behind_its_length(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())

    accepted.link.send(b"hello")

    assert await peer.read(9) == b"\x00\x00\x00\x05hello"


async def test_small_payloads_are_not_delayed_by_the_kernel(harness: Harness) -> None:
    for recorder in await harness.pair():
        transport = recorder.link._tcp  # type: ignore[attr-defined]  # noqa: SLF001 - nothing public shows it

        assert transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


# The end.


@pytest.mark.parametrize("code", [NORMAL, 4008])
async def test_a_close_frame_is_answered_with_its_code_before_the_socket_is_closed(harness: Harness, code: int) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())

    peer.write(tcp_frame(close_body(code, b"bye"), is_close=True) + tcp_frame(b"behind it"))

    assert await peer.read_tcp_frame() == (True, close_body(code, b"bye"))
    assert await peer.read_rest() == b""
    assert await accepted.loss() == (code, "bye")
    assert accepted.payloads == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", NO_STATUS),
        (b"\x03", BROKEN),
        (close_body(999), BROKEN),
        (close_body(1006), BROKEN),
        (close_body(NORMAL, b"\xff"), BROKEN),
        (close_body(NORMAL, b"x" * 123), NORMAL),
        (close_body(NORMAL, b"x" * 124), TOO_BIG),
    ],
)
async def test_a_close_frame_is_checked_like_everything_else(harness: Harness, body: bytes, code: int) -> None:
    peer, accepted = await raw_link(harness, await harness.listen(limits=IMPATIENT))

    peer.write(tcp_frame(body, is_close=True))

    assert (await accepted.loss())[0] == code


async def test_our_close_waits_for_the_answer_of_the_peer(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())

    accepted.link.close(4008, "slow")

    assert await peer.read_tcp_frame() == (True, close_body(4008, b"slow"))
    await harness.fence()
    assert accepted.end is None
    peer.write(tcp_frame(b"on its way") + tcp_frame(close_body(4008), is_close=True))
    assert await accepted.loss() == (4008, "slow")
    assert accepted.payloads == []


async def test_a_peer_that_closes_and_does_not_read_is_cut(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen(limits=IMPATIENT))
    while accepted.congested_count == 0:
        accepted.link.send(b"x" * 50_000)

    peer.write(tcp_frame(close_body(NORMAL), is_close=True))

    assert await accepted.loss() == (NORMAL, "")


async def test_a_peer_that_hangs_up_right_behind_its_close_frame_does_not_upset_tls(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = Harness(SocketAdapter(tcp, "tcps", tls=True))
    peer = await harness.raw(await harness.listen(), client_context())
    peer.write(PREFACE)
    await peer.read_tcp_frame()
    accepted = await harness.accept()

    peer.write(tcp_frame(close_body(NORMAL), is_close=True))
    peer.hang_up()

    assert await accepted.loss() == (NORMAL, "")
    assert caplog.records == []
    await harness.finish()


@pytest.mark.parametrize("farewell", [RawPeer.reset, RawPeer.hang_up, RawPeer.half_close])
async def test_a_peer_that_goes_without_a_close_frame_has_vanished(
    harness: Harness, farewell: Callable[[RawPeer], None]
) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())
    peer.write(tcp_frame(b"whole") + tcp_frame(b"in the middle")[:-3])
    await accepted.payload()

    farewell(peer)

    assert await accepted.loss() == (VANISHED, "")
    assert accepted.payloads == [b"whole"]


async def test_a_peer_that_hangs_up_is_not_written_to_any_more(harness: Harness) -> None:
    peer, accepted = await raw_link(harness, await harness.listen())
    while accepted.congested_count == 0:
        accepted.link.send(b"x" * 50_000)

    peer.half_close()

    assert await accepted.loss() == (VANISHED, "")
    assert accepted.link.buffered_bytes == 0


# Dialing.


@pytest.mark.parametrize(
    ("answer", "retry"),
    [
        pytest.param(tcp_frame(close_body(GOING_AWAY), is_close=True), True, id="stopping"),
        pytest.param(tcp_frame(close_body(INTERNAL), is_close=True), True, id="a fault"),
        pytest.param(tcp_frame(close_body(UNSUPPORTED), is_close=True), False, id="another language"),
        pytest.param(tcp_frame(b"test.v2"), False, id="a choice that was not on offer"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", False, id="HTTP"),
        pytest.param(tcp_frame(BINARY.name.encode())[:-1], True, id="half an answer"),
        pytest.param(b"", True, id="no answer"),
    ],
)
async def test_a_server_that_refuses_for_good_is_told_from_one_that_may_recover(
    answer: bytes,
    retry: bool,
) -> None:
    recorder = LinkRecorder()

    async with raw_server(answer) as port:
        with pytest.raises(DialError) as failure:
            await tcp.dial(recorder, f"tcp://127.0.0.1:{port}", subprotocols=[BINARY], limits=LIMITS)

    assert failure.value.retry == retry
    assert recorder.transport is None


async def test_a_server_that_never_answers_is_worth_another_try() -> None:
    async with raw_server(b"", hangs_up=False) as port:
        with pytest.raises(DialError, match="in time") as failure:
            await tcp.dial(LinkRecorder(), f"tcp://127.0.0.1:{port}", subprotocols=[BINARY], limits=IMPATIENT)

    assert failure.value.retry


async def test_the_first_payload_may_come_with_the_answer() -> None:
    recorder = LinkRecorder()

    async with raw_server(PREFACE + tcp_frame(b"x" * 1000), hangs_up=False) as port:
        await tcp.dial(recorder, f"tcp://127.0.0.1:{port}", subprotocols=[BINARY], limits=LIMITS)

        assert await recorder.payload() == [b"x" * 1000]
    await recorder.loss()


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:7779", "tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:99999", "ws://a:1"]
)
async def test_an_address_that_is_none_is_not_tried_again(url: str) -> None:
    with pytest.raises(DialError) as failure:
        await tcp.dial(LinkRecorder(), url, subprotocols=[BINARY], limits=LIMITS)

    assert not failure.value.retry


async def test_a_server_with_a_certificate_that_nobody_vouches_for_is_not_spoken_to() -> None:
    listener = await SocketAdapter(tcp, "tcps", tls=True).listen(LinkRecorder, [BINARY], LIMITS)

    with pytest.raises(DialError, match="certificate"):
        await tcp.dial(
            LinkRecorder(), f"tcps://127.0.0.1:{listener.addresses[0][1]}", subprotocols=[BINARY], limits=LIMITS
        )

    await listener.close()
