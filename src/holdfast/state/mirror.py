"""A client's copy of what a room shares: it follows the changes, tells listeners by path, and is read as typed values.

A message is `[flags, node, node?]`: the part that everybody gets, then what only this player does. A view may come in
several messages; it is told of, and is of use, when the last one has come.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from holdfast.state.errors import NotANode, OutOfSync
from holdfast.state.nodes import NOTHING, Changed, Key, Path, apply
from holdfast.state.parts import read_parts
from holdfast.state.splitting import FORGET_FIRST, MORE_FOLLOWS

T = TypeVar("T")

_BODY_PARTS = range(2, 4)
_ANY = "*"


class Mirror:
    """What a room shares, as plain data in `root`. Never change it: read it."""

    def __init__(self) -> None:
        self.root: dict[str, Any] = {}
        self.copies = False
        """Whether what is read shares nothing with `root`: for readers in other threads."""
        self.is_complete = False
        """Whether the whole view is here: not before the first, between the parts of one, or once it is out of sync."""
        self._is_broken = True
        self._changed: list[Changed] = []
        self._read: dict[Path, tuple[Any, Any]] = {}
        self._listeners: list[tuple[tuple[str, ...], Callable[..., object]]] = []

    # Reading

    def read(self, *path: Key, kind: type[T]) -> T:
        """The value at a path as this type; made when it is first asked for after a change. `KeyError`: not there."""
        known = self._read.get(path)
        if known is None or known[0] is not kind:
            value = _at(self.root, path)
            if value is NOTHING:
                raise KeyError(path[-1] if path else "")
            value = msgspec.to_builtins(value) if self.copies else value
            known = self._read[path] = (kind, msgspec.convert(value, kind, str_keys=True, dec_hook=read_parts))
        found: T = known[1]
        return found

    # Listening

    def on_change(self, path: str, listener: Callable[..., object]) -> Callable[[], None]:
        """Call this with the value at a path, and the keys for each `*` in it; None if it is gone. Returns the undo.

        Without a path, the listener is called once for each complete change, with the list of paths.
        """
        entry = (tuple(path.split(".")) if path else (), listener)
        self._listeners.append(entry)
        return lambda: self._listeners.remove(entry) if entry in self._listeners else None

    # Following

    def receive(self, body: Any) -> list[Callable[[], object]]:
        """Apply a message; the calls to make now. After `NotANode` or `OutOfSync` only a whole view helps."""
        try:
            return self._receive(body)
        except (NotANode, OutOfSync):
            self._is_broken, self.is_complete = True, False
            raise

    def _receive(self, body: Any) -> list[Callable[[], object]]:
        if type(body) is not list or len(body) not in _BODY_PARTS or type(body[0]) is not int:
            raise NotANode("a message is flags and one or two nodes")
        flags, *nodes = body
        if flags & FORGET_FIRST:
            self._changed.append(Changed((), self.root))
            self.root = {}
            self.is_complete = self._is_broken = False
        if self._is_broken:
            raise OutOfSync("a change came before the whole view")
        for node in nodes:
            apply(self.root, node, self._changed)
        if flags & MORE_FOLLOWS:
            return []
        self.is_complete = True
        changed, self._changed = self._changed, []
        self._forget_read(changed)
        return list(self._calls(changed))

    def _forget_read(self, changed: list[Changed]) -> None:
        for path in list(self._read):
            if any(_are_related(path, each.path) for each in changed):
                del self._read[path]

    def _calls(self, changed: list[Changed]) -> Iterator[Callable[[], object]]:
        if not changed:
            return
        for pattern, listener in self._listeners.copy():
            if not pattern:
                yield _call(listener, [list(each.path) for each in changed])
                continue
            for path in dict.fromkeys(path for each in changed for path in _matches(self.root, pattern, each)):
                value = _at(self.root, path)
                keys = [key for key, segment in zip(path, pattern, strict=True) if segment == _ANY]
                yield _call(listener, None if value is NOTHING else value, *keys)


def _call(listener: Callable[..., object], *arguments: Any) -> Callable[[], object]:
    return lambda: listener(*arguments)


def _at(value: Any, path: Path) -> Any:
    """The value at a path, or NOTHING."""
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return NOTHING
    return value


def _are_related(one: Path, other: Path) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _matches(root: Any, pattern: tuple[str, ...], changed: Changed) -> Iterable[Path]:
    """The paths of this pattern whose value may be another because of a change."""
    path = changed.path
    if any(segment not in (_ANY, str(key)) for segment, key in zip(pattern, path, strict=False)):
        return []
    if len(path) >= len(pattern):
        return [path[: len(pattern)]]
    now = _at(root, path)
    if changed.places is None:
        return [(*path, *rest) for rest in _expanded([changed.before, now], pattern[len(path) :])]
    first = pattern[len(path)]
    places = changed.places if first == _ANY else [place for place in changed.places if str(place) == first]
    rest = pattern[len(path) + 1 :]
    return [(*path, place, *more) for place in places for more in _expanded([_at(now, (place,))], rest, is_there=True)]


def _expanded(values: list[Any], pattern: tuple[str, ...], *, is_there: bool = False) -> Iterator[Path]:
    """The paths of this pattern that are, or were, in one of these values."""
    if not pattern:
        if is_there or any(value is not NOTHING for value in values):
            yield ()
        return
    keys: dict[Key, None] = {}
    for value in values:
        if type(value) is dict:
            keys.update(dict.fromkeys(value))
        elif type(value) is list:
            keys.update(dict.fromkeys(range(len(value))))
    for key in keys:
        if pattern[0] in (_ANY, str(key)):
            for rest in _expanded([_at(value, (key,)) for value in values], pattern[1:]):
                yield (key, *rest)
