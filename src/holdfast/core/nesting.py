"""Limits how deep a body is nested. msgspec stops only at the interpreter's limit, a thousand levels.

Only a type that contains `Any` or itself can be nested deeper than its declaration. For these, the bytes that begin an
array or an object are counted first, which is fast: few bodies have more of them than the limit. Only those are scanned
before they are decoded.

Where a type says `Any`, the keys of maps must be text, as in JSON: otherwise a game that forwards the value to a JSON
client would fail because of its sender. Arrays as keys of a map are always refused: as keys of a dict they can be
chosen to collide (-1 and -2 have the same hash), and one such payload would block the node for long.
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import msgspec
import msgspec.inspect as mi

from holdfast.core.codec import BodyDecoder, Codec
from holdfast.core.protobuf import BodyOfProtobuf, ProtobufCodec

# MessagePack: fixmap, fixarray, array 16 and 32, map 16 and 32.
_CONTAINERS = bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0)])


def can_nest(kind: Any) -> bool:
    """Whether values of this type can be nested to any depth."""
    found: list[mi.Type] = []
    return _gather(mi.type_info(kind), found, ()) or _is_loose(found)


def has_text_keys(kind: Any) -> bool:
    """Whether all map keys in values of this type must be text: it contains `Any`, and no other type of key."""
    found = types_in(kind)
    keys = (info.key_type for info in found if isinstance(info, mi.DictType))
    return _is_loose(found) and all(isinstance(key, mi.AnyType | mi.StrType) for key in keys)


def types_in(kind: Any) -> list[mi.Type]:
    """This type, and all that it is made of."""
    found: list[mi.Type] = []
    _gather(mi.type_info(kind), found, ())
    return found


def _is_loose(found: list[mi.Type]) -> bool:
    return any(isinstance(info, mi.AnyType | mi.RawType) for info in found)


def _gather(info: mi.Type, found: list[mi.Type], around: tuple[type, ...]) -> bool:
    """Find every type in a type; whether one of them contains itself."""
    found.append(info)
    cls = getattr(info, "cls", None)
    if cls is not None:
        if cls in around:
            return True
        around = (*around, cls)
    are_nested = [_gather(part, found, around) for _, part in child_types(info)]
    return any(are_nested)


def child_types(info: mi.Type) -> Iterator[tuple[str, mi.Type]]:
    """The types that a type is made of; those of fields with their name."""
    for name in info.__struct_fields__:
        value = getattr(info, name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, mi.Field):
                yield part.name, part.type
            elif isinstance(part, mi.Type):
                yield "", part


class _Bounded:
    """A decoder that first checks the depth, and the keys of maps."""

    def __init__(self, codec: Codec, decoder: BodyDecoder, depth_max: int, *, text_keys: bool) -> None:
        self._check = partial(check_nesting, codec, depth_max=depth_max, text_keys=text_keys)
        self._decode = decoder.decode

    def decode(self, body: Any, /) -> Any:
        self._check(body)
        return self._decode(body)


def bounded_decoders(
    decoders: Mapping[Codec, BodyDecoder], depth_max: int, *, text_keys: bool = False
) -> dict[Codec, BodyDecoder]:
    """The same decoders, limited to this depth, and to text keys if requested."""
    return {
        codec: decoder.bounded(depth_max)
        if isinstance(decoder, BodyOfProtobuf)
        else _Bounded(codec, decoder, depth_max, text_keys=text_keys)
        for codec, decoder in decoders.items()
    }


def check_nesting(codec: Codec, body: Any, depth_max: int, *, text_keys: bool = False) -> None:
    """Refuse a body that is nested deeper, with one of `DECODE_ERRORS`. The body is complete: its frame was decoded.

    The decoders of protobuf count for themselves.
    """
    if isinstance(codec, ProtobufCodec):
        return
    if text_keys and not codec.text:
        encoded = bytes(body)
        if len(encoded.translate(None, _MAPS)) < len(encoded):
            _look_through_msgpack(encoded, depth_max, text_keys=True)
            return
    if len(body) <= depth_max:
        return
    encoded = bytes(body)
    if codec.text:
        begun = encoded.count(b"[") + encoded.count(b"{")
        look_through = _look_through_json
    else:
        begun = len(encoded) - len(encoded.translate(None, _CONTAINERS))
        look_through = _look_through_msgpack
    if begun > depth_max:
        look_through(encoded, depth_max)


# JSON

# Up to the closing quote or the end of the body: each byte is scanned once, whatever follows.
_TEXT = re.compile(rb'"(?:[^"\\]+|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def _look_through_json(encoded: bytes, depth_max: int) -> None:
    brackets = _TEXT.sub(b"", encoded).translate(_BRACKETS, _NO_BRACKETS)
    for _ in range(depth_max):
        # Remove everything empty, in all places at once: one level less.
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return
    raise msgspec.ValidationError(f"nested more than {depth_max} levels deep")


# MessagePack

# The length of a value that begins with this byte; 0 if the following bytes determine it.
_SIZES = bytearray([1] * 0x80 + [0] * 0x20 + [1 + length for length in range(0x20)] + [1] * 0x04 + [0] * 0x06)
_SIZES += bytes([5, 9, 2, 3, 5, 9, 2, 3, 5, 9, 3, 4, 6, 10, 18] + [0] * 0x07 + [1] * 0x20)
# The length bytes, and the bytes beside them: of binary data, extensions and texts.
_LONG = {0xC4: (1, 1), 0xC5: (2, 1), 0xC6: (4, 1), 0xC7: (1, 2), 0xC8: (2, 2), 0xC9: (4, 2)}
_LONG |= {0xD9: (1, 1), 0xDA: (2, 1), 0xDB: (4, 1)}
# The count bytes of arrays and maps, if the first byte does not have the count.
_COUNTED = {0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}
_MAPS = bytes([*range(0x80, 0x90), 0xDE, 0xDF])
# Texts: fixstr, str 8, 16 and 32.
_TEXTS = bytes([*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB])


def _look_through_msgpack(encoded: bytes, depth_max: int, *, text_keys: bool = False) -> None:
    """Nothing is decoded: the bytes may be hostile."""
    at = 0
    # Values still to come, in this container and in the enclosing ones.
    left, is_map = 1, False
    around: list[tuple[int, bool]] = []
    while left or around:
        if not left:
            left, is_map = around.pop()
            continue
        left -= 1
        first = encoded[at]
        if text_keys and is_map and left % 2 and first not in _TEXTS:
            raise msgspec.ValidationError("a key of a map is not text")
        if _SIZES[first]:
            at += _SIZES[first]
        elif first in _LONG:
            length_bytes, beside = _LONG[first]
            at += beside + length_bytes + int.from_bytes(encoded[at + 1 : at + 1 + length_bytes])
        else:
            if is_map and left % 2:
                raise msgspec.ValidationError("a key of a map is an array or a map")
            if len(around) >= depth_max:
                raise msgspec.ValidationError(f"nested more than {depth_max} levels deep")
            count_bytes = _COUNTED.get(first, 0)
            count = int.from_bytes(encoded[at + 1 : at + 1 + count_bytes]) if count_bytes else first & 0x0F
            at += 1 + count_bytes
            if count:
                around.append((left, is_map))
                is_map = first in _MAPS
                left = 2 * count if is_map else count
