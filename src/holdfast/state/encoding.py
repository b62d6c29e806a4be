"""Nodes to bytes, once for each codec. What cannot be encoded is named by its path."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.state.columns import FloatChanges, array_head
from holdfast.state.errors import Unshareable
from holdfast.state.nodes import pairs, parts_of_node
from holdfast.state.shapes import Float32


def _hook_msgpack(value: Any) -> Any:
    if type(value) is Float32:
        return msgspec.Raw(value.packed())
    if type(value) is FloatChanges:
        return msgspec.Raw(value.packed(_MSGPACK))
    raise TypeError(f"a {type(value).__name__} cannot be encoded")


def _hook_json(value: Any) -> Any:
    if type(value) is Float32:
        return value.rounded()
    if type(value) is FloatChanges:
        return value.plain()
    raise TypeError(f"a {type(value).__name__} cannot be encoded")


_MSGPACK = msgspec.msgpack.Encoder(enc_hook=_hook_msgpack).encode
_JSON = msgspec.json.Encoder(enc_hook=_hook_json).encode


def encode_msgpack(node: Any) -> bytes:
    """A node, or any part of one, as MessagePack; `Unshareable` names what cannot be encoded."""
    try:
        return _MSGPACK(node)
    except Exception:  # noqa: BLE001 - whatever it is, the search below finds out
        raise _culprit(node, _MSGPACK) from None


def encode_json(node: Any) -> bytes:
    """The same as JSON. It has whole numbers of more than 64 bits too, which clients that use MessagePack never get."""
    try:
        return _JSON(node)
    except Exception:  # noqa: BLE001 - the same
        raise _culprit(node, _JSON) from None


@dataclass(frozen=True, slots=True)
class Dialect:
    """One encoding of nodes: of whole ones, and of those that are joined from encoded values."""

    encode: Callable[[Any], bytes]
    array: Callable[[Sequence[bytes]], bytes]
    """An array of values that are encoded already."""


def _array_msgpack(values: Sequence[bytes]) -> bytes:
    return array_head(len(values)) + b"".join(values)


def _array_json(values: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(values) + b"]"


AS_MSGPACK = Dialect(encode_msgpack, _array_msgpack)
AS_JSON = Dialect(encode_json, _array_json)


def _culprit(node: Any, encode: Callable[[Any], bytes]) -> Unshareable:
    for path, value in _values(node, ()):
        try:
            encode(value)
        except Exception as error:  # noqa: BLE001 - the same
            return _innermost(value, encode, Unshareable(str(error), path))
    return Unshareable("a name or a key cannot be encoded")


def _values(node: list[Any], path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """What a node sets, and where."""
    sets, into, _, splice, nth = parts_of_node(node, 0)
    yield from (((*path, key), value) for key, value in pairs(sets))
    for key, inner in (*pairs(into), *pairs(nth)):
        yield from _values(inner, (*path, key))
    for at, values in zip(splice[::3], splice[2::3], strict=True):
        yield from (((*path, place), value) for place, value in enumerate(values, at))


def _innermost(value: Any, encode: Callable[[Any], bytes], found: Unshareable) -> Unshareable:
    for key, inner in _children(value):
        try:
            encode(inner)
        except Exception as error:  # noqa: BLE001 - the same
            return _innermost(inner, encode, Unshareable(str(error), (*found.path, key)))
    return found


def _children(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, msgspec.Struct):
        yield from zip(value.__struct_encode_fields__, msgspec.structs.astuple(value), strict=True)
    elif isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from enumerate(value)
