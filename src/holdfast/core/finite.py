"""Refuses NaN and infinity in what clients send. MessagePack has them and JSON has not.

No game expects them, comparisons with NaN are all false, and a state that holds one cannot be shared: with one message,
a client would stop the copies of everybody in its room.
"""

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

import msgspec
import msgspec.inspect as mi

from holdfast.core.codec import MSGPACK, BodyDecoder, Codec
from holdfast.core.codecs import CODECS
from holdfast.core.nesting import bounded_decoders, types_in
from holdfast.core.protobuf import BodyOfProtobuf

# How MessagePack begins such a number. No text contains these bytes, and other values seldom do.
_BEGINNING = re.compile(rb"\xca[\x7f\xff][\x80-\xff]|\xcb[\x7f\xff][\xf0-\xff]")
_WITH_NUMBERS = (mi.FloatType, mi.DecimalType, mi.AnyType, mi.RawType)


def has_floats(kind: Any) -> bool:
    """Whether values of this type may contain floats."""
    return any(isinstance(info, _WITH_NUMBERS) for info in types_in(kind))


def check_finite(codec: Codec, body: Any) -> None:
    """Refuse a body with a number that is not finite, with one of `DECODE_ERRORS`."""
    if codec is MSGPACK and _BEGINNING.search(body) is not None and not _is_finite(msgspec.msgpack.decode(body)):
        raise msgspec.ValidationError("a number must be finite: NaN and infinity cannot be sent")


def _is_finite(value: Any) -> bool:
    todo = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, float) and not isfinite(each):
            return False
        if isinstance(each, dict):
            todo += each
            todo += each.values()
        elif isinstance(each, list | tuple):
            todo += each
    return True


class _Finite:
    """A decoder that first looks for numbers that are not finite."""

    def __init__(self, codec: Codec, decoder: BodyDecoder) -> None:
        self._codec = codec
        self._decode = decoder.decode

    def decode(self, body: Any, /) -> Any:
        check_finite(self._codec, body)
        return self._decode(body)


def finite_decoders(decoders: Mapping[Codec, BodyDecoder]) -> dict[Codec, BodyDecoder]:
    """The same decoders, for finite numbers only."""
    return {
        codec: decoder.finite()
        if isinstance(decoder, BodyOfProtobuf)
        else decoder
        if codec.text
        else _Finite(codec, decoder)
        for codec, decoder in decoders.items()
    }


def request_decoders(kind: Any, depth_max: int) -> dict[Codec, BodyDecoder]:
    """Decoders of a request's arguments, in each codec: to this depth, and with finite numbers only."""
    decoders = {codec: codec.body_decoder(kind) for codec in CODECS.values()}
    return bounded_decoders(finite_decoders(decoders), depth_max)
