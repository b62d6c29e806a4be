"""Whatever the bytes: codecs raise nothing but `ProtocolError`, and bodies nothing but what a room's host contains."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta, Raw

from holdfast import Message, Player, PlayerData, Room, on
from holdfast.core.codec import DECODE_ERRORS, JSON, MSGPACK, Codec
from holdfast.core.codecs import CODECS
from holdfast.core.errors import ProtocolError
from holdfast.core.room import room_handlers
from holdfast.schemas.frames import Data, Frame
from tests.core.noise import Noise
from tests.core.vectors import whole_payloads

GOOD = {codec: [payload for _, spoken, _, payload in whole_payloads() if spoken is codec] for codec in CODECS.values()}
# Each seed is worth this many inputs: drawing them one by one would cost more than trying them.
INPUTS = 50

# That of protobuf has tests and vectors of its own: it has no plain values.
each_codec = pytest.mark.parametrize("codec", [MSGPACK, JSON], ids=lambda codec: codec.name.rpartition(".")[2])
seeds = st.integers(0, 2**32 - 1)
# No deadline: how long an example takes says more of the machine than of the code.
fuzzed = settings(max_examples=40)


def heard(codec: Codec, payload: bytes) -> Iterator[list[Frame]]:
    """What each end makes of it; what it makes nothing of, it refuses."""
    for read in (codec.from_client, codec.from_server):
        frames: list[Frame] = []
        try:
            frames += read(payload)
        except ProtocolError:
            continue
        except BaseException as error:
            error.add_note(f"the payload was {payload.hex()}")
            raise
        yield frames


# Payloads


@each_codec
@given(payload=st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(codec: Codec, payload: bytes) -> None:
    list(heard(codec, payload))


@given(text=st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    list(heard(JSON, text.encode("utf-8", "surrogatepass")))


@each_codec
@fuzzed
@given(seed=seeds)
def test_a_good_payload_gone_bad_is_read_or_refused(codec: Codec, seed: int) -> None:
    noise = Noise(seed)

    for _ in range(INPUTS):
        for frames in heard(codec, noise.mutated(GOOD[codec])):
            assert codec.payload(*frames)


@each_codec
@fuzzed
@given(seed=seeds)
def test_any_value_is_read_or_refused(codec: Codec, seed: int) -> None:
    noise = Noise(seed)

    for _ in range(INPUTS):
        for frames in heard(codec, codec.encode(noise.value())):
            assert codec.payload(*frames)


@each_codec
@fuzzed
@given(seed=seeds)
def test_what_looks_like_a_frame_is_one_or_is_refused(codec: Codec, seed: int) -> None:
    noise = Noise(seed)

    for _ in range(INPUTS):
        near_miss = noise.near_miss()
        for frames in heard(codec, codec.encode([near_miss])):
            assert [frame.name for frame in frames] == near_miss[:1]
            assert any(
                [codec.encode(frame) for frame in again] == [codec.encode(frame) for frame in frames]
                for again in heard(codec, codec.payload(*frames))
            )


@fuzzed
@given(seed=seeds)
def test_what_only_messagepack_can_say_is_read_or_refused(seed: int) -> None:
    noise = Noise(seed)

    for _ in range(INPUTS):
        oddity = noise.oddity()
        for payload in (
            oddity,
            [oddity],
            [["reply", 1, oddity]],
            [["data", 1, 1, 0, "x", oddity]],
            [["ack", oddity, 0]],
        ):
            for frames in heard(MSGPACK, MSGPACK.encode(payload)):
                assert MSGPACK.payload(*frames)


# Bodies, as a room's host decodes them


class Item(msgspec.Struct):
    name: Annotated[str, Meta(max_length=8)]
    count: int = 1


class Everything(Message, kw_only=True):
    """A field of every kind that a game might use."""

    n: int = 0
    x: float = 0.0
    text: str = ""
    flag: bool = False
    way: Literal["north", "south"] = "north"
    raw: bytes = b""
    items: list[Item]
    pair: tuple[int, str] = (0, "")
    table: dict[str, int]
    by_number: dict[int, float]
    names: set[str]
    maybe: Item | None = None
    anything: Any = None
    later: Raw = Raw(b"")


class Playground(Room[PlayerData]):
    @on(Everything)
    def everything(self, player: Player[PlayerData], message: Everything) -> None: ...


DECODERS = room_handlers(Playground)["everything"].decoders
FIELDS = list(Everything.__struct_fields__)


def body_heard(codec: Codec, body: bytes) -> Everything | None:
    """A body on its way to the room's decoder, whose errors the host contains if they are `DECODE_ERRORS`."""
    payload = codec.payload(Data(1, 1, 0, "everything", Raw(body)))
    try:
        frames = codec.from_client(payload)
    except ProtocolError:
        return None
    # A body that is more than one value may have made more than one frame of it.
    (frame, *_) = frames
    assert isinstance(frame, Data)
    try:
        message: Everything = DECODERS[codec].decode(frame.body)
    except DECODE_ERRORS:
        return None
    except BaseException as error:
        error.add_note(f"the body was {body.hex()}")
        raise
    return message


@each_codec
@given(body=st.binary(max_size=200))
def test_any_bytes_of_a_body_are_read_or_refused(codec: Codec, body: bytes) -> None:
    body_heard(codec, body)


@each_codec
@fuzzed
@given(seed=seeds)
def test_any_value_of_a_body_is_read_or_refused(codec: Codec, seed: int) -> None:
    noise = Noise(seed)

    for _ in range(INPUTS):
        message = body_heard(codec, codec.encode(noise.body(FIELDS, noise.value)))

        assert message is None or isinstance(message, Everything)


@fuzzed
@given(seed=seeds)
def test_a_body_that_only_messagepack_can_say_is_read_or_refused(seed: int) -> None:
    noise = Noise(seed)

    for _ in range(INPUTS):
        body_heard(MSGPACK, MSGPACK.encode(noise.body(FIELDS, noise.oddity)))


@each_codec
@pytest.mark.parametrize("depth", [50, 500, 5000, 30_000])
@pytest.mark.parametrize("field", ["anything", "items", "nobody_knows"])
def test_a_body_however_deep_is_read_or_refused(codec: Codec, depth: int, field: str) -> None:
    body = codec.encode({field: 7})
    deep = b"\x91" * depth + b"\x01" if codec is MSGPACK else b"[" * depth + b"]" * depth

    body_heard(codec, body.replace(codec.encode(7), deep))
