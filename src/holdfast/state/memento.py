"""Undoes every change of some objects, in place: lists, dicts and Structs are what they were, and the same objects.

Decoding a saved image would make new objects, and whatever the game holds elsewhere (`self.boss`, a timer's argument)
would no longer be part of its state.
"""

import datetime
import decimal
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from operator import is_not
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import msgspec

from holdfast.state.plan import deep_fields

Restore = Callable[[], None]

_ATOMS = frozenset(
    {
        *(type(None), bool, int, float, complex, str, bytes, frozenset, range, type, type(msgspec.UNSET)),
        *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone),
        *(decimal.Decimal, uuid.UUID),
        *(FunctionType, BuiltinFunctionType, MethodType, ModuleType),
    }
)
_astuple = msgspec.structs.astuple


class CannotUndo(TypeError):
    """An object of a class that nobody knows how to restore."""


class Mementos:
    """Takes mementos. It learns the types that it meets: keep one for each kind of state."""

    def __init__(
        self,
        others: Mapping[type, Callable[[Any], Restore | None]] | None = None,
        unknown: Callable[[Any], None] | None = None,
    ) -> None:
        """`others` note objects of classes of their own, and return what restores them, before all others (None: they
        stay as they are).
        `unknown` hears of objects that cannot be restored and are passed over; without it, they are refused."""
        self._others = dict(others or {})
        self._unknown = unknown
        # Of a Struct, the fields whose values can change in themselves, and whether they hold only such as cannot.
        self._deep: dict[type, tuple[tuple[int, bool], ...]] = {}

    def take(self, *roots: Any) -> "Memento":
        """Note these objects and all that they hold; `CannotUndo` if one of them cannot be restored."""
        memento = Memento()
        self._note_all(roots, memento)
        return memento

    def add(self, memento: "Memento", *roots: Any) -> None:
        """Note these objects too, as they are now."""
        self._note_all(roots, memento)

    def _note_all(self, values: Iterable[Any], memento: "Memento") -> None:
        for value in values:
            if type(value) not in _ATOMS:
                self._note(value, memento)

    def _note(self, value: Any, memento: "Memento") -> None:
        if id(value) in memento.seen:
            return
        memento.seen[id(value)] = value
        kind = type(value)
        if isinstance(value, msgspec.Struct):
            row = _astuple(value)
            memento.noted.append((_restore_struct, value, row))
            for index, is_shallow in self._deep_fields(kind):
                inner = row[index]
                if is_shallow and type(inner) in (list, dict):
                    memento.noted.append((_restore_container, inner, inner.copy()))
                elif type(inner) not in _ATOMS:
                    self._note(inner, memento)
        elif isinstance(value, list | dict):
            memento.noted.append((_restore_container, value, value.copy()))
            self._note_items(value.values() if isinstance(value, dict) else value, memento)
        elif isinstance(value, set | bytearray | deque):
            memento.noted.append((_restore_container, value, value.copy()))
            if isinstance(value, deque):
                self._note_all(value, memento)
        elif isinstance(value, tuple):
            self._note_all(value, memento)
        else:
            self._note_other(value, memento)

    def _note_other(self, value: Any, memento: "Memento") -> None:
        kind = type(value)
        if kind in self._others:
            if (restore := self._others[kind](value)) is not None:
                memento.restores.append(restore)
        elif is_dataclass(kind):
            names = _attributes(value)
            memento.noted.append((_restore_attributes, value, names))
            self._note_all(names.values(), memento)
        elif not isinstance(value, Enum | type):
            if self._unknown is None:
                raise CannotUndo(f"a {kind.__name__} cannot be restored: use Structs, lists, dicts and sets")
            self._unknown(value)

    def _note_items(self, values: Any, memento: "Memento") -> None:
        """The values of a list or a dict: those of one type at once, if they hold nothing that changes in itself."""
        kinds = set(map(type, values))
        if kinds <= _ATOMS:
            return
        if len(kinds) == 1 and issubclass(kind := kinds.pop(), msgspec.Struct) and not self._deep_fields(kind):
            memento.noted.append((_restore_structs, list(values), list(map(_astuple, values))))
        else:
            self._note_all(values, memento)

    def _deep_fields(self, kind: type) -> tuple[tuple[int, bool], ...]:
        found = self._deep.get(kind)
        if found is None:
            found = self._deep[kind] = deep_fields(kind)
        return found


class Memento:
    """What some objects were. Restore it once, or forget it."""

    __slots__ = ("noted", "restores", "seen")

    def __init__(self) -> None:
        # By id; held, or another object could get the same one.
        self.seen: dict[int, Any] = {}
        # What makes a value what it was, the value, and what it was. An object may be noted again later.
        self.noted: list[tuple[Callable[[Any, Any], None], Any, Any]] = []
        self.restores: list[Restore] = []

    def restore(self) -> None:
        """Make them what they were."""
        for restore in self.restores:
            restore()
        # What was noted first is restored last: later, the object had changed already.
        for restore_as, value, was in reversed(self.noted):
            restore_as(value, was)


def _restore_container(value: Any, was: Any) -> None:
    if isinstance(value, list | bytearray):
        value[:] = was
    else:
        value.clear()
        (value.extend if isinstance(value, deque) else value.update)(was)


def _restore_structs(values: list[Any], rows: list[tuple[Any, ...]]) -> None:
    for value, row in zip(values, rows, strict=True):
        _restore_struct(value, row)


def _restore_struct(value: Any, row: tuple[Any, ...]) -> None:
    now = _astuple(value)
    # By identity: 1 and True are equal.
    if any(map(is_not, row, now)):
        for name, was, is_now in zip(value.__struct_fields__, row, now, strict=True):
            if was is not is_now:
                msgspec.structs.force_setattr(value, name, was)


def _attributes(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that have a value."""
    return {each.name: getattr(value, each.name) for each in fields(value) if hasattr(value, each.name)}


def _restore_attributes(value: Any, attributes: dict[str, Any]) -> None:
    for name in _attributes(value):
        if name not in attributes:
            object.__delattr__(value, name)
    for name, was in attributes.items():
        # Frozen ones cannot have changed.
        if getattr(value, name, attributes) is not was:
            object.__setattr__(value, name, was)


def path_to(wanted: Any, roots: Mapping[str, Any]) -> str:
    """Where in these values an object is, as a game would write it; empty if it is not found."""
    todo = deque(roots.items())
    seen: set[int] = set()
    while todo:
        path, value = todo.popleft()
        if value is wanted:
            return path
        if id(value) not in seen and type(value) not in _ATOMS:
            seen.add(id(value))
            todo.extend((path + step, child) for step, child in _children(value))
    return ""


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, msgspec.Struct):
        yield from ((f".{name}", getattr(value, name)) for name in value.__struct_fields__)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from ((f".{name}", child) for name, child in _attributes(value).items())
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", child) for key, child in list(value.items()))
    elif isinstance(value, list | tuple | deque):
        yield from ((f"[{index}]", child) for index, child in enumerate(value))
