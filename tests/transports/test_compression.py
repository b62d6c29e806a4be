"""Compressed payloads: what they cost, what goes through uncompressed, and peers that lie about them."""

import tracemalloc
import zlib
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.silence import Traffic
from holdfast.transports.compression import (
    LINK_BYTES,
    SMALL_BYTES,
    WINDOW_BITS,
    CompressedTransport,
    Offer,
    OfferReceiver,
    compressed,
    wire_bytes_max,
)
from holdfast.transports.memory import MemoryNetwork
from holdfast.transports.port import BROKEN, NORMAL, TOO_BIG, Dialect, DialError
from tests.core.vectors import Case, cases
from tests.transports.harness import BINARY, LIMITS, TEXT
from tests.transports.recorder import Recorder

RAW, DEFLATED = b"\x00", b"\x01"
LARGE = b"the same again and again, " * 20


class Link:
    """A transport that keeps what it is told."""

    kind = "test"
    peer = "nobody"
    is_encrypted = False
    is_compressed = False
    buffered_bytes = 0
    is_up = True
    traffic = Traffic()

    def __init__(self, dialect: Dialect = BINARY) -> None:
        self.dialect = dialect
        self.sent: list[bytes] = []
        self.closed: tuple[int, str] | None = None

    def send(self, payload: bytes) -> None:
        self.sent.append(payload)

    def close(self, code: int, reason: str) -> None:
        self.closed = self.closed or (code, reason)

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


def end(payload_bytes_max: int = LIMITS.payload_bytes_max, *, warm: bool = True) -> tuple[CompressedTransport, Link]:
    """One end of a compressed link, after both have said something."""
    link = Link()
    transport = CompressedTransport(link, BINARY, payload_bytes_max)
    if warm:
        transport.send(b"first")
        assert transport.read(RAW + b"first") == b"first"
        link.sent.clear()
    return transport, link


def deflate(*payloads: bytes) -> list[bytes]:
    """What another deflater makes of them, with the largest window that is allowed."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, -WINDOW_BITS, 9)
    return [(deflater.compress(payload) + deflater.flush(zlib.Z_SYNC_FLUSH))[:-4] for payload in payloads]


# The golden vectors


@pytest.mark.parametrize("case", cases("compression.json"), ids=lambda case: str(case["name"]))
def test_what_is_heard_means_what_the_vector_says(case: Case) -> None:
    link = Link()
    transport = CompressedTransport(link, BINARY, case["payload_bytes_max"])
    transport.send(b"our own first payload")

    for step in case["heard"]:
        payload = transport.read(bytes.fromhex(step["hex"]))

        if "closes" in step:
            assert payload is None
            assert link.closed is not None
            assert link.closed[0] == step["closes"]
        else:
            assert payload == step["payload"].encode()
            assert link.closed is None


# There and back


@given(st.lists(st.one_of(st.binary(max_size=200), st.sampled_from([LARGE, b"", b"x" * 5000])), max_size=20))
def test_payloads_arrive_as_they_were_sent(payloads: list[bytes]) -> None:
    sender, wire = end()
    receiver, _ = end()

    for payload in payloads:
        sender.send(payload)

    assert [receiver.read(message) for message in wire.sent] == payloads


def test_what_repeats_itself_becomes_small() -> None:
    sender, wire = end()

    sender.send(LARGE)
    sender.send(LARGE)

    assert wire.sent[0][:1] == DEFLATED
    assert len(wire.sent[0]) < len(LARGE) / 5
    assert len(wire.sent[1]) < len(wire.sent[0]) / 2


def test_what_is_small_stays_as_it_is() -> None:
    sender, wire = end()

    sender.send(b"x" * (SMALL_BYTES - 1))
    sender.send(b"x" * SMALL_BYTES)

    assert wire.sent[0] == RAW + b"x" * (SMALL_BYTES - 1)
    assert wire.sent[1][:1] == DEFLATED


@pytest.mark.parametrize("size", [SMALL_BYTES, 1000, 65_536, LIMITS.payload_bytes_max])
def test_what_cannot_be_made_smaller_fits_on_the_wire(size: int) -> None:
    sender, wire = end()
    random = Random(size)

    for _ in range(20):
        sender.send(random.randbytes(size))

    assert max(map(len, wire.sent)) <= wire_bytes_max(size)


# Secrets


def test_nothing_is_compressed_before_both_ends_have_said_something() -> None:
    sender, wire = end(warm=False)

    sender.send(LARGE)
    sender.send(LARGE)
    assert wire.sent == [RAW + LARGE, RAW + LARGE]

    sender.read(RAW)
    sender.send(LARGE)
    assert wire.sent[2][:1] == DEFLATED


def test_the_first_payload_is_not_compressed_though_the_peer_has_spoken() -> None:
    sender, wire = end(warm=False)
    sender.read(RAW + b"hello")

    sender.send(LARGE)

    assert wire.sent == [RAW + LARGE]


def test_what_was_not_compressed_leaves_no_trace_in_what_is() -> None:
    secret = Random(7).randbytes(200)
    lengths = []
    for first in (secret, b"something else"):
        sender, wire = end(warm=False)
        sender.send(first)
        sender.read(RAW)
        sender.send(secret)
        lengths.append(len(wire.sent[1]))

    assert lengths[0] == lengths[1]


# Peers that lie


def test_a_bomb_closes_the_link_and_makes_no_more_than_one_payload() -> None:
    bomb = DEFLATED + deflate(bytes(50_000_000))[0]
    receiver, link = end()
    assert len(bomb) < 60_000
    tracemalloc.start()

    try:
        assert receiver.read(bomb) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert link.closed is not None
    assert link.closed[0] == TOO_BIG
    # Python doubles its buffer as it fills.
    assert peak < 4 * LIMITS.payload_bytes_max + LINK_BYTES + len(bomb)


def test_a_stream_that_is_cut_short_is_noticed_and_makes_nothing_large() -> None:
    first, *rest = deflate(LARGE, *(LARGE[start:] for start in range(10)))
    for size in range(1, len(first) - 1):
        receiver, link = end()

        payloads = [receiver.read(DEFLATED + part) for part in (first[:size], *rest) if link.closed is None]

        assert link.closed is not None, f"cut after {size} bytes"
        assert link.closed[0] == BROKEN
        assert all(len(payload) <= LIMITS.payload_bytes_max for payload in payloads if payload is not None)


@given(st.lists(st.binary(max_size=300), max_size=10))
def test_garbage_raises_nothing_and_makes_nothing_large(messages: list[bytes]) -> None:
    receiver, link = end(1000)

    for message in messages:
        payload = receiver.read(message)

        assert payload is None or len(payload) <= 1000
        if payload is None:
            assert link.closed is not None
            assert link.closed[0] in {BROKEN, TOO_BIG}


@given(st.binary(max_size=2000))
def test_garbage_that_is_marked_as_deflated_does_neither(garbage: bytes) -> None:
    receiver, link = end(1000)

    payload = receiver.read(DEFLATED + garbage)

    assert (payload is None) == (link.closed is not None)
    assert payload is None or len(payload) <= 1000


def test_what_comes_behind_the_end_of_a_stream_is_not_kept() -> None:
    receiver, link = end()
    whole = zlib.compress(b"an end", wbits=-WINDOW_BITS)

    assert receiver.read(DEFLATED + whole + bytes(10_000)) is None

    assert link.closed == (BROKEN, "a stream ends with its link")


# Memory


def test_a_link_costs_no_more_memory_than_is_said() -> None:
    random = Random(1)
    payloads = [random.randbytes(20_000), LARGE, bytes(20_000)]
    messages = [DEFLATED + part for part in deflate(*payloads)]
    tracemalloc.start()

    try:
        before, _ = tracemalloc.get_traced_memory()
        links = [end() for _ in range(20)]
        for transport, link in links:
            for payload, message in zip(payloads, messages, strict=True):
                transport.send(payload)
                assert transport.read(message) == payload
            link.sent.clear()
        after, _ = tracemalloc.get_traced_memory()
        for transport, _ in links:
            transport.forget()
        forgotten, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert LINK_BYTES / 2 < (after - before) / len(links) <= LINK_BYTES
    assert (forgotten - before) / len(links) < 4096


def test_a_stranger_costs_nothing() -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        strangers = [end(warm=False)[0] for _ in range(20)]
        for stranger in strangers:
            stranger.read(RAW + b"hello")
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (after - before) / len(strangers) < 2048


# What both ends agree on


async def talk(
    listening: Sequence[Dialect], dialing: Sequence[Dialect], *, server: bool, client: bool
) -> tuple[Recorder, Recorder]:
    """A link between two ends of which each may offer compression or not."""
    network, there, here = MemoryNetwork(), Recorder(), Recorder()
    if server:
        offer = Offer(listening, LIMITS)
        await network.listen(offer.accepting(lambda: there), "here", dialects=offer.dialects, limits=offer.limits)
    else:
        await network.listen(lambda: there, "here", dialects=listening, limits=LIMITS)
    if client:
        offer = Offer(dialing, LIMITS)
        await network.dial(offer.receiver(here), "here", dialects=offer.dialects, limits=offer.limits)
    else:
        await network.dial(here, "here", dialects=dialing, limits=LIMITS)
    return there, here


@pytest.mark.parametrize(("server", "client"), [(False, False), (False, True), (True, False), (True, True)])
async def test_a_link_is_compressed_if_both_ends_want_it(server: bool, client: bool) -> None:
    there, here = await talk([BINARY], [BINARY], server=server, client=client)

    assert there.link.is_compressed is here.link.is_compressed is (server and client)
    assert there.link.dialect == here.link.dialect == BINARY
    for sender, receiver in ((here, there), (there, here), (here, there)):
        sender.link.send(LARGE)
        await receiver.payload(len(receiver.payloads) + 1)
    assert (there.payloads, here.payloads) == ([LARGE, LARGE], [LARGE])
    here.link.close(NORMAL, "")
    assert await there.loss() == (NORMAL, "")


async def test_text_becomes_binary_on_the_wire_and_stays_text_to_who_reads_it() -> None:
    there, here = await talk([BINARY, TEXT], [TEXT], server=True, client=True)

    assert compressed(TEXT) == Dialect("test.v1.text.deflate", text=False)
    assert there.link.dialect == here.link.dialect == TEXT


async def test_without_a_common_dialect_compression_does_not_help() -> None:
    with pytest.raises(DialError):
        await talk([BINARY], [TEXT], server=True, client=True)


@pytest.mark.parametrize("client", [False, True])
async def test_the_limit_of_a_payload_is_the_same_for_a_link_without_compression(client: bool) -> None:
    there, here = await talk([BINARY], [BINARY], server=True, client=client)

    here.link.send(bytes(LIMITS.payload_bytes_max))
    here.link.send(bytes(LIMITS.payload_bytes_max + 1))

    assert (await there.loss())[0] == TOO_BIG
    assert there.payloads == [bytes(LIMITS.payload_bytes_max)]


async def test_a_link_of_another_kind_is_handed_on_as_it_is() -> None:
    recorder, link = Recorder(), Link()

    OfferReceiver(recorder, {}, 10).opened(link)

    assert recorder.link is link
