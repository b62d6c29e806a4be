from math import inf, nan
from typing import Any

import msgspec
import pytest

from holdfast import F32, Message
from holdfast.core.codec import DECODE_ERRORS, JSON, MSGPACK
from holdfast.core.codecs import CODECS
from holdfast.core.finite import has_floats
from holdfast.core.handlers import Handler, bounded
from tests.cases import every_case


class Move(Message):
    x: float = 0.0
    path: list[tuple[float, int]] = msgspec.field(default_factory=list)
    by: dict[str, F32] = msgspec.field(default_factory=dict)
    text: str = ""
    data: bytes = b""


class Wish(Message):
    what: Any = None


class Say(Message):
    text: str
    number: int = 0


def decoded(message: Any, kind: type[Message]) -> Any:
    decoders = {codec: codec.body_decoder(kind) for codec in CODECS.values()}
    handler = bounded({"m": Handler(kind, lambda: None, decoders)}, 32)["m"]
    return handler.decoders[MSGPACK].decode(msgspec.Raw(MSGPACK.encode(message)))


@every_case("number", [nan, inf, -inf, -nan])
def test_numbers_that_are_not_finite_are_refused_wherever_they_are(number: float) -> None:
    for message in (Move(x=number), Move(path=[(1.0, 2), (number, 2)]), Move(by={"a": number})):
        with pytest.raises(DECODE_ERRORS, match="must be finite"):
            decoded(message, Move)
    for what in (number, [1, {"a": [number]}], {"a": {"b": number}}):
        with pytest.raises(DECODE_ERRORS, match="must be finite"):
            decoded(Wish(what), Wish)
    for packed in (b"\xca\x7f\x80\x00\x00", b"\xca\xff\xc0\x00\x00"):
        with pytest.raises(DECODE_ERRORS, match="must be finite"):
            decoded(Wish(msgspec.Raw(packed)), Wish)


def test_what_only_looks_like_one_is_read() -> None:
    look_alike = MSGPACK.encode(nan) + MSGPACK.encode(inf)
    for message in (Move(1.7e308, [(-1e-300, 0)], {"a": 0.5}, "x", look_alike), Move(data=b"\xca\x7f\xff" * 9)):
        assert decoded(message, Move) == message


def test_messages_without_floats_are_not_looked_through() -> None:
    assert [has_floats(kind) for kind in (Move, Wish, Say)] == [True, True, False]
    decoders = {JSON: JSON.body_decoder(Say), MSGPACK: MSGPACK.body_decoder(Say)}
    handler = Handler(Say, lambda: None, decoders)
    assert bounded({"say": handler}, 32)["say"] is handler
