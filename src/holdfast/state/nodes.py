"""The form in which changes travel, and how they are applied.

    node   = [set, into?, gone?, splice?, nth?]     empty ones at the end are left out
    set    = [key, value, …]                  a field, a key of a dict, a place of a list: this is its value now
    into   = [key, node, …]                   what has changed in it
    gone   = [key, …]                         keys of a dict (or fields) that are no longer there
    splice = [at, cut, [value, …], …]         of a list: so many values at this place give way to these, in order
    nth    = [n, node, …]                     of a dict: what has changed in the value of the n-th key, in their order

Splices come first: places in set and into are those after them. nth comes before set, into and gone: it counts the keys
from before. It is used where many values of a dict change in themselves: a number is shorter than a player's id. Only
ASCII keys are counted, which every language sorts alike. A key that is a whole number stands, in an object, for its
decimal text. Whoever applies nodes needs no schema.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

from holdfast.state.columns import FloatChanges
from holdfast.state.errors import NotANode, OutOfSync

DEPTH_MAX = 32
"""Levels of a state below its roots, and of a node."""

_PARTS_MAX = 5
_SPLICE_PARTS = 3

Node = list[Any]
Key = str | int
Path = tuple[Key, ...]

NOTHING = object()
"""What stands for a value that is not there: None is one."""


class Changed(NamedTuple):
    """One change: where, what was there before, and of splices the places whose values may be others now."""

    path: Path
    before: Any
    places: range | None = None


def apply(target: Any, node: Any, changed: list[Changed] | None = None, path: Path = ()) -> None:
    """Change plain data in place, and note what was changed.

    After `NotANode` or `OutOfSync` the data is of no use any more: it may be half changed.
    """
    sets, into, gone, splice, nth = parts_of_node(node, len(path))
    if nth:
        names = _sorted_keys(target)
        for n, inner in pairs(nth):
            name = names[_place(names, n)]
            apply(_child(target, name)[1], inner, changed, (*path, name))
    if splice:
        places = _splice(target, splice)
        if changed is not None:
            changed.append(Changed(path, NOTHING, places))
    put = _put_in_list if type(target) is list else _put_in_dict
    for key, value in pairs(sets):
        step, before = put(target, key, value)
        if changed is not None:
            changed.append(Changed((*path, step), before))
    for key, inner in pairs(into):
        step, child = _child(target, key)
        apply(child, inner, changed, (*path, step))
    for key in gone:
        before = target.pop(_text(key), NOTHING) if type(target) is dict else NOTHING
        if before is NOTHING:
            raise OutOfSync(f"{key!r} cannot go: it is not there")
        if changed is not None:
            changed.append(Changed((*path, _text(key)), before))


def parts_of_node(node: Any, depth: int) -> tuple[list[Any], list[Any], list[Any], list[Any], list[Any]]:
    """The five parts of a node, checked as far as they are lists."""
    if depth > DEPTH_MAX:
        raise NotANode(f"nested more than {DEPTH_MAX} levels deep")
    if type(node) is list and len(node) == _PARTS_MAX and type(node[-1]) is FloatChanges:
        node = [*node[:-1], node[-1].plain()]
    if type(node) is not list or not 1 <= len(node) <= _PARTS_MAX or any(type(part) is not list for part in node):
        raise NotANode("a node is an array of one to five arrays")
    sets, into, gone, splice, nth = node + [[] for _ in range(_PARTS_MAX - len(node))]
    if len(sets) % 2 or len(into) % 2 or len(splice) % _SPLICE_PARTS or len(nth) % 2:
        raise NotANode("set, into and nth are pairs, and splice has three parts for each")
    return sets, into, gone, splice, nth


def pairs(flat: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Keys and what follows each."""
    return zip(flat[::2], flat[1::2], strict=True)


def depth_of(node: Node) -> int:
    """How many levels of data a node reaches below its root."""
    sets, into, _, splice, nth = parts_of_node(node, 0)
    values = [*sets[1::2], *chain.from_iterable(splice[2::_SPLICE_PARTS])]
    return 1 + max([0, *map(_levels, values), *map(depth_of, into[1::2]), *map(depth_of, nth[1::2])])


def _levels(value: Any) -> int:
    """How deep plain data, or an image, is nested."""
    inside = (
        value.values()
        if type(value) is dict
        else value
        if isinstance(value, list | tuple)
        else (getattr(value, name) for name in getattr(value, "__struct_fields__", ()))
    )
    return max((1 + _levels(each) for each in inside), default=0)


def _splice(target: Any, splice: list[Any]) -> range:
    """Carry out splices; the places whose values may be others now."""
    if type(target) is not list:
        raise OutOfSync("only lists have places")
    length = len(target)
    first = end = length
    for at, cut, values in zip(
        splice[::_SPLICE_PARTS], splice[1::_SPLICE_PARTS], splice[2::_SPLICE_PARTS], strict=True
    ):
        if type(at) is not int or type(cut) is not int or type(values) is not list or at < 0 or cut < 0:
            raise NotANode("a splice has a place, a number and an array of values")
        if at + cut > len(target):
            raise OutOfSync(f"{cut} values from place {at} cannot go: there are {len(target)}")
        target[at : at + cut] = values
        first = min(first, at)
        end = at + cut if cut == len(values) and len(splice) == _SPLICE_PARTS else max(end, len(target))
    return range(first, end)


def _put_in_dict(target: Any, key: Any, value: Any) -> tuple[Key, Any]:
    text = _text(key)
    before = target.get(text, NOTHING)
    target[text] = value
    return text, before


def _put_in_list(target: Any, key: Any, value: Any) -> tuple[Key, Any]:
    place = _place(target, key)
    before = target[place]
    target[place] = value
    return place, before


def _child(target: Any, key: Any) -> tuple[Key, Any]:
    """What can change in itself, at a key."""
    step: Any = _place(target, key) if type(target) is list else _text(key)
    child = target[step] if type(target) is list else target.get(step, NOTHING)
    if type(child) is not dict and type(child) is not list:
        raise OutOfSync(f"nothing can change in {key!r}: it is not there, or has no inside")
    return step, child


def _sorted_keys(target: Any) -> list[str]:
    if type(target) is not dict:
        raise OutOfSync("only objects have keys that can be counted")
    return sorted(target)


def _place(target: list[Any], key: Any) -> int:
    if type(key) is not int:
        raise NotANode(f"{key!r} is not a place of a list")
    if not 0 <= key < len(target):
        raise OutOfSync(f"there is no place {key} in a list of {len(target)}")
    return key


def _text(key: Any) -> str:
    if type(key) is str:
        return key
    if type(key) is not int:
        raise NotANode(f"{key!r} is not a key")
    return str(key)
