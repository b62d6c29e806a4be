"""How deep a body is nested. msgspec stops at the interpreter's own limit, a thousand deep; games should not meet that.

Only a type with `Any` in it, or one that holds itself, can be nested deeper than it was written down. For these, bytes
that begin an array or an object are counted first, which is quick: few bodies have more of them than may be nested.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import msgspec.inspect as mi

from holdfast.core.codec import CODECS, DECODE_ERRORS, BodyDecoder, Codec

# Of MessagePack: fixmap, fixarray, array 16 and 32, map 16 and 32.
_CONTAINERS = bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0)])
_DECODERS = {codec: codec.body_decoder(Any) for codec in CODECS.values()}


def can_nest(kind: Any) -> bool:
    """Whether values of this type can be nested to any depth."""
    return _is_open(mi.type_info(kind), ())


def _is_open(info: mi.Type, around: tuple[type, ...]) -> bool:
    if isinstance(info, mi.AnyType | mi.RawType):
        return True
    cls = getattr(info, "cls", None)
    if cls is not None:
        if cls in around:
            return True
        around = (*around, cls)
    return any(_is_open(part, around) for part in _parts(info))


def _parts(info: mi.Type) -> list[mi.Type]:
    """The types that a type is made of."""
    values = [getattr(info, name) for name in info.__struct_fields__]
    parts = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
    return [part.type if isinstance(part, mi.Field) else part for part in parts if isinstance(part, mi.Type | mi.Field)]


class _Bounded:
    """A decoder that looks at the depth first."""

    def __init__(self, codec: Codec, decoder: BodyDecoder, depth_max: int) -> None:
        self._codec = codec
        self._decoder = decoder
        self._depth_max = depth_max

    def decode(self, body: Any, /) -> Any:
        check_nesting(self._codec, body, self._depth_max)
        return self._decoder.decode(body)


def bounded_decoders(decoders: Mapping[Codec, BodyDecoder], depth_max: int) -> dict[Codec, BodyDecoder]:
    """The same, for bodies that are not nested deeper than this."""
    return {codec: _Bounded(codec, decoder, depth_max) for codec, decoder in decoders.items()}


def check_nesting(codec: Codec, body: Any, depth_max: int) -> None:
    """Refuse a body that is nested deeper, with one of `DECODE_ERRORS`."""
    if len(body) <= depth_max:
        return
    encoded = bytes(body)
    if codec.text:
        begun = encoded.count(b"[") + encoded.count(b"{")
    else:
        begun = len(encoded) - len(encoded.translate(None, _CONTAINERS))
    if begun > depth_max and _is_deeper(codec, encoded, depth_max):
        raise msgspec.ValidationError(f"it is nested more than {depth_max} deep")


def _is_deeper(codec: Codec, encoded: bytes, depth_max: int) -> bool:
    try:
        level = [_DECODERS[codec].decode(encoded)]
    except RecursionError:
        return True
    except DECODE_ERRORS:
        # Whoever decodes it as what it should be will say what is wrong with it.
        return False
    for _ in range(depth_max):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return False
    return any(isinstance(each, _NESTED) for each in level)


_NESTED = (list, tuple, dict)


def _inside(value: Any) -> Any:
    if isinstance(value, dict):
        return (*value, *value.values())
    return value if isinstance(value, _NESTED) else ()
