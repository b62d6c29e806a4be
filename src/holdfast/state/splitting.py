"""A view that is too large for one message, as several nodes that are applied one after another."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from holdfast.state.errors import Unshareable
from holdfast.state.nodes import Node
from holdfast.state.shapes import Float32

MORE_FOLLOWS = 1
"""A flag of a message: the state is complete only with the next one."""
FORGET_FIRST = 2
"""A flag of a message: whatever the client has is gone; this is the beginning of a whole view."""

# Around a value: the heads of its node, of the arrays in it, and of a splice with its place.
_HEADS_BYTES = 64
# The same for each level above it.
_LEVEL_BYTES = 12

_Path = tuple[Any, ...]
# A path, the value, its bytes, and those of the path.
_Piece = tuple[_Path, Any, int, int]


def split_whole(node: Node, bytes_max: int, encode: Callable[[Any], bytes]) -> list[Node]:
    """The same as nodes of at most this size, encoded; `Unshareable` for a value that cannot be divided so far."""
    if len(encode(node)) <= bytes_max:
        return [node]
    (sets,) = msgspec.to_builtins(node, builtin_types=(bytes,), str_keys=True, enc_hook=_rounded)
    pieces: list[_Piece] = []
    for name, value in zip(sets[::2], sets[1::2], strict=True):
        pieces += _pieces((name,), value, bytes_max, encode)
    return [part for group in _groups(pieces, bytes_max) for part in _fitting(group, bytes_max, encode)]


def _rounded(value: Any) -> Any:
    if type(value) is Float32:
        return value.rounded()
    raise TypeError(f"a {type(value).__name__} cannot be shared")


def _pieces(path: _Path, value: Any, bytes_max: int, encode: Callable[[Any], bytes]) -> Iterator[_Piece]:
    """Values that fit, each with its path and size; an empty container before what is put into it."""
    around = _HEADS_BYTES + sum(len(encode(key)) + _LEVEL_BYTES for key in path)
    size = len(encode(value)) + len(encode(path[-1]))
    if around + size <= bytes_max:
        yield path, value, size, around
        return
    if not value or not isinstance(value, dict | list):
        raise Unshareable(f"{size} bytes do not fit into a message of {bytes_max}, and cannot be divided", path)
    yield path, type(value)(), _LEVEL_BYTES, around
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _pieces((*path, key), inner, bytes_max, encode)


def _groups(pieces: list[_Piece], bytes_max: int) -> Iterator[list[_Piece]]:
    """What probably fits into one message each."""
    group: list[_Piece] = []
    filled = 0
    above: _Path = ()
    for piece in pieces:
        path, _, size, around = piece
        # Neighbours share their path.
        size += 1 if path[:-1] == above else around
        if group and filled + size > bytes_max:
            yield group
            group, filled = [], around
        group.append(piece)
        filled += size
        above = path[:-1]
    yield group


def _fitting(group: list[_Piece], bytes_max: int, encode: Callable[[Any], bytes]) -> Iterator[Node]:
    node = _node(group)
    if len(group) == 1 or len(encode(node)) <= bytes_max:
        yield node
        return
    half = len(group) // 2
    yield from _fitting(group[:half], bytes_max, encode)
    yield from _fitting(group[half:], bytes_max, encode)


def _node(group: list[_Piece]) -> Node:
    """One node for pieces in the order of the whole: what is in a list comes after what was put there before."""
    root: Node = [[]]
    for path, value, _, _ in group:
        node = root
        for key in path[:-1]:
            node = _inner(node, key)
        if isinstance(path[-1], int):
            node += ([] for _ in range(4 - len(node)))
            if not node[3]:
                node[3] += (path[-1], 0, [])
            node[3][2].append(value)
        else:
            node[0] += (path[-1], value)
    return root


def _inner(node: Node, key: Any) -> Node:
    """The node at a key, which is the last one if there is one."""
    if len(node) == 1:
        node.append([])
    into = node[1]
    if not into or into[-2] != key:
        into += (key, [[]])
    inner: Node = into[-1]
    return inner
