"""permessage-deflate without a socket: what is agreed on, messages made smaller and larger, and peers that lie."""

import tracemalloc
import zlib
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory

from holdfast.transports.deflate import (
    SMALL_BYTES,
    WINDOW_BITS,
    Agreement,
    Inflater,
    NotDeflated,
    agreed,
    deflated,
)
from tests.cases import every_case

ACCEPTED = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
LARGE = b"the same again and again, " * 20
MAX = 100_000


def inflated(*pieces: bytes, bytes_max: int = MAX) -> bytes:
    """A whole message, from its pieces."""
    inflater = Inflater()
    read = b""
    for number, piece in enumerate(pieces, start=1):
        read += inflater.read(piece, bytes_max - len(read), is_last=number == len(pieces))
        if len(read) > bytes_max:
            break
    return read


def message(payload: bytes, window_bits: int = 15, level: int = 9) -> bytes:
    """What a client makes of it."""
    deflater = zlib.compressobj(level, zlib.DEFLATED, -window_bits)
    return (deflater.compress(payload) + deflater.flush(zlib.Z_SYNC_FLUSH))[:-4]


def final(payload: bytes) -> bytes:
    """The same in a stream that ends."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    return deflater.compress(payload) + deflater.flush()


# What is agreed on


@pytest.mark.parametrize(
    ("offer", "answer"),
    [
        pytest.param("permessage-deflate", ACCEPTED, id="as Firefox says it"),
        pytest.param("permessage-deflate; client_max_window_bits", ACCEPTED, id="as Chromium and Safari say it"),
        pytest.param("permessage-deflate;client_max_window_bits=8", ACCEPTED, id="the smallest window of a client"),
        pytest.param('permessage-deflate; client_max_window_bits="15"', ACCEPTED, id="a quoted value"),
        pytest.param('permessage-deflate; client_max_window_bits="1\\5"', ACCEPTED, id="an escape in a quoted value"),
        pytest.param("permessage-deflate; server_no_context_takeover", ACCEPTED, id="what the server does anyway"),
        pytest.param("permessage-deflate; client_no_context_takeover", ACCEPTED, id="what the client does anyway"),
        pytest.param("permessage-deflate; server_max_window_bits=9", f"{ACCEPTED}; server_max_window_bits=9", id="9"),
        pytest.param(
            "permessage-deflate; server_max_window_bits=15",
            f"{ACCEPTED}; server_max_window_bits=12",
            id="less than asked",
        ),
        pytest.param(
            "permessage-deflate ;\tserver_max_window_bits = 10 ; client_max_window_bits ,",
            f"{ACCEPTED}; server_max_window_bits=10",
            id="blanks wherever they are allowed",
        ),
        # RFC 7692, 7.1.3: a fallback behind the favourite.
        pytest.param(
            "permessage-deflate; client_max_window_bits; server_max_window_bits=10,\r\npermessage-deflate".replace(
                "\r\n", ""
            ),
            f"{ACCEPTED}; server_max_window_bits=10",
            id="the first of several",
        ),
        pytest.param(
            "permessage-deflate; server_max_window_bits=8, permessage-deflate", ACCEPTED, id="the first that can be had"
        ),
        pytest.param(
            "x-webkit-deflate-frame, , permessage-deflate; x=1, permessage-deflate", ACCEPTED, id="others first"
        ),
    ],
)
def test_the_first_acceptable_offer_is_accepted(offer: str, answer: str) -> None:
    agreement = agreed([offer])

    assert agreement is not None
    assert agreement.answer == answer


@every_case(
    "offer",
    [
        "",
        " , ",
        "permessage-bzip2",
        "PERMESSAGE-deflate-2",
        "permessage-deflate; unknown",
        "permessage-deflate; server_no_context_takeover=1",
        "permessage-deflate; client_no_context_takeover=true",
        "permessage-deflate; client_max_window_bits; client_max_window_bits=10",
        "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
        "permessage-deflate; server_max_window_bits",
        "permessage-deflate; server_max_window_bits=7",
        "permessage-deflate; server_max_window_bits=8",  # which zlib does not write
        "permessage-deflate; server_max_window_bits=16",
        "permessage-deflate; server_max_window_bits=010",
        "permessage-deflate; server_max_window_bits=+9",
        "permessage-deflate; server_max_window_bits=1e1",
        "permessage-deflate; client_max_window_bits=7",
        "permessage-deflate; client_max_window_bits=16",
        "permessage-deflate; client_max_window_bits=",
        'permessage-deflate; client_max_window_bits=""',
        'permessage-deflate; client_max_window_bits="1 5"',
        'permessage-deflate; client_max_window_bits="15',
        "permessage-deflate; client_max_window_bits=١٥",
        "permessage-deflate;",
        "permessage-deflate; ; client_max_window_bits",
        "permessage-deflate client_max_window_bits",
        "; permessage-deflate",
        "=, permessage-deflate",
        "permessage-deflate, a(b)",
        "permessage-deflate\x00",
    ],
)
def test_an_offer_that_is_wrong_or_cannot_be_had_is_declined(offer: str) -> None:
    assert agreed([offer]) is None


def test_offers_may_be_spread_over_several_headers() -> None:
    assert agreed(["foo; bar=1", "permessage-deflate; server_max_window_bits=11"]) == Agreement(
        f"{ACCEPTED}; server_max_window_bits=11", 11
    )
    assert agreed([]) is None


@given(st.text(alphabet='permsag-dflt;,= \t"\\0159_x', max_size=60) | st.text(max_size=60))
def test_garbage_in_the_header_raises_nothing(header: str) -> None:
    assert agreed([header]) is None or "permessage-deflate" in header


WORDS = [
    *("server_no_context_takeover", "client_no_context_takeover", "client_max_window_bits", "x"),
    *(f"{end}_max_window_bits={bits}" for end in ("server", "client") for bits in (7, 8, 9, 12, 15, 16)),
]


@given(st.lists(st.sampled_from(WORDS), max_size=4))
def test_what_is_accepted_is_what_another_server_accepts(words: list[str]) -> None:
    offer = "; ".join(["permessage-deflate", *words])
    parameters = [(name, value if equals else None) for name, equals, value in (word.partition("=") for word in words)]
    try:
        ServerPerMessageDeflateFactory().process_request_params(parameters, [])
        is_accepted = True
    except Exception:  # noqa: BLE001 - of several kinds
        is_accepted = False

    # A window of 2^8 is a question of what zlib can do, and nothing of the standard's.
    assert (agreed([offer]) is not None) == (is_accepted and "server_max_window_bits=8" not in words)


def test_a_long_header_takes_no_more_than_its_length() -> None:
    for header in ("permessage-deflate" + "; " * 8000, " \t" * 8000, 'a;b="' + "\\" * 16_000, ",a;b" * 4000 + "\x00"):
        assert agreed([header]) is None


# The examples of RFC 7692, 7.2.3


@pytest.mark.parametrize(
    ("pieces", "payload"),
    [
        pytest.param(["f248cdc9c90700"], b"Hello", id="one block"),
        pytest.param(["f248cd", "c9c90700"], b"Hello", id="two fragments"),
        pytest.param(["000500faff48656c6c6f00"], b"Hello", id="a block without compression"),
        pytest.param(["f348cdc9c9070000"], b"Hello", id="a block that is the last one of its stream"),
        pytest.param(["f24805000000ffffcac9c90700"], b"Hello", id="two blocks"),
        pytest.param(["00"], b"", id="an empty message"),
        pytest.param(["", "f248cdc9c90700", ""], b"Hello", id="empty fragments around it"),
        pytest.param(["f2", "48", "cd", "c9", "c9", "07", "00"], b"Hello", id="byte by byte"),
    ],
)
def test_the_examples_of_the_standard_are_read(pieces: list[str], payload: bytes) -> None:
    assert inflated(*map(bytes.fromhex, pieces)) == payload


def test_the_example_with_a_context_is_refused_for_no_context_was_agreed_on() -> None:
    # "Hello" a second time, as a reference to the first.
    with pytest.raises(NotDeflated):
        inflated(bytes.fromhex("f200110000"))


# There and back


@given(
    st.binary(max_size=3000) | st.builds(lambda part, count: part * count, st.binary(max_size=60), st.integers(0, 99))
)
def test_what_we_deflate_is_read_again_with_the_window_that_was_agreed_on(payload: bytes) -> None:
    for window_bits in range(9, WINDOW_BITS + 1):
        ours = deflated(payload, window_bits)

        if ours is not None:
            assert len(ours) < len(payload)
            assert zlib.decompressobj(-window_bits).decompress(ours + b"\x00\x00\xff\xff") == payload
            assert inflated(ours) == payload


@given(st.binary(max_size=2000), st.lists(st.integers(0, 2000), max_size=5), st.integers(9, 15), st.integers(0, 9))
def test_what_clients_deflate_is_read_in_whatever_pieces(
    payload: bytes, cuts: list[int], window_bits: int, level: int
) -> None:
    whole = message(payload, window_bits, level)
    ends = [0, *sorted(cuts), len(whole)]

    assert inflated(*(whole[start:end] for start, end in pairwise(ends))) == payload


@pytest.mark.parametrize("window_bits", range(9, WINDOW_BITS + 1))
def test_what_we_deflate_refers_to_nothing_outside_the_window(window_bits: int) -> None:
    ours = deflated(Random(window_bits).randbytes(2**window_bits) * 3 + LARGE * 10, window_bits)
    inflater = zlib.decompressobj(-window_bits)
    rest = ours

    # In small portions, for within one it does not look at how far back something is.
    while rest:
        inflater.decompress(rest, 16)
        rest = inflater.unconsumed_tail


def test_clients_may_refer_to_what_is_far_back() -> None:
    payload = Random(1).randbytes(30_000) * 2
    whole = message(payload)
    assert len(whole) < 40_000

    assert inflated(*(whole[start : start + 50] for start in range(0, len(whole), 50))) == payload


def test_what_is_small_or_does_not_become_smaller_goes_as_it_is() -> None:
    assert deflated(b"x" * (SMALL_BYTES - 1)) is None
    assert deflated(b"x" * SMALL_BYTES) is not None
    assert deflated(Random(1).randbytes(5000)) is None


def test_no_message_leaves_a_trace_in_the_next() -> None:
    secret = Random(7).randbytes(100).hex().encode()
    alone = deflated(secret)

    deflated(secret + LARGE)

    assert deflated(secret) == alone


# Peers that lie


def test_a_bomb_makes_no_more_than_one_byte_too_many() -> None:
    bomb = message(bytes(50_000_000))
    assert len(bomb) < 60_000
    tracemalloc.start()

    try:
        read = inflated(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(read) == MAX + 1
    # Python doubles its buffer as it fills.
    assert peak < 4 * MAX + len(bomb) + 50_000


def test_a_bomb_in_pieces_counts_as_one() -> None:
    bomb = message(bytes(1_000_000))

    assert len(inflated(*(bomb[start : start + 50] for start in range(0, len(bomb), 50)))) == MAX + 1


@pytest.mark.parametrize("size", [0, 1, MAX - 1, MAX])
def test_a_message_of_just_the_size_is_read(size: int) -> None:
    assert inflated(message(bytes(size))) == bytes(size)


def test_a_message_that_is_cut_short_is_noticed() -> None:
    whole = message(LARGE)
    for short in (*(whole[:size] for size in range(len(whole) - 1)), message(LARGE, level=0)[:50]):
        with pytest.raises(NotDeflated):
            inflated(short)


def test_a_few_streams_may_end_within_a_message_and_no_more() -> None:
    assert inflated(final(b"one ") * 7 + b"\x00") == b"one " * 7
    with pytest.raises(NotDeflated):
        inflated(final(b"") * 8 + b"\x00")


@pytest.mark.parametrize("behind", ["", "ff", "0000", "f248cdc9c907"])
def test_behind_the_end_of_a_stream_another_begins_or_nothing_is_read(behind: str) -> None:
    with pytest.raises(NotDeflated):
        inflated(final(b"an end") + bytes.fromhex(behind))


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=5))
def test_garbage_is_read_or_refused_and_makes_nothing_large(pieces: list[bytes]) -> None:
    try:
        read = inflated(*pieces, bytes_max=1000)
    except NotDeflated:
        return
    assert len(read) <= 1001
