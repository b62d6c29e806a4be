"""Bytes to frames and back: every vector whole, cut at every byte, with something after it; and how payloads split."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from holdfast.core.codec import JSON, MSGPACK, Codec
from holdfast.core.codecs import CODECS
from holdfast.core.errors import ProtocolError
from holdfast.core.reasons import Reason
from holdfast.schemas.frames import Ack, Auth, Bye, Data, Frame, Hello, Latest, Pong, Request, Resume, Welcome
from tests.cases import every_case
from tests.core.vectors import readers, whole_payloads

PAYLOADS = whole_payloads()

each_codec = pytest.mark.parametrize("codec", CODECS.values(), ids=lambda codec: codec.name.rpartition(".")[2])
each_payload = every_case(
    ("codec", "direction", "payload"),
    [case[1:] for case in PAYLOADS],
    ids=[f"{case[1].name.rpartition('.')[2]} {case[0]}" for case in PAYLOADS],
)


def test_each_codec_is_found_by_the_name_of_its_dialect() -> None:
    assert list(CODECS.items())[:2] == [("holdfast.v1.msgpack", MSGPACK), ("holdfast.v1.json", JSON)]
    assert set(CODECS) == {MSGPACK.name, JSON.name, "holdfast.v1.protobuf"}
    assert (MSGPACK.text, JSON.text) == (False, True)


# The vectors, byte by byte


@each_payload
def test_what_is_read_is_written_again_byte_for_byte(codec: Codec, direction: str, payload: bytes) -> None:
    for read in readers(codec, direction):
        assert codec.payload(*read(payload)) == payload


@each_payload
def test_a_payload_is_refused_wherever_it_is_cut(codec: Codec, direction: str, payload: bytes) -> None:
    for read in readers(codec, direction):
        for length in range(len(payload)):
            with pytest.raises(ProtocolError):
                read(payload[:length])


@each_payload
def test_a_payload_is_refused_with_anything_after_it(codec: Codec, direction: str, payload: bytes) -> None:
    for read in readers(codec, direction):
        for trailing in (b"\0", b"\x90", b"]", b"[]", b"\xff", payload):
            with pytest.raises(ProtocolError):
                read(payload + trailing)


@each_payload
def test_a_payload_with_any_one_byte_changed_is_read_or_refused(codec: Codec, direction: str, payload: bytes) -> None:
    for read in readers(codec, direction):
        for place in range(len(payload)):
            for flip in (0x01, 0x20, 0x80, 0xFF):
                changed = bytearray(payload)
                changed[place] ^= flip
                read_or_refused(read, bytes(changed))


def read_or_refused(read: Any, payload: bytes) -> list[Frame] | None:
    try:
        frames: list[Frame] = read(payload)
    except ProtocolError:
        return None
    return frames


@each_codec
def test_bytes_of_any_kind_are_taken(codec: Codec) -> None:
    payload = codec.payload(Ack(1, 2))

    assert codec.from_client(bytearray(payload)) == codec.from_client(memoryview(payload)) == [Ack(1, 2)]  # type: ignore[arg-type]  # transports hand over bytes; nothing depends on it


# What is refused, and how


@each_codec
def test_what_cannot_be_read_is_the_peers_fault(codec: Codec) -> None:
    with pytest.raises(ProtocolError) as refused:
        codec.from_client(b"\xc1")

    assert refused.value.reason is Reason.PROTOCOL
    assert refused.value.__suppress_context__, "what msgspec raised is of no use to anybody"


@each_codec
@pytest.mark.parametrize("depth", [100, 1000, 10_000, 30_000])
def test_a_body_is_read_or_refused_however_deep_it_is(codec: Codec, depth: int) -> None:
    body = b"\x91" * depth + b"\x01" if codec is MSGPACK else b"[" * depth + b"]" * depth

    frames = read_or_refused(codec.from_client, codec.payload(Data(1, 1, 0, "deep", Raw(body))))

    assert frames is None or len(frames) == 1


@each_codec
def test_a_body_is_not_looked_into(codec: Codec) -> None:
    body = codec.encode({"x": [1, {"y": None}]})

    (frame,) = codec.from_client(codec.payload(Data(1, 1, 0, "move", Raw(body))))

    assert isinstance(frame, Data)
    assert bytes(frame.body) == body


@pytest.mark.parametrize(
    "frame",
    [
        Hello(Auth("password", "open sesame"), Resume("public", "open sesame"), "client"),
        Auth("password", "open sesame"),
        Resume("public", "open sesame"),
    ],
)
def test_no_secret_is_printed(frame: Any) -> None:
    assert "sesame" not in repr(frame)
    assert "sesame" not in str(frame)


def test_the_secrets_of_a_welcome_are_not_printed() -> None:
    (welcome,) = next(
        codec.from_server(payload) for name, codec, _, payload in PAYLOADS if name == "welcome a new guest"
    )

    assert isinstance(welcome, Welcome)
    assert welcome.token not in repr(welcome)
    assert welcome.credential not in repr(welcome)


# How frames become payloads

SMALL = [Ack(1, n % 100) for n in range(70_000)]


@each_codec
@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 17, 255, 256, 65_535, 65_536, 65_537])
def test_a_payload_holds_any_number_of_frames(codec: Codec, count: int) -> None:
    frames = SMALL[:count]

    payload = codec.payload(*frames)

    assert codec.from_client(payload) == frames
    assert codec.from_server(payload) == frames


@every_case(
    ("count", "head"),
    [
        (0, b"\x90"),
        (1, b"\x91"),
        (15, b"\x9f"),
        (16, b"\xdc\x00\x10"),
        (65_535, b"\xdc\xff\xff"),
        (65_536, b"\xdd\x00\x01\x00\x00"),
    ],
)
def test_the_head_of_a_payload_is_the_shortest_that_counts_its_frames(count: int, head: bytes) -> None:
    assert MSGPACK.encode([None] * count) == head + b"\xc0" * count


@each_codec
@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=60),
    bytes_max=st.integers(64, 2000),
)
def test_payloads_hold_every_frame_in_order_and_never_more_bytes_than_allowed(
    codec: Codec, sizes: list[int], bytes_max: int
) -> None:
    frames: list[Frame] = [Bye("x" * min(size, bytes_max - 32)) for size in sizes]

    payloads = codec.payloads(frames, bytes_max)

    assert [frame for payload in payloads for frame in codec.from_client(payload)] == frames
    assert all(len(payload) <= bytes_max for payload in payloads)


@each_codec
def test_what_fits_in_one_payload_is_one_payload(codec: Codec) -> None:
    frames = SMALL[:1000]

    assert codec.payloads(frames, 64 * 1024) == [codec.payload(*frames)]


@each_codec
@given(size=st.integers(0, 100), count=st.integers(2, 400), bytes_max=st.integers(2048, 8192))
def test_payloads_of_like_frames_are_nearly_full(codec: Codec, size: int, count: int, bytes_max: int) -> None:
    payloads = codec.payloads([Bye("x" * size)] * count, bytes_max)

    assert len(payloads) <= 1.2 * sum(map(len, payloads)) / bytes_max + 1


@each_codec
@given(sizes=st.lists(st.sampled_from([0, 10, 5_000]), min_size=2, max_size=60))
def test_a_frame_that_is_larger_than_allowed_is_alone(codec: Codec, sizes: list[int]) -> None:
    frames = [Latest(1, "say", Raw(codec.encode("x" * size))) for size in sizes]

    payloads = codec.payloads(frames, 1000)

    assert codec.encode([frame for payload in payloads for frame in codec.from_client(payload)]) == codec.encode(frames)
    assert all(len(payload) <= 1000 or len(codec.from_client(payload)) == 1 for payload in payloads)


@each_codec
@pytest.mark.parametrize("over", [-1, 0, 1])
def test_payloads_split_where_the_next_frame_would_not_fit(codec: Codec, over: int) -> None:
    frame = Bye("x" * 100)
    most = len(codec.payload(*[frame] * 10))

    payloads = codec.payloads([frame] * 10, most - over)

    assert len(payloads) == (2 if over > 0 else 1)
    assert all(len(payload) <= most - over for payload in payloads)


@each_codec
def test_a_frame_larger_than_a_payload_goes_alone_because_who_made_it_has_to_see_to_its_size(codec: Codec) -> None:
    small, large = Ack(1, 1), Bye("x" * 500)

    assert codec.payloads([small, large, small], 256) == [codec.payload(each) for each in (small, large, small)]


@each_codec
def test_frames_of_every_kind_travel_together(codec: Codec) -> None:
    body = Raw(codec.encode({"n": 1}))
    frames: list[Frame] = [
        Hello(Auth()),
        Pong(1, 1, 1),
        Data(1, 1, 0, "move", body),
        Latest(1, "aim", body),
        Request(1, "search", body),
        Ack(1, 1),
        Bye(),
    ]

    heard = codec.from_client(codec.payload(*frames))

    assert [type(frame) for frame in heard] == [type(frame) for frame in frames]
    assert codec.payload(*heard) == codec.payload(*frames)
