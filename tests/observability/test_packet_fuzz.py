"""Whatever a client sends, the packet log shows something of it: who can make it raise could hide from it."""

from datetime import UTC, datetime
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from holdfast import Limits
from holdfast.core.codec import JSON, MSGPACK, Codec
from holdfast.observability.packet_text import PacketReader, with_text_keys
from holdfast.schemas.frames import Ack, Auth, Data, Frame, FromClient, Hello, Position, Request, Resume
from tests.cases import every_case

BOTH = pytest.mark.parametrize("codec", [MSGPACK, JSON], ids=lambda codec: codec.name)
STRANGER = pytest.mark.parametrize("is_before_sign_in", [True, False], ids=["stranger", "known"])
NAMES = sorted(frame.name for frame in get_args(FromClient))
FIELDS = ["password", "token", "credential", "code", "message", "auth", "scheme", "resume", "positions"]

# All that MessagePack can say, as values and, where Python allows it, as keys.
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(FIELDS)
    | st.binary(max_size=8)
    | st.datetimes(timezones=st.just(UTC))
    | st.builds(msgspec.msgpack.Ext, st.integers(0, 127), st.binary(max_size=4))
)
KEYS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(FIELDS)
    | st.binary(max_size=8)
    | st.tuples(st.text(max_size=3), st.binary(max_size=3))
)


def around(keys: st.SearchStrategy[Any], plain: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        plain,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=10,
    )


def frames_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[list[Any]]]:
    """Payloads that look like ours, with anything in them."""
    fields = st.lists(values | st.integers(0, 5) | st.text(max_size=5), max_size=6)
    return st.lists(st.tuples(st.sampled_from(NAMES), fields).map(lambda each: [each[0], *each[1]]), max_size=3)


def read(codec: Codec, payload: bytes, *, is_before_sign_in: bool) -> None:
    text = PacketReader(codec, Limits()).read(payload, is_from_client=True, is_before_sign_in=is_before_sign_in)

    assert all(line.isprintable() for line in [*text.frames, *text.dump])
    assert text.dump or not payload


def body(value: Any) -> list[list[Any]]:
    return [["data", 1, 1, 0, "say", value]]


@STRANGER
@given(frames=frames_of(around(KEYS, PLAIN)))
@example(frames=body({(1, "a"): 1}))
@example(frames=body({b"\xff": {b"password": {b"a": 1}}}))
@example(frames=body({"password": {(1, b"a"): "x", None: "y"}}))
@example(frames=body({"code": datetime(2026, 1, 1, tzinfo=UTC)}))
@example(frames=body({"pin": msgspec.msgpack.Ext(5, b"x")}))
@example(frames=[["hello", None, None, {(1, 2): {b"x": "y"}}, {"token": {b"": 1}}]])
def test_no_payload_in_messagepack_makes_it_raise(frames: list[list[Any]], *, is_before_sign_in: bool) -> None:
    read(MSGPACK, msgspec.msgpack.encode(frames), is_before_sign_in=is_before_sign_in)


@STRANGER
@given(frames=frames_of(around(st.text(max_size=8) | st.sampled_from(FIELDS), PLAIN)))
def test_no_payload_in_json_makes_it_raise(frames: list[list[Any]], *, is_before_sign_in: bool) -> None:
    read(JSON, msgspec.json.encode(frames, enc_hook=repr), is_before_sign_in=is_before_sign_in)


@every_case(
    "text",
    [
        b"1e400",
        b"-0.0",
        b"1" * 400,
        b"-" + b"9" * 30,
        b'"\\ud800"',
        b'{"\\ud83d\\ude00":1}',
        b'{"password":' + b"[" * 1500 + b"]" * 1500 + b"}",
        b"[" * 1900 + b"]" * 1900,
    ],
)
def test_nor_do_the_strange_corners_of_json(text: bytes) -> None:
    read(JSON, b'[["data",1,1,0,"say",' + text + b"]]", is_before_sign_in=False)
    read(JSON, b'[["hello",null,null,' + text + b"]]", is_before_sign_in=True)


@pytest.mark.parametrize("depth", [100, 900, 1300, 2000, 4000])
def test_nor_does_what_is_nested_deeply(depth: int) -> None:
    read(MSGPACK, b"\x91\x96\xa4data\x01\x01\x00\xa3say" + b"\x91" * depth + b"\x00", is_before_sign_in=False)
    read(
        MSGPACK, b"\x91\x96\xa4data\x01\x01\x00\xa3say" + b"\x81\xa1a" * (depth // 3) + b"\x00", is_before_sign_in=False
    )
    # A key within a key within a key.
    read(MSGPACK, b"\x91\x96\xa4data\x01\x01\x00\xa3say\x81" + b"\x91" * depth + b"\x00\x00", is_before_sign_in=False)


@BOTH
@STRANGER
@given(payload=st.binary(max_size=200))
def test_no_bytes_at_all_make_it_raise(codec: Codec, payload: bytes, *, is_before_sign_in: bool) -> None:
    read(codec, payload, is_before_sign_in=is_before_sign_in)


@BOTH
@given(data=st.data())
def test_nor_does_one_of_ours_with_a_byte_that_is_wrong(codec: Codec, data: st.DataObject) -> None:
    arguments = Raw(codec.encode({"room": "r1", "password": "open-sesame", "more": [1, {"a": None}]}))
    ours: list[Frame] = [
        Hello(Auth("guest", "ann:secret"), Resume("s1", "token", [Position(1, 1, 5)])),
        Request(1, "join", arguments),
        Data(1, 1, 0, "say", arguments),
        Ack(1, 4),
    ]
    payload = bytearray(codec.payload(data.draw(st.sampled_from(ours))))
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))

    read(codec, bytes(payload), is_before_sign_in=True)
    read(codec, bytes(payload), is_before_sign_in=False)


def test_an_extension_is_shown_in_words() -> None:
    shown = with_text_keys({"a": [msgspec.msgpack.Ext(5, b"xyz")]})

    assert shown == {"a": ["(extension 5, 3 bytes)"]}
