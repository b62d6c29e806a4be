"""`Parts`: a large mapping in a state, which is saved and compared entry by entry; and how it is described and read."""

from collections.abc import Callable, Iterator, MutableMapping
from functools import lru_cache
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import msgspec.inspect as mi

from holdfast.state.markers import PARTS

V = TypeVar("V")


class Parts(MutableMapping[str, V], Generic[V]):
    """A mapping whose entries are saved and compared one by one, and only those that were accessed since the last time.

    Use it for data that is too large to be saved, or compared with what clients have, whole with every turn: the chunks
    of a world, the inventories of a guild. Fetch an entry again in every turn in which you change it: changes through a
    reference from an earlier turn are not noticed. `peek` is for reading only, and so are `in`, `len` and the names.
    """

    __slots__ = ("_entries", "_noted", "_touched", "_watches")

    def __init__(self, entries: dict[str, V] | None = None) -> None:
        self._entries: dict[str, V] = {}
        self._noted: _NotedParts | None = None
        # A dict, unlike a set, has the same order of keys every time.
        self._touched: dict[str, None] = {}
        # By who watches.
        self._watches: dict[object, PartsWatch] = {}
        self.update(entries or {})

    def __getitem__(self, key: str) -> V:
        value = self._entries[key]
        if self._noted is not None:
            self._noted.touch(key)
        self._touch(key)
        return value

    def __setitem__(self, key: str, value: V) -> None:
        if not isinstance(key, str):
            raise TypeError(f"the name of a part must be a str; got {key!r}")
        if value is None:
            raise TypeError(f"part {key!r} cannot be None: delete it instead")
        if self._noted is not None:
            self._noted.touch(key)
        self._entries[key] = value
        self._touch(key)

    def __delitem__(self, key: str) -> None:
        if self._noted is not None and key in self._entries:
            self._noted.touch(key, is_deleted=True)
        del self._entries[key]
        self._touch(key)

    def _touch(self, key: str) -> None:
        self._touched[key] = None
        for watch in self._watches.values():
            watch.touched[key] = None

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def peek(self, key: str) -> V | None:
        """An entry, to read and not to change; None if there is none."""
        return self._entries.get(key)

    def __eq__(self, other: object) -> bool:
        return self._entries == (other._entries if isinstance(other, Parts) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Parts({self._entries!r})"

    # For saving

    def touched(self) -> dict[str, V | None]:
        """Entries that may have changed since they were last `taken`: None for deleted ones."""
        return {key: self._entries.get(key) for key in self._touched}

    def taken(self) -> None:
        """The touched entries go into the next commit."""
        self._touched.clear()

    def fill(self, entries: dict[str, V]) -> None:
        self._entries = entries
        self._touched.clear()
        self._watches.clear()

    # For comparing

    def watch(self, watcher: object) -> "PartsWatch":
        """What this watcher has noted of the entries; from now on it is told which are accessed."""
        found = self._watches.get(watcher)
        if found is None:
            found = self._watches[watcher] = PartsWatch()
        return found

    # For transactional turns

    def note(self, note: Callable[[V], None]) -> Callable[[], None]:
        """Call this with each entry when it is first accessed from now on, until `forget`; returns what makes them the
        entries of now again. What is in an entry is not restored by that."""
        self._noted = _NotedParts(self._entries, self._touched, note)
        return self._noted.restore

    def forget(self) -> None:
        """The turn is over."""
        self._noted = None


class PartsWatch:
    """What a watcher has noted of the entries, and which may have changed since."""

    __slots__ = ("noted", "touched")

    def __init__(self) -> None:
        self.noted: Any = None
        """None: nothing yet."""
        self.touched: dict[str, None] = {}


class _NotedParts:
    """What the entries were that a turn has accessed."""

    __slots__ = ("_entries", "_note", "_order", "_touched", "_values")

    def __init__(self, entries: dict[str, Any], touched: dict[str, None], note: Callable[[Any], None]) -> None:
        self._entries = entries
        self._touched = touched
        self._note = note
        self._values: dict[str, tuple[Any, bool]] = {}
        # Of the entries when the turn first deleted one: a deleted one would come back at the end.
        self._order: list[str] | None = None

    def touch(self, key: str, *, is_deleted: bool = False) -> None:
        if is_deleted and self._order is None:
            self._order = list(self._entries)
        if key not in self._values:
            value = self._entries.get(key)
            if value is not None:
                self._note(value)
            self._values[key] = (value, key in self._touched)

    def restore(self) -> None:
        entries = self._entries
        for key, (value, was_touched) in self._values.items():
            if value is None:
                entries.pop(key, None)
            else:
                entries[key] = value
            if not was_touched:
                self._touched.pop(key, None)
        if self._order is not None:
            ordered = {key: entries[key] for key in self._order if key in entries}
            entries.clear()
            entries.update(ordered)


# Described as the dict that clients have, and read from it


def fields_of(info: mi.StructType) -> tuple[mi.Field, ...]:
    """The fields of a Struct, with `Parts` as dicts that are marked."""
    if not any(_is_parts(field.type) for field in info.fields):
        return info.fields
    return _with_dicts(info.cls)


# The same type must be described by the same object: it may contain itself.
@lru_cache(maxsize=1024)
def _with_dicts(cls: type) -> tuple[mi.Field, ...]:
    info = mi.type_info(cls)
    assert isinstance(info, mi.StructType)
    hints = get_type_hints(get_origin(cls) or cls)
    fields: list[mi.Field] = []
    for field in info.fields:
        if not _is_parts(field.type):
            fields.append(field)
            continue
        entry = mi.type_info((get_args(hints[field.name]) or (Any,))[0])
        marked = {**(field.type.extra or {}), PARTS: True} if isinstance(field.type, mi.Metadata) else {PARTS: True}
        as_dict = mi.Metadata(mi.DictType(mi.StrType(), entry), extra=marked)
        fields.append(msgspec.structs.replace(field, type=as_dict))
    return tuple(fields)


def _is_parts(info: mi.Type) -> bool:
    inner = info.type if isinstance(info, mi.Metadata) else info
    return isinstance(inner, mi.CustomType) and (get_origin(inner.cls) or inner.cls) is Parts


def read_parts(kind: Any, plain: Any) -> Any:
    """The `dec_hook` of values that were a dict on their way."""
    if (get_origin(kind) or kind) is not Parts or not isinstance(plain, dict):
        raise NotImplementedError(f"a {kind} cannot be read")
    value_type = (get_args(kind) or (Any,))[0]
    return Parts(
        {name: msgspec.convert(value, value_type, str_keys=True, dec_hook=read_parts) for name, value in plain.items()}
    )
