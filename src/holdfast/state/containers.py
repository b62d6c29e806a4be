"""The shapes that changes go into: Structs, dicts and lists.

The work is done by whole rows in C wherever possible: `astuple` for a Struct, `map(ne, …)` to find what changed.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, compress, count, starmap
from math import isfinite
from operator import attrgetter, is_not, itemgetter, lt, ne
from typing import Any

import msgspec

from holdfast.state.columns import FloatChanges, FloatField, float_changes
from holdfast.state.errors import Unshareable, a
from holdfast.state.parts import Parts
from holdfast.state.shapes import REPLACED, Float32, Scalar, Shape, finite, float32

# A list of scalars is searched for changes in blocks: comparing slices takes a fifth of comparing one by one.
_LARGE_BLOCK = 1024
_BLOCK = 128
# So many neighbours that change are a splice.
_DENSE_MIN = 3
# So many values of a dict that change in themselves are told by number, if they are this part of all: a client sorts
# the keys for it.
_COUNTED_MIN = 4
_COUNTED_SHARE = 1 / 32


def node_of(
    sets: list[Any],
    into: list[Any] | None = None,
    gone: list[Any] | None = None,
    splice: list[Any] | None = None,
    nth: list[Any] | FloatChanges | None = None,
) -> list[Any] | None:
    """A node without its empty ends; None if nothing is in it."""
    if nth:
        return [sets, into or [], gone or [], splice or [], nth]
    if splice:
        return [sets, into or [], gone or [], splice]
    if gone:
        return [sets, into or [], gone]
    if into:
        return [sets, into]
    return [sets] if sets else None


class StructShape(Shape):
    """A Struct: an object with the names of its fields as they are encoded.

    The fields are given after it was made: a type may contain itself.
    """

    compares = True

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.names: tuple[str, ...] = ()
        self._deep: list[tuple[int, Shape]] = []
        self.is_complete = False

    def complete(
        self, fields: Sequence[tuple[str, str, Shape]], *, read: Callable[[Any], Any], tag: dict[str, Any]
    ) -> None:
        """Give it its fields: the name in Python, the name as encoded, the shape; and what reads them all."""
        self.attributes = tuple(attribute for attribute, _, _ in fields)
        self.names = tuple(name for _, name, _ in fields)
        self.shapes = tuple(shape for _, _, shape in fields)
        self._range = range(len(fields))
        self._scalars = [(index, shape) for index, shape in enumerate(self.shapes) if isinstance(shape, Scalar)]
        self._deep = [(index, shape) for index, shape in enumerate(self.shapes) if not shape.is_scalar]
        self._wired = [(index, shape) for index, shape in self._scalars if not shape.is_plain]
        wires = {index: shape.wire for index, shape in self._wired}
        self._wires = [wires.get(index) for index in self._range]
        self.floats = [_float_field(name, shape) for name, shape in zip(self.names, self.shapes, strict=True)]
        """Of each field that is a float."""
        self.is_flat = not self._deep
        self._kinds = frozenset({self.kind})
        self._deep_readers = [(attrgetter(self.attributes[index]), shape) for index, shape in self._deep]
        is_ready = all(shape.are_ready(()) for _, shape in self._scalars)
        self._may_be_ready = is_ready and _is_encoded_as(self.kind, self.attributes, self.names, tag)
        self._make = _image_type(self.kind.__name__, self.names, tag)
        self._read = read
        if self._deep:
            self.take = self._take
        else:
            self.take = read
            self.change = self._flat_change  # type: ignore[method-assign]
        self.is_complete = True

    def _take(self, value: Any) -> list[Any]:
        row = list(self._read(value))
        for index, shape in self._deep:
            row[index] = shape.take(row[index])
        return row

    def are_ready(self, values: Sequence[Any]) -> bool:
        if not values:
            # A type may contain itself: here it ends.
            return True
        if not self._may_be_ready or not self._kinds.issuperset(map(type, values)):
            return False
        return all(shape.are_ready(list(map(read, values))) for read, shape in self._deep_readers)

    def image(self, shadow: Any) -> Any:
        row = list(shadow)
        index = 0
        try:
            for index, scalar in self._wired:
                row[index] = scalar.wire(row[index])
            for index, shape in self._deep:
                row[index] = shape.image(row[index])
        except Unshareable as error:
            raise error.under(self.names[index]) from None
        return self._make(*row)

    def images(self, shadows: Iterable[Any]) -> list[Any]:
        if self._deep:
            return super().images(shadows)
        rows = list(shadows)
        if not rows or all(scalar.is_ready(map(itemgetter(index), rows)) for index, scalar in self._wired):
            return list(starmap(self._make, rows))
        columns: list[Any] = list(zip(*rows, strict=True))
        for index, scalar in self._wired:
            try:
                columns[index] = scalar.images(columns[index])
            except Unshareable as error:
                # It has the place; the field is under that.
                error.path = (error.path[0], self.names[index], *error.path[1:])
                raise
        return list(map(self._make, *columns))

    def change(self, old: Any, new: Any) -> list[Any] | None:
        """Containers are not compared first: they find out by themselves, and would be compared once per level."""
        names = self.names
        sets: list[Any] = []
        into: list[Any] = []
        gone: list[Any] = []
        index = 0
        try:
            for index, scalar in self._scalars:
                if old[index] != (value := new[index]):
                    sets += (names[index], scalar.wire(value))
            for index, shape in self._deep:
                before, value = old[index], new[index]
                if not shape.compares and before == value:
                    continue
                node = shape.change(before, value)
                if node is REPLACED:
                    image = shape.image(value)
                    if image is msgspec.UNSET:
                        gone.append(names[index])
                    else:
                        sets += (names[index], image)
                elif node is not None:
                    into += (names[index], node)
        except Unshareable as error:
            raise error.under(names[index]) from None
        return node_of(sets, into, gone)

    def _flat_change(self, old: Any, new: Any) -> list[Any] | None:
        names, wires = self.names, self._wires
        sets: list[Any] = []
        for index in compress(self._range, map(ne, old, new)):
            value, wire = new[index], wires[index]
            # Floats are most of what changes: a call for each would take as long as all the rest.
            if wire is not None:
                try:
                    if type(value) is not float or not isfinite(value):
                        value = wire(value)
                    elif wire is float32:
                        value = Float32(value)
                    elif wire is not finite:
                        value = wire(value)
                except Unshareable as error:
                    raise error.under(names[index]) from None
            sets += (names[index], value)
        return [sets] if sets else None

    def check(self, value: Any) -> None:
        if type(value) is not self.kind:
            raise Unshareable(f"{a(value)} is not of the type {self.kind.__name__}")
        for attribute, name, shape in zip(self.attributes, self.names, self.shapes, strict=True):
            try:
                shape.check(getattr(value, attribute))
            except Unshareable as error:
                raise error.under(name) from None


def _float_field(name: str, shape: Shape) -> FloatField | None:
    if not isinstance(shape, Scalar) or shape.wire not in (finite, float32):
        return None
    return FloatField(name, "f" if shape.wire is float32 else "d")


def _is_encoded_as(kind: Any, attributes: Sequence[str], names: Sequence[str], tag: dict[str, Any]) -> bool:
    """Whether a Struct is encoded as its image: an object with all of its fields, and no more."""
    if not issubclass(kind, msgspec.Struct):
        return False
    config = kind.__struct_config__
    return (
        tuple(attributes) == kind.__struct_fields__
        and tuple(names) == kind.__struct_encode_fields__
        and not config.omit_defaults
        and (config.tag, config.tag_field) == (tag.get("tag"), tag.get("tag_field"))
    )


def reader(kind: type, attributes: Sequence[str]) -> Callable[[Any], Any]:
    """What reads these fields of a Struct as a row."""
    if tuple(attributes) == kind.__struct_fields__:  # type: ignore[attr-defined]
        return msgspec.structs.astuple
    if len(attributes) > 1:
        return attrgetter(*attributes)
    return lambda value: tuple([getattr(value, attribute) for attribute in attributes])


def _image_type(name: str, names: Sequence[str], tag: dict[str, Any]) -> Any:
    """A Struct that is encoded as an object with these names, whatever they are; with all of them, defaults too."""
    fields = [f"f{index}" for index in range(len(names))]
    renamed = dict(zip(fields, names, strict=True))
    return msgspec.defstruct(f"{name}Image", fields, rename=renamed, eq=False, gc=False, **tag)


class Keys(list[Any]):
    """The keys of a dict, as part of its shadow, and the number of each in their order once that was needed."""

    __slots__ = ("counted",)

    def __init__(self, keys: Iterable[Any]) -> None:
        super().__init__(keys)
        self.counted: list[int] | None = None

    def numbers(self, equal: "Keys") -> list[int]:
        """The number of each key; those of equal keys are the same. Empty if not every language sorts them alike."""
        if equal.counted is None:
            equal.counted = []
            if all(type(key) is str and key.isascii() for key in self):
                number_of = {key: number for number, key in enumerate(sorted(self))}
                equal.counted = [number_of[key] for key in self]
        self.counted = equal.counted
        return equal.counted


_TEXT = frozenset({str})
_DICTS, _LISTS = frozenset({dict}), frozenset({list})


def _text_key(key: Any) -> Any:
    if not isinstance(key, str):
        raise Unshareable(f"its key is {a(key)}, not text")
    return key


class DictShape(Shape):
    """A dict: an object whose keys are text. In a node, a key that is a whole number stands for its decimal text."""

    compares = True

    def __init__(
        self,
        item: Shape,
        *,
        key: Callable[[Any], Any] | None = None,
        text: Callable[[Any], str] | None = None,
    ) -> None:
        self._item = item
        self._is_counted = key is None
        # Those that clients see as floats: many are compared at once.
        self._flat = item if isinstance(item, StructShape) else None
        # How a key is written in a node, and in an image, if not as it is.
        self._key = key
        self._text = text
        self.take = self._take_scalars if item.is_scalar else self._take

    def are_ready(self, values: Sequence[Any]) -> bool:
        # In one call for the entries of all.
        return (
            self._key is None
            and self._text is None
            and _DICTS.issuperset(map(type, values))
            and _TEXT.issuperset(map(type, chain.from_iterable(values)))
            and self._item.are_ready(
                () if self._item.is_scalar else list(chain.from_iterable(map(dict.values, values)))
            )
        )

    def _take(self, value: Any) -> tuple[Keys, list[Any]]:
        return Keys(value), list(map(self._item.take, value.values()))

    def _take_scalars(self, value: Any) -> tuple[list[Any], list[Any]]:
        return list(value), list(value.values())

    def image(self, shadow: Any) -> Any:
        keys, rows = shadow
        if self._key is None and not set(map(type, keys)) <= _TEXT:
            list(map(_text_key, keys))
        try:
            images = self._item.images(rows)
        except Unshareable as error:
            # It has the place among the values.
            error.path = (keys[error.path[0]], *error.path[1:])
            raise
        return dict(zip(keys if self._text is None else map(self._text, keys), images, strict=True))

    def change(self, old: Any, new: Any) -> list[Any] | None:
        old_keys, old_rows = old
        keys, rows = new
        if keys != old_keys:
            return self.change_by_key(dict(zip(*old, strict=True)), dict(zip(*new, strict=True)))
        if rows == old_rows:
            return None
        item_change, key_of = self._item.change, self._key
        sets: list[Any] = []
        into: list[Any] = []
        indexes: list[int] = []
        differ = list(compress(range(len(rows)), map(ne, old_rows, rows)))
        is_many = self._is_counted and len(differ) >= max(_COUNTED_MIN, int(len(keys) * _COUNTED_SHARE))
        if is_many and (changes := self._float_changes(old_keys, old_rows, keys, rows, differ)) is not None:
            return node_of([], nth=changes)
        key = None
        try:
            for index in differ:
                key, row = keys[index], rows[index]
                node = item_change(old_rows[index], row)
                if node is REPLACED:
                    sets += (key if key_of is None else key_of(key), self._item.image(row))
                elif node is not None:
                    into += (key if key_of is None else key_of(key), node)
                    indexes.append(index)
        except Unshareable as error:
            raise error.under(key) from None
        if is_many and len(into) >= 2 * max(_COUNTED_MIN, int(len(keys) * _COUNTED_SHARE)):
            return self._counted(old_keys, keys, sets, into, indexes)
        return node_of(sets, into)

    def _float_changes(
        self, old_keys: Keys, old_rows: Sequence[Any], keys: Keys, rows: Sequence[Any], differ: list[int]
    ) -> FloatChanges | None:
        """What has changed in these rows, if those are mostly floats."""
        flat = self._flat
        if flat is None or not flat.is_flat or not any(flat.floats):
            return None
        numbers: Sequence[int] = keys.numbers(old_keys)
        if not numbers:
            return None
        if len(differ) < len(rows):
            pick = itemgetter(*differ)
            numbers, old_rows, rows = pick(numbers), pick(old_rows), pick(rows)
        try:
            return float_changes(flat.floats, flat.change, numbers, old_rows, rows)
        except Unshareable:
            # It is found again, with its key.
            return None

    def _counted(
        self, old_keys: Keys, keys: Keys, sets: list[Any], into: list[Any], indexes: list[int]
    ) -> list[Any] | None:
        """Numbers instead of keys, which are often the ids of players: many times as long."""
        numbers = keys.numbers(old_keys)
        if not numbers:
            return node_of(sets, into)
        into[::2] = [numbers[index] for index in indexes]
        return node_of(sets, nth=into)

    def change_by_key(self, old: dict[Any, Any], new: dict[Any, Any]) -> list[Any] | None:
        """Keys came, went, or were reordered, which clients do not see."""
        item, key_of = self._item, self._key or _text_key
        sets: list[Any] = []
        into: list[Any] = []
        key = None
        try:
            for key, row in new.items():
                if key not in old:
                    sets += (key_of(key), item.image(row))
                elif old[key] != row:
                    node = item.change(old[key], row)
                    if node is REPLACED:
                        sets += (key_of(key), item.image(row))
                    elif node is not None:
                        into += (key_of(key), node)
        except Unshareable as error:
            raise error.under(key) from None
        return node_of(sets, into, [key_of(key) for key in old if key not in new])

    def check(self, value: Any) -> None:
        if not isinstance(value, dict):
            raise Unshareable(f"{a(value)} is not a dict")
        for key, each in value.items():
            try:
                (self._key or _text_key)(key)
                self._item.check(each)
            except Unshareable as error:
                raise error.under(key) from None


class NotedParts(dict[str, Any]):
    """The shadow of `Parts`. It knows which entries differ from the one before it, so that not all are compared."""

    __slots__ = ("before", "changed", "mark")

    def __init__(self, rows: Iterable[tuple[str, Any]] | dict[str, Any]) -> None:
        super().__init__(rows)
        # Not the shadow before itself: it would keep all of them.
        self.mark = object()
        self.before: object | None = None
        self.changed: tuple[str, ...] = ()


class PartsShape(Shape):
    """`Parts`: to clients a dict, of which only the entries that were accessed are noted and compared."""

    compares = True

    def __init__(self, item: Shape) -> None:
        self._item = item
        self._dict = DictShape(item)
        self.take = self._take

    def _take(self, value: Parts[Any]) -> NotedParts:
        watch, take = value.watch(self), self._item.take
        known: NotedParts | None = watch.noted
        if known is None:
            noted = NotedParts((key, take(value.peek(key))) for key in value)
        else:
            rows = {key: take(value.peek(key)) for key in watch.touched if key in value}
            changed = [
                key for key in watch.touched if (key in rows) != (key in known) or rows.get(key) != known.get(key)
            ]
            noted = known
            if changed:
                noted = NotedParts(known)
                noted.before, noted.changed = known.mark, tuple(changed)
                for key in changed:
                    if key in rows:
                        noted[key] = rows[key]
                    else:
                        del noted[key]
        watch.noted = noted
        watch.touched.clear()
        return noted

    def image(self, shadow: Any) -> Any:
        return self._dict.image((list(shadow), list(shadow.values())))

    def change(self, old: Any, new: Any) -> list[Any] | None:
        if old is new:
            return None
        keys = new.changed if new.before is old.mark else {**old, **new}
        return self._dict.change_by_key(
            {key: old[key] for key in keys if key in old}, {key: new[key] for key in keys if key in new}
        )

    def check(self, value: Any) -> None:
        if not isinstance(value, Parts):
            raise Unshareable(f"{a(value)} is not Parts")
        self._dict.check({key: value.peek(key) for key in value})


class Rows(list[Any]):
    """The shadow of a list whose values can change in themselves, and which objects they were.

    Equality is that of the rows. The objects only tell what moved: a list of which every entry has changed and one was
    removed is still one splice.
    """

    __slots__ = ("objects",)

    objects: list[Any]


class ListShape(Shape):
    """A list: by index where values stayed in their places, and splices where some came, went or moved."""

    compares = True

    def __init__(self, item: Shape) -> None:
        self._item = item
        self.take = list.copy if item.is_scalar else self._take

    def are_ready(self, values: Sequence[Any]) -> bool:
        return _LISTS.issuperset(map(type, values)) and self._item.are_ready(
            () if self._item.is_scalar else list(chain.from_iterable(values))
        )

    def _take(self, value: Any) -> Rows:
        rows = Rows(map(self._item.take, value))
        rows.objects = list.copy(value)
        return rows

    def image(self, shadow: Any) -> Any:
        return self._item.images(shadow)

    def change(self, old: Any, new: Any) -> list[Any] | None:
        if old == new:
            return None
        if self._item.is_scalar:
            return self._change_scalars(old, new)
        if len(old) == len(new):
            changed = list(compress(range(len(new)), map(ne, old, new)))
            first = changed[0]
            if len(changed) == 1 or old.objects[first] is new.objects[first]:
                return self._change_at(old, new, zip(changed, changed, strict=True), [])
        return self._change_moved(old, new)

    def _change_scalars(self, old: Any, new: Any) -> list[Any] | None:
        if len(old) == len(new):
            changed = _changed_scalars(old, new)
            start, end = changed[0], changed[-1] + 1
            # A splice has no index beside each value, and a head of its own.
            if 2 * len(changed) <= end - start or len(changed) < _DENSE_MIN:
                return self._change_at(old, new, zip(changed, changed, strict=True), [])
            old_end = end
        else:
            shorter = min(len(old), len(new))
            start = _common(old, new, shorter)
            kept = _common(reversed(old), reversed(new), shorter - start)
            old_end, end = len(old) - kept, len(new) - kept
        return node_of([], splice=[start, old_end - start, self._images(new, start, end)])

    def _change_moved(self, old: Any, new: Any) -> list[Any] | None:
        """Align the two lists by which objects they held, or by equal values at both ends; splice what is between."""
        start, kept = _common_ends(old, new)
        old_end, end = len(old) - kept, len(new) - kept
        before = compress(range(start), map(ne, old, new))
        changed = [(place, place) for place in before]
        splice: list[Any] = []
        if start in (old_end, end):
            splice += (start, old_end - start, self._images(new, start, end))
        else:
            moved = _moved(old.objects, new.objects, start, old_end, end)
            i = j = start
            for old_place, place in [*moved, (old_end, end)]:
                if old_place - i != place - j:
                    splice += (j, old_place - i, self._images(new, j, place))
                elif i < old_place:
                    # As many as before: replaced one by one, perhaps by what differs in one field.
                    changed += zip(range(i, old_place), range(j, place), strict=True)
                i, j = old_place + 1, place + 1
            changed += moved
        if kept:
            after = compress(range(kept), map(ne, old[old_end:], new[end:]))
            changed += [(old_end + place, end + place) for place in after]
        return self._change_at(old, new, changed, splice)

    def _change_at(self, old: Any, new: Any, places: Iterable[tuple[int, int]], splice: list[Any]) -> list[Any] | None:
        """What has changed at these places: each the old one and the new one."""
        item = self._item
        sets: list[Any] = []
        into: list[Any] = []
        place = 0
        try:
            for old_place, place in places:
                before, row = old[old_place], new[place]
                if before == row:
                    continue
                node = item.change(before, row)
                if node is REPLACED:
                    sets += (place, item.image(row))
                elif node is not None:
                    into += (place, node)
        except Unshareable as error:
            raise error.under(place) from None
        return node_of(sets, into, splice=splice)

    def _images(self, rows: Any, start: int, end: int) -> list[Any]:
        try:
            return self._item.images(rows[start:end])
        except Unshareable as error:
            error.path = (start + error.path[0], *error.path[1:])
            raise

    def check(self, value: Any) -> None:
        if not isinstance(value, list):
            raise Unshareable(f"{a(value)} is not a list")
        for index, each in enumerate(value):
            try:
                self._item.check(each)
            except Unshareable as error:
                raise error.under(index) from None


def _changed_scalars(old: list[Any], new: list[Any]) -> list[int]:
    """The places where two lists of one length differ."""
    places = range(len(new))
    found: list[int] = []
    for start in _blocks(old, new, places, _LARGE_BLOCK):
        for place in _blocks(old, new, places[start : start + _LARGE_BLOCK], _BLOCK):
            end = place + _BLOCK
            found += compress(places[place:end], map(ne, old[place:end], new[place:end]))
    return found


def _blocks(old: list[Any], new: list[Any], places: range, size: int) -> list[int]:
    """Where the blocks begin that differ."""
    return [start for start in places[::size] if old[start : start + size] != new[start : start + size]]


def _common(old: Iterable[Any], new: Iterable[Any], most: int, differs: Callable[[Any, Any], bool] = ne) -> int:
    """How many places from the start are the same."""
    return min(most, next(compress(count(), map(differs, old, new)), most))


def _common_ends(old: Rows, new: Rows) -> tuple[int, int]:
    """How many places from the start, and from the end, hold the same object, or after those an equal one."""
    shorter = min(len(old), len(new))
    start = _common(old.objects, new.objects, shorter, is_not)
    start += _common(old[start:], new[start:], shorter - start)
    left = shorter - start
    if not left:
        return start, 0
    kept = _common(reversed(old.objects), reversed(new.objects), left, is_not)
    if kept < left:
        kept += _common(old[-1 - kept :: -1], new[-1 - kept :: -1], left - kept)
    return start, kept


def _moved(old: list[Any], new: list[Any], start: int, old_end: int, end: int) -> list[tuple[int, int]]:
    """The most objects that are in both parts in the same order: where each was, and is."""
    was = {id(each): place for place, each in enumerate(old[start:old_end], start)}
    both = [(was[id(each)], place) for place, each in enumerate(new[start:end], start) if id(each) in was]
    places = [old_place for old_place, _ in both]
    if all(map(lt, places, places[1:])):
        return both
    # The longest increasing run of old places: for each length, the run that ends first.
    ends: list[int] = []
    runs: list[Any] = []
    for old_place, place in both:
        length = bisect_left(ends, old_place)
        run = (old_place, place, runs[length - 1] if length else None)
        ends[length : length + 1] = [old_place]
        runs[length : length + 1] = [run]
    found: list[tuple[int, int]] = []
    last = runs[-1] if runs else None
    while last is not None:
        old_place, place, last = last
        found.append((old_place, place))
    return found[::-1]
