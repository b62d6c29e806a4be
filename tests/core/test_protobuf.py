"""The codec holdfast.v1.protobuf: it means what the others mean, and refuses what they refuse."""

from contextlib import suppress
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Meta, Raw, UnsetType
from spec.generate import PROTO, as_values

from holdfast.cli.proto_file import frames_file
from holdfast.core.codec import DECODE_ERRORS, JSON, MSGPACK
from holdfast.core.errors import ProtocolError
from holdfast.core.finite import finite_decoders, request_decoders
from holdfast.core.messages import Message
from holdfast.core.nesting import bounded_decoders
from holdfast.core.proto_types import BadFieldNumber, ProtoTypes, check_numbers
from holdfast.core.protobuf import PROTOBUF, typed
from holdfast.schemas.frames import Ack, Data, Reply
from holdfast.schemas.requests import REQUESTS, Create
from holdfast.schemas.room import RoomInfo
from tests.cli.types.every_type import Everything, everything
from tests.core.vectors import Case, cases, each, readers


class Position(Message):
    """All that has a number of its own, or does not."""

    x: float
    name: str = "nobody"
    target: int | None = None
    lives: int | None = 3
    flag: int | UnsetType = UNSET
    tags: list[str] = msgspec.field(default_factory=lambda: ["new"])
    anything: Any = None


@each("protobuf/frames.json")
def test_a_frame_is_read_as_it_was_written_and_means_what_it_means_in_json(case: Case) -> None:
    payload = bytes.fromhex(case["hex"])
    for read, same in zip(readers(PROTOBUF, case["direction"]), readers(JSON, case["direction"]), strict=True):
        (frame,) = read(payload)
        (meant,) = same(JSON.encode([case["frame"]]))

        assert PROTOBUF.payload(frame) == payload
        assert PROTOBUF.payload(as_values(meant)) == payload


@each("protobuf/refused.json")
def test_what_no_peer_may_send_is_refused(case: Case) -> None:
    for read in readers(PROTOBUF, case["direction"]):
        with pytest.raises(ProtocolError):
            read(bytes.fromhex(case["hex"]))


def test_whatever_one_byte_becomes_or_wherever_a_payload_ends_it_is_frames_or_refused() -> None:
    for case in cases("protobuf/frames.json"):
        payload = bytes.fromhex(case["hex"])
        for read in readers(PROTOBUF, case["direction"]):
            changed = [payload[:end] for end in range(len(payload))]
            for place in range(len(payload)):
                head, octet, tail = payload[:place], payload[place], payload[place + 1 :]
                changed += [head + bytes([octet ^ flip]) + tail for flip in (0x01, 0x20, 0x80)]
            for each_payload in changed:
                with suppress(ProtocolError):
                    read(each_payload)


def test_the_published_file_is_what_the_codec_uses() -> None:
    assert PROTO.read_text("utf-8") == frames_file(), "run: python -m spec.generate"


# Messages


def test_a_message_with_every_type_arrives_as_it_was() -> None:
    sent = everything()
    arrived = MSGPACK.body_decoder(Everything).decode(MSGPACK.encode(sent))

    received = PROTOBUF.body_decoder(Everything).decode(PROTOBUF.encode(sent))

    for name in Everything.__struct_fields__:
        if name != "raw":
            assert getattr(received, name) == getattr(arrived, name), name


@given(st.builds(Position, st.floats(allow_nan=False), st.text(), st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_a_message_of_any_content_arrives_as_it_was(position: Position) -> None:
    assert PROTOBUF.body_decoder(Position).decode(PROTOBUF.encode(position)) == position


def test_what_is_absent_has_its_default_and_none_is_none() -> None:
    decode = PROTOBUF.body_decoder(Position).decode
    nothing = Position(0.0, "", None, None, UNSET, [], None)

    assert decode(b"") == Position(0.0)
    assert decode(PROTOBUF.encode(nothing)) == nothing
    assert decode(PROTOBUF.encode(Position(1.0, flag=0, target=0))) == Position(1.0, flag=0, target=0)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(VALUES)
def test_any_value_arrives_as_it_was(value: Any) -> None:
    assert PROTOBUF.body_decoder(Position).decode(PROTOBUF.encode(Position(1.0, anything=value))).anything == value


@pytest.mark.parametrize("value", [2**64, object()])
def test_a_value_that_no_codec_carries_is_the_games_mistake(value: Any) -> None:
    with pytest.raises((TypeError, OverflowError)):
        PROTOBUF.encode(Position(1.0, anything=value))


def test_a_field_with_another_type_than_its_own_is_named() -> None:
    with pytest.raises(TypeError, match="'name' is string in protobuf, and cannot be 5"):
        PROTOBUF.encode(Position(1.0, 5))  # type: ignore[arg-type]  # what is wrong


def test_nesting_is_bounded_by_the_same_limit() -> None:
    (decoder,) = bounded_decoders({PROTOBUF: PROTOBUF.body_decoder(Position)}, 5).values()
    deep: Any = 1
    for _ in range(4):
        deep = [deep]

    assert decoder.decode(PROTOBUF.encode(Position(1.0, anything=deep))).anything == deep
    with pytest.raises(msgspec.ValidationError, match="more than 5 levels"):
        decoder.decode(PROTOBUF.encode(Position(1.0, anything=[deep])))
    for _ in range(200):
        deep = [deep]
    with pytest.raises(DECODE_ERRORS):
        PROTOBUF.body_decoder(Position).decode(PROTOBUF.encode(Position(1.0, anything=deep)))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_not_finite_are_refused_where_clients_send_them(number: float) -> None:
    (decoder,) = finite_decoders({PROTOBUF: PROTOBUF.body_decoder(Position)}).values()
    for sent in (Position(number), Position(1.0, anything=[number])):
        with pytest.raises(msgspec.ValidationError, match="must be finite"):
            decoder.decode(PROTOBUF.encode(sent))


def test_requests_are_typed_and_one_with_something_unknown_is_refused() -> None:
    encoded = PROTOBUF.encode_request("create", {"kind": "arena", "properties": {"level": 3, "map": "dust"}})
    decoder = request_decoders(Create, 32)[PROTOBUF]

    assert decoder.decode(encoded) == Create("arena", {"level": 3, "map": "dust"})
    # Field 99, which a newer client may mean something by.
    with pytest.raises(DECODE_ERRORS, match="unknown fields"):
        decoder.decode(encoded + bytes.fromhex("980601"))
    for operation, kind in REQUESTS.items():
        with pytest.raises(DECODE_ERRORS):
            request_decoders(kind, 32)[PROTOBUF].decode(bytes.fromhex("980601"))
        assert PROTOBUF.encode_request(operation, {}) == b""


def test_answers_and_asks_carry_the_bytes_of_a_message() -> None:
    info = RoomInfo("r1", "arena", 1, 8, "lobby", {"level": 3})
    (reply,) = PROTOBUF.from_server(PROTOBUF.payload(Reply(7, info)))
    assert isinstance(reply, Reply)
    assert typed(reply.result, RoomInfo) == info
    assert typed(Raw(PROTOBUF.encode([info])), list[RoomInfo]) == [info]
    assert typed(Raw(PROTOBUF.encode([])), list[RoomInfo]) == []

    name, body = PROTOBUF.body_decoder(tuple[str, Raw]).decode(PROTOBUF.encode(("position", Position(2.0))))

    assert (name, PROTOBUF.body_decoder(Position).decode(body)) == ("position", Position(2.0))


def test_the_log_shows_no_bodies_but_the_arguments_of_requests_are_still_found() -> None:
    payload = PROTOBUF.payload(Data(1, 2, 0, "say", Raw(b"secret")), Ack(1, 2))

    assert PROTOBUF.plain_frames(payload) == [["data", 1, 2, 0, "say", "(6 bytes)"], ["ack", 1, 2]]


# Numbers


def numbers(kind: Any) -> dict[str, int]:
    message = ProtoTypes().of(kind)
    check_numbers(message)
    return {field.name: field.number for field in message.fields}


def test_a_number_is_the_place_of_a_field_or_what_its_annotation_says() -> None:
    class Pinned(Message):
        x: float
        z: Annotated[float, Meta(extra={"protobuf": 4})]
        after: int

    assert numbers(Position)["target"] == 3
    assert numbers(Pinned) == {"x": 1, "z": 4, "after": 5}


@pytest.mark.parametrize("number", [1, 0, -1, 19_000, 2**29, "2"])
def test_a_number_that_is_taken_or_none_is_refused(number: Any) -> None:
    kind = msgspec.defstruct("Wrong", [("x", float), ("y", Annotated[float, Meta(extra={"protobuf": number})])])

    with pytest.raises(BadFieldNumber):
        numbers(kind)
