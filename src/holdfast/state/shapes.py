"""How values of one type are noted, compared and written.

A *shadow* is what is noted of a value: scalars as they are, a row of its fields for a Struct, copies of lists. It holds
nothing that the game can change, so a difference between two shadows is a value too, whatever the game does afterwards.
Two shadows that compare equal look the same to a client, but for what `==` calls equal: 1 and 1.0, 0.0 and -0.0.

A *change* is what leads from one shadow to another: a node, or REPLACED if the value is to be set as a whole.
An *image* is a shadow in the form in which both codecs encode it.
"""

import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from struct import Struct as Packing
from typing import Any

import msgspec

from holdfast.state.errors import Unshareable, a

REPLACED: list[Any] = []
"""Instead of a node: nothing of the old value is left."""

_FLOAT32 = Packing(">Bf")
_FLOAT32_HEAD = 0xCA


class Float32(float):
    """A float that is sent with single precision. It is rounded when it is encoded."""

    __slots__ = ()

    def packed(self) -> bytes:
        """As MessagePack has it; `OverflowError` for one that is too large."""
        return _FLOAT32.pack(_FLOAT32_HEAD, self)

    def rounded(self) -> float:
        """As every client has it."""
        _, value = _FLOAT32.unpack(_FLOAT32.pack(_FLOAT32_HEAD, self))
        return float(value)


def float32(value: Any) -> Any:
    """A float as `F32` sends it."""
    return Float32(finite(value)) if type(value) is float else value


def finite(value: Any) -> Any:
    """The value, unless it is a float that JSON does not have."""
    if type(value) is float and not math.isfinite(value):
        raise Unshareable(f"{value!r} cannot be shared: JSON has no such number")
    return value


def _are_finite(values: Iterable[Any]) -> bool:
    """Whether these are finite numbers, at a fifth of the cost of looking at each; may say no in doubt."""
    try:
        return math.isfinite(sum(values))
    except (TypeError, OverflowError):
        return False


def _rounded(values: list[Any]) -> list[float] | None:
    """These numbers in single precision; None if they are not all numbers that are finite in it."""
    try:
        rounded = array("f", values)
    except (TypeError, OverflowError):
        return None
    return rounded.tolist() if _are_finite(rounded) else None


def same(value: Any) -> Any:
    """The value as it is."""
    return value


class Shape:
    """One type of value. `take` notes a value; it must be fast, and may raise anything for a value of another type."""

    take: Callable[[Any], Any]
    is_scalar = False
    compares = False
    """Whether `change` takes equal shadows too, and says that nothing has changed."""

    def image(self, shadow: Any) -> Any:
        """A shadow, ready to be encoded."""
        raise NotImplementedError

    def images(self, shadows: Iterable[Any]) -> list[Any]:
        """Many of them."""
        made: list[Any] = []
        try:
            made.extend(map(self.image, shadows))
        except Unshareable as error:
            raise error.under(len(made)) from None
        return made

    def are_ready(self, values: Sequence[Any]) -> bool:
        """Whether these values, of which all numbers are known to be finite, are encoded as their images are."""
        return False

    def change(self, old: Any, new: Any) -> list[Any] | None:
        """What leads from one shadow to another that is not equal; None if clients see no difference."""
        raise NotImplementedError

    def check(self, value: Any) -> None:
        """Raise `Unshareable` for a value that is not of this type, with the path. Slow: for when something failed."""
        raise NotImplementedError


class Scalar(Shape):
    """What cannot change in itself: numbers, text, bytes, enums, None, and tuples of those."""

    is_scalar = True

    def __init__(self, types: Iterable[type], wire: Callable[[Any], Any] = same) -> None:
        self.types = frozenset(types)
        self.wire = wire
        self.take = same
        self.is_plain = wire is same

    def are_ready(self, values: Sequence[Any]) -> bool:
        return self.is_plain or self.wire is finite

    def image(self, shadow: Any) -> Any:
        return self.wire(shadow)

    def is_ready(self, values: Iterable[Any]) -> bool:
        """Whether all of these are sent as they are; may say no in doubt."""
        return self.is_plain or (self.wire is finite and _are_finite(values))

    def images(self, shadows: Iterable[Any]) -> list[Any]:
        values = list(shadows)
        if self.is_ready(values):
            return values
        if self.wire is float32 and (rounded := _rounded(values)) is not None:
            return rounded
        return super().images(values)

    def change(self, old: Any, new: Any) -> list[Any] | None:
        return REPLACED

    def check(self, value: Any) -> None:
        if type(value) not in self.types:
            raise Unshareable(f"{a(value)} is not {' or '.join(sorted(kind.__name__ for kind in self.types))}")
        _check_encodable(self.wire(value))


class Absent(Shape):
    """A dict that is empty for everybody: who sees what of it is written elsewhere."""

    def __init__(self) -> None:
        self.take = self._take

    def _take(self, _: Any) -> None:
        return None

    def image(self, shadow: Any) -> Any:
        return {}

    def change(self, old: Any, new: Any) -> list[Any] | None:
        return None

    def check(self, value: Any) -> None:
        if not isinstance(value, dict):
            raise Unshareable(f"{a(value)} is not a dict")


class TupleOfScalars(Scalar):
    """A tuple, compared and sent whole."""

    def __init__(self, items: Iterable[Scalar], rest: Scalar | None = None) -> None:
        self._items = tuple(items)
        self._rest = rest
        is_plain = all(item.is_plain for item in (*self._items, *([rest] if rest else ())))
        super().__init__([tuple], same if is_plain else self._wire)

    def _wire(self, value: Any) -> Any:
        if self._rest is not None:
            return tuple(map(self._rest.wire, value))
        return tuple([item.wire(each) for item, each in zip(self._items, value, strict=True)])

    def check(self, value: Any) -> None:
        super().check(value)
        items = self._items if self._rest is None else (self._rest,) * len(value)
        if len(items) != len(value):
            raise Unshareable(f"{a(value)} does not have {len(items)} values")
        for index, (item, each) in enumerate(zip(items, value, strict=True)):
            try:
                item.check(each)
            except Unshareable as error:
                raise error.under(index) from None


class Leaf(Shape):
    """Everything else: compared by its encoding, and sent whole."""

    def __init__(self, check_secrets: Callable[[Any], None] | None = None) -> None:
        self._check_secrets = check_secrets
        self.take = self._take

    def _take(self, value: Any) -> bytes:
        if self._check_secrets is not None:
            self._check_secrets(value)
        plain = msgspec.to_builtins(value, builtin_types=(bytes,), str_keys=True, order="deterministic")
        return _encode(plain)

    def image(self, shadow: Any) -> Any:
        plain = _decode(shadow)
        _check_plain(plain)
        return plain

    def change(self, old: Any, new: Any) -> list[Any] | None:
        return REPLACED

    def check(self, value: Any) -> None:
        try:
            self.image(self._take(value))
        except Unshareable:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the codec says of this value
            raise Unshareable(str(error)) from None


class Union(Shape):
    """One of several types. The shadow has the type beside it: 1 and True are two values, not one."""

    def __init__(self, by_type: Mapping[type, Shape]) -> None:
        self._by_type = by_type
        self.take = self._take

    def _take(self, value: Any) -> tuple[type, Any]:
        kind = type(value)
        return kind, self._by_type[kind].take(value)

    def image(self, shadow: Any) -> Any:
        kind, inner = shadow
        return self._by_type[kind].image(inner)

    def change(self, old: Any, new: Any) -> list[Any] | None:
        kind, inner = new
        return self._by_type[kind].change(old[1], inner) if old[0] is kind else REPLACED

    def check(self, value: Any) -> None:
        if type(value) not in self._by_type:
            names = " or ".join(sorted(kind.__name__ for kind in self._by_type))
            raise Unshareable(f"{a(value)} is not {names}")
        self._by_type[type(value)].check(value)


class MayBeUnset(Shape):
    """A field that is left out while it is `UNSET`."""

    def __init__(self, inner: Shape) -> None:
        self._inner = inner
        self.take = self._take

    def _take(self, value: Any) -> Any:
        return value if value is msgspec.UNSET else self._inner.take(value)

    def image(self, shadow: Any) -> Any:
        return shadow if shadow is msgspec.UNSET else self._inner.image(shadow)

    def change(self, old: Any, new: Any) -> list[Any] | None:
        is_replaced = old is msgspec.UNSET or new is msgspec.UNSET
        return REPLACED if is_replaced else self._inner.change(old, new)

    def check(self, value: Any) -> None:
        if value is not msgspec.UNSET:
            self._inner.check(value)


class Secrets:
    """Looks through values of any type for what must not leave: a field typed `Any` may hold a Struct with secrets."""

    _PLAIN = frozenset({type(None), bool, int, float, str, bytes})

    def __init__(self, has_secrets: Callable[[type], bool]) -> None:
        self._has_secrets = has_secrets
        self._known: dict[type, bool] = {}

    def check(self, value: Any) -> None:
        """Raise `Unshareable` if a Struct with private or hidden fields is in it, or what nobody can look into."""
        kind = type(value)
        if kind in self._PLAIN or isinstance(value, Enum):
            return
        if isinstance(value, msgspec.Struct):
            if kind not in self._known:
                self._known[kind] = self._has_secrets(kind)
            if self._known[kind]:
                raise Unshareable(f"{a(value)} has private or hidden fields: declare it as the field's type")
            inside: Iterable[Any] = zip(kind.__struct_fields__, msgspec.structs.astuple(value), strict=True)
        elif isinstance(value, dict):
            inside = value.items()
        elif isinstance(value, list | tuple | set | frozenset):
            inside = enumerate(value)
        else:
            raise Unshareable(f"{a(value)} cannot be shared: declare it as the field's type")
        for key, each in inside:
            try:
                self.check(each)
            except Unshareable as error:
                raise error.under(key) from None


_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode = msgspec.msgpack.Decoder().decode


def _check_plain(plain: Any) -> None:
    """Refuse floats that JSON does not have."""
    if type(plain) is float:
        finite(plain)
    elif type(plain) is list or type(plain) is dict:
        for key, each in plain.items() if type(plain) is dict else enumerate(plain):
            try:
                _check_plain(each)
            except Unshareable as error:
                raise error.under(key) from None


def _check_encodable(value: Any) -> None:
    try:
        _encode(value.rounded() if type(value) is Float32 else value)
    except Exception as error:  # noqa: BLE001 - a whole number of 65 bits, half a surrogate pair
        raise Unshareable(f"{a(value)} cannot be encoded: {error}") from None
