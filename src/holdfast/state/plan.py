"""Compiles the type of a state into a plan: what is noted of it, and what leaves, for one audience."""

import datetime
import decimal
import uuid
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import msgspec.inspect as mi

from holdfast.state.containers import DictShape, ListShape, PartsShape, StructShape, reader
from holdfast.state.errors import Unshareable, a
from holdfast.state.markers import AREAS, FLOAT32, HIDDEN, PARTS, PRIVATE, has_marker
from holdfast.state.nodes import DEPTH_MAX, Node, depth_of
from holdfast.state.parts import Parts, fields_of
from holdfast.state.shapes import (
    Absent,
    Leaf,
    MayBeUnset,
    Scalar,
    Secrets,
    Shape,
    TupleOfScalars,
    Union,
    finite,
    float32,
    same,
)

Shadow = list[Any]
"""What a plan has noted of its values. Never changed; equal shadows look the same to a client."""


class Audience(Enum):
    """Whose view a plan is for."""

    EVERYBODY = "everybody"
    """Public fields: neither private nor hidden."""
    OWNER = "owner"
    """What a player sees of their own data: everything but what is hidden. Nothing if none of it is private."""
    RECORDING = "recording"
    """Everything."""


class SharedPlan:
    """A view of some values under a name each: the roots that clients see.

    Shadows are values: hold one for as long as somebody may have to catch up from there.
    """

    def __init__(
        self,
        roots: Mapping[str, Any],
        audience: Audience | Mapping[str, Audience] = Audience.EVERYBODY,
        *,
        areas_in: str = "",
        is_strict: bool = False,
    ) -> None:
        """An audience for all roots, or one for each. The root `areas_in` may have fields that are `Areas`: they are
        empty here. A strict plan checks the class of every Struct: any other may have secrets of its own.
        """
        is_exact = audience is Audience.RECORDING
        compiler = _Compiler(is_strict=is_strict, is_exact=is_exact)
        audiences = dict.fromkeys(roots, audience) if isinstance(audience, Audience) else audience
        shapes = {
            name: compiler.root(kind, name, audiences[name], has_areas=name == areas_in) for name, kind in roots.items()
        }
        self._places = [place for place, shape in enumerate(shapes.values()) if shape is not None]
        self._roots = StructShape(tuple)
        self._roots.complete(
            [(name, name, shape) for name, shape in shapes.items() if shape is not None], read=same, tag={}
        )
        self._can_nest = compiler.can_nest
        self.is_empty = not self._places
        """Nothing in these types is for this audience."""

    def take(self, *values: Any) -> Shadow:
        """Note the values of the roots; `Unshareable` if one of them is not of its type."""
        try:
            return [shape.take(values[place]) for place, shape in zip(self._places, self._roots.shapes, strict=True)]
        except RecursionError:
            raise _too_deep() from None
        except Exception:
            self.check(*values)
            raise

    def diff(self, old: Shadow, new: Shadow) -> Node | None:
        """The node that leads from one shadow to another; None if clients see no difference."""
        return self._checked(self._roots.change(old, new))

    def whole(self, shadow: Shadow, *values: Any) -> Node:
        """The node that leads there from nothing: it sets the roots.

        With the values that the shadow was just taken from, where a node that leads to it was made before and all
        numbers are thereby known to be finite, it has those values themselves, if it can: encode it at once.
        """
        sets: list[Any] = []
        for place, name, shape, noted in zip(self._places, self._roots.names, self._roots.shapes, shadow, strict=True):
            if values and shape.are_ready((values[place],)):
                sets += (name, values[place])
                continue
            try:
                sets += (name, shape.image(noted))
            except Unshareable as error:
                raise error.under(name) from None
        return self._checked([sets]) or [sets]

    def check(self, *values: Any) -> None:
        """Raise `Unshareable` with the path of the first value that is not of its declared type, or cannot be sent."""
        for place, name, shape in zip(self._places, self._roots.names, self._roots.shapes, strict=True):
            try:
                shape.check(values[place])
            except Unshareable as error:
                raise error.under(name) from None

    def _checked(self, node: Node | None) -> Node | None:
        if self._can_nest and node is not None and depth_of(node) > DEPTH_MAX:
            raise _too_deep()
        return node


def _too_deep() -> Unshareable:
    return Unshareable(f"the state is nested more than {DEPTH_MAX} levels deep, or in itself")


class Tracker:
    """A plan and the last shadow: what has changed since it was asked last.

    If a node cannot be encoded, put back the `shadow` from before: the change is then part of the next one.
    """

    __slots__ = ("plan", "shadow")

    def __init__(self, plan: SharedPlan, *values: Any) -> None:
        self.plan = plan
        self.shadow = plan.take(*values)
        # What cannot be sent is found now: later, only changes are looked at.
        plan.whole(self.shadow)

    def diff(self, *values: Any) -> Node | None:
        """What has changed. If this raises, nothing counts as seen."""
        new = self.plan.take(*values)
        try:
            node = self.plan.diff(self.shadow, new)
        except Exception:
            # Which value it is, if it is one of another type.
            self.plan.check(*values)
            raise
        self.shadow = new
        return node

    def whole(self, *values: Any) -> Node:
        """The state as it was at the last `diff`; faster with the values, if nothing has changed since."""
        return self.plan.whole(self.shadow, *values)


def entry_shape(info: mi.Type) -> Shape:
    """The shape of an entry of a dict in a state, as everybody may see it."""
    return _Compiler().entry(info)


def area_fields(info: mi.Type) -> list[mi.Field]:
    """The fields of a Struct that are `Areas`, but for hidden ones."""
    if not isinstance(info, mi.StructType):
        return []
    extras = [(field, field.type.extra) for field in fields_of(info) if isinstance(field.type, mi.Metadata)]
    return [field for field, extra in extras if has_marker(extra, AREAS) and not has_marker(extra, HIDDEN)]


def is_secret(kind: Any) -> bool:
    """Whether this whole type is marked as private or hidden."""
    info = mi.type_info(kind)
    return isinstance(info, mi.Metadata) and (has_marker(info.extra, PRIVATE) or has_marker(info.extra, HIDDEN))


def has_private(kind: Any) -> bool:
    """Whether a type has private fields, at any depth: data that belongs to a player may, a room's state may not."""
    return _has(mi.type_info(kind), PRIVATE)


def has_secrets(kind: Any) -> bool:
    """Whether a type has private or hidden fields, at any depth."""
    info = mi.type_info(kind)
    return _has(info, PRIVATE, HIDDEN)


def secret_fields(kind: type) -> frozenset[str]:
    """The fields of a Struct that are private or hidden."""
    info = mi.type_info(kind)
    assert isinstance(info, mi.StructType)
    extras = {field.name: field.type.extra for field in info.fields if isinstance(field.type, mi.Metadata)}
    return frozenset(name for name, extra in extras.items() if has_marker(extra, PRIVATE) or has_marker(extra, HIDDEN))


def deep_fields(kind: type) -> tuple[tuple[int, bool], ...]:
    """The places of a Struct's fields whose values can change in themselves; whether they hold only such as cannot."""
    info = mi.type_info(kind)
    assert isinstance(info, mi.StructType)
    deep = ((index, field.type) for index, field in enumerate(info.fields) if not _is_scalar(field.type))
    return tuple((index, _is_shallow(each)) for index, each in deep)


def _is_shallow(info: mi.Type) -> bool:
    """Whether this is a list or a dict of values that cannot change in themselves."""
    match info:
        case mi.Metadata(inner):
            return _is_shallow(inner)
        case mi.ListType(item) | mi.DictType(_, item):
            return _is_scalar(item)
        case _:
            return False


def _is_scalar(info: mi.Type) -> bool:
    """Whether values of this type cannot change in themselves."""
    match info:
        case mi.Metadata(inner):
            return _is_scalar(inner)
        case mi.UnionType(types) | mi.TupleType(types):
            return all(map(_is_scalar, types))
        case mi.VarTupleType(item):
            return _is_scalar(item)
        case mi.EnumType() | mi.LiteralType():
            return True
        case _:
            return type(info) in _SCALARS or type(info) in _NAMED


def _has(info: mi.Type, *markers: str) -> bool:
    seen: set[int] = set()
    todo = [info]
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, mi.Metadata) and any(has_marker(each.extra, marker) for marker in markers):
            return True
        todo += _parts(each)
    return False


def _parts(info: mi.Type) -> Iterable[mi.Type]:
    """The types that a type is made of."""
    for name in info.__struct_fields__:
        value = fields_of(info) if name == "fields" and isinstance(info, mi.StructType) else getattr(info, name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, mi.Field):
                yield part.type
            elif isinstance(part, mi.Type):
                yield part


class _Mode(Enum):
    """Which fields are seen, at one place of a type."""

    PUBLIC = "public"
    OWN = "own"
    """Everything but what is hidden."""
    ALL = "all"


_MODES = {Audience.EVERYBODY: _Mode.PUBLIC, Audience.OWNER: _Mode.OWN, Audience.RECORDING: _Mode.ALL}

_SCALARS: Mapping[type[mi.Type], tuple[type, ...]] = {
    mi.NoneType: (NoneType,),
    mi.BoolType: (bool,),
    mi.IntType: (int,),
    mi.FloatType: (float, int),
    mi.StrType: (str,),
    mi.BytesType: (bytes,),
}
_NUMBERS = frozenset({int, float})
# An entry of a field of a root.
_ENTRY_DEPTH = 3
# JavaScript has no whole numbers beyond this one.
_NUMBER_MAX = 2**53 - 1


class _Compiler:
    """Shapes of types, each made once: a type may contain itself."""

    def __init__(self, *, is_strict: bool = False, is_exact: bool = False) -> None:
        """`is_exact` if `F32` is not to be rounded."""
        self._float32 = finite if is_exact else float32
        self._is_strict = is_strict
        # The state's own fields that are `Areas`, by identity.
        self._areas: set[int] = set()
        self._structs: dict[tuple[int, _Mode], StructShape] = {}
        self._secrets = Secrets(has_secrets)
        # The same type must be the same object, or a type that contains itself would have no end.
        self._kept: list[mi.Type] = []
        self.can_nest = False

    def root(self, kind: Any, name: str, audience: Audience, *, has_areas: bool = False) -> Shape | None:
        try:
            info = mi.type_info(kind)
            self._kept.append(info)
            if audience is Audience.OWNER and not _has(info, PRIVATE):
                return None
            if has_areas:
                self._areas = {id(field.type) for field in area_fields(info)}
            return self._shape(info, _MODES[audience], 1)
        except Unshareable as error:
            raise error.under(name) from None

    def entry(self, info: mi.Type) -> Shape:
        """The shape of an entry of a dict in the state."""
        self._kept.append(info)
        return self._item(info, _Mode.PUBLIC, _ENTRY_DEPTH - 1)

    def _shape(self, info: mi.Type, mode: _Mode, depth: int) -> Shape:
        if depth > DEPTH_MAX:
            raise Unshareable(f"this type is nested more than {DEPTH_MAX} levels deep")
        if isinstance(info, mi.Metadata):
            return self._marked(info, mode, depth)
        if (scalar := self._scalar(info)) is not None:
            return scalar
        match info:
            case mi.StructType(array_like=False):
                return self._struct(info, mode, depth)
            case mi.ListType(item):
                return ListShape(self._item(item, mode, depth))
            case mi.DictType(key, value) if (keys := _keys(key)) is not None:
                return DictShape(self._item(value, mode, depth), key=keys[0], text=keys[1])
            case mi.UnionType(types):
                return self._union(types, mode, depth)
            case _:
                return self._leaf(info, mode)

    def _marked(self, info: mi.Metadata, mode: _Mode, depth: int) -> Shape:
        if has_marker(info.extra, PRIVATE) or has_marker(info.extra, HIDDEN):
            raise Unshareable("Private and Hidden must be around the whole type of a Struct's field")
        if has_marker(info.extra, FLOAT32):
            return Scalar((float, int), self._float32)
        if has_marker(info.extra, AREAS) and mode is not _Mode.ALL:
            if id(info) not in self._areas:
                raise Unshareable("Areas are fields of the room's state itself, and not of what `view` returns")
            return Absent()
        if has_marker(info.extra, PARTS):
            assert isinstance(info.type, mi.DictType)
            return PartsShape(self._item(info.type.value_type, mode, depth))
        return self._shape(info.type, mode, depth)

    def _item(self, info: mi.Type, mode: _Mode, depth: int) -> Shape:
        try:
            return self._shape(info, mode, depth + 1)
        except Unshareable as error:
            raise error.under("*") from None

    # What has no inside

    def _scalar(self, info: mi.Type) -> Scalar | None:
        match info:
            case mi.Metadata(extra=extra):
                is_marked = has_marker(extra, PRIVATE) or has_marker(extra, HIDDEN)
                if has_marker(extra, FLOAT32) and not is_marked:
                    return Scalar((float, int), self._float32)
                return None if is_marked else self._scalar(info.type)
            case mi.FloatType():
                return Scalar((float, int), finite)
            case mi.EnumType(cls):
                return Scalar([cls])
            case mi.LiteralType(values):
                return Scalar({type(value) for value in values})
            case mi.UnionType(types):
                return _either([self._scalar(each) for each in types])
            case mi.TupleType(types):
                items = [self._scalar(each) for each in types]
                return None if None in items else TupleOfScalars([item for item in items if item])
            case mi.VarTupleType(item):
                scalar = self._scalar(item)
                return None if scalar is None else TupleOfScalars((), scalar)
            case _:
                types_of = _SCALARS.get(type(info))
                return None if types_of is None else Scalar(types_of)

    def _leaf(self, info: mi.Type, mode: _Mode) -> Leaf:
        if getattr(info, "cls", None) is Parts:
            raise Unshareable("Parts must be the whole type of a Struct's field")
        if isinstance(info, mi.CustomType | mi.RawType | mi.ExtType):
            raise Unshareable(f"{getattr(info, 'cls', type(info)).__name__} cannot be shared: use a Struct")
        if mode is not _Mode.ALL and _has(info, PRIVATE, HIDDEN):
            raise Unshareable(
                "Private and Hidden work in Structs (not array_like ones), and lists, dicts and unions of them"
            )
        parts = [info, *_all_parts(info)]
        if mode is not _Mode.ALL and any(
            isinstance(part, mi.DictType) and not _is_key(part.key_type) for part in parts
        ):
            raise Unshareable("the keys of a dict must be text or numbers: use text, as in f'{x},{y}'")
        if not any(isinstance(part, mi.AnyType) for part in parts):
            return Leaf()
        if any(isinstance(part, mi.DataclassType | mi.CustomType) for part in parts):
            raise Unshareable("a dataclass with a field typed Any cannot be shared: use a Struct")
        self.can_nest = True
        return Leaf(None if mode is _Mode.ALL else self._secrets.check)

    # Unions

    def _union(self, types: Iterable[mi.Type], mode: _Mode, depth: int) -> Shape:
        by_type: dict[type, Shape] = {}
        for info in types:
            shape = self._shape(info, mode, depth)
            for kind in shape.types if isinstance(shape, Scalar) else _python_types(info):
                # A whole number where a float is declared is one of the float's types, unless int is declared too.
                if kind not in by_type or kind is not int:
                    by_type[kind] = shape
        members = list({id(shape): shape for shape in by_type.values()}.values())
        return _either(members) or Union(by_type)

    # Structs

    def _struct(self, info: mi.StructType, mode: _Mode, depth: int) -> StructShape:
        known = self._structs.get((id(info), mode))
        if known is not None:
            self.can_nest = self.can_nest or not known.is_complete
            return known
        kind = get_origin(info.cls) or info.cls
        shape = self._structs[id(info), mode] = StructShape(kind)
        fields: list[tuple[str, str, Shape]] = []
        unset = _may_be_unset(kind)
        for field in fields_of(info):
            try:
                seen = self._field(field, mode, depth)
            except Unshareable as error:
                raise error.under(field.name) from None
            if seen is not None:
                shape_seen = MayBeUnset(seen) if field.name in unset else seen
                fields.append((field.name, field.encode_name, shape_seen))
        tag = {} if info.tag is None else {"tag": info.tag, "tag_field": info.tag_field}
        read = reader(kind, [attribute for attribute, _, _ in fields])
        shape.complete(fields, read=_strictly(kind, read) if self._is_strict else read, tag=tag)
        return shape

    def _field(self, field: mi.Field, mode: _Mode, depth: int) -> Shape | None:
        """The shape of a field; None for one that is not seen."""
        info = field.type
        extra = info.extra if isinstance(info, mi.Metadata) else None
        is_private, is_hidden = has_marker(extra, PRIVATE), has_marker(extra, HIDDEN)
        if is_private and is_hidden:
            raise Unshareable("a field is Private or Hidden, not both")
        if (is_private or is_hidden) and field.required:
            raise Unshareable("a Private or Hidden field needs a default: it is what others have in its place")
        if is_private or is_hidden:
            assert isinstance(info, mi.Metadata)
            rest = {key: value for key, value in (extra or {}).items() if key not in (PRIVATE, HIDDEN)}
            info = mi.Metadata(info.type, info.extra_json_schema, rest or None)
            self._kept.append(info)
        match mode:
            case _Mode.PUBLIC:
                return None if is_private or is_hidden else self._shape(info, mode, depth + 1)
            case _Mode.OWN:
                return None if is_hidden else self._shape(info, mode, depth + 1)
            case _Mode.ALL:
                return self._shape(info, mode, depth + 1)


def _strictly(kind: type, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read_this_kind(value: Any) -> Any:
        if type(value) is not kind:
            raise Unshareable(f"{a(value)} is not of the type {kind.__name__}")
        return read(value)

    return read_this_kind


def _may_be_unset(kind: type) -> set[str]:
    """The fields that are left out while they are `UNSET`, which `msgspec.inspect` does not tell."""
    return {name for name, hint in get_type_hints(kind).items() if msgspec.UnsetType in get_args(hint)}


def _all_parts(info: mi.Type) -> list[mi.Type]:
    found: dict[int, mi.Type] = {}
    todo = list(_parts(info))
    while todo:
        each = todo.pop()
        if id(each) not in found:
            found[id(each)] = each
            todo += _parts(each)
    return list(found.values())


def _either(shapes: Iterable[Shape | None]) -> Scalar | None:
    """One scalar for several, if `==` can tell them apart: it cannot tell True from 1."""
    types: set[type] = set()
    wires: set[Callable[[Any], Any]] = set()
    for shape in shapes:
        if type(shape) is not Scalar:
            return None
        types |= shape.types
        wires |= {shape.wire} - {same}
    if (bool in types and types & _NUMBERS) or len(wires) > 1:
        return None
    return Scalar(types, *wires)


def _python_types(info: mi.Type) -> tuple[type, ...]:
    """What `type(value)` may be, of one member of a union."""
    match info:
        case mi.Metadata(inner):
            return _python_types(inner)
        case mi.ListType():
            return (list,)
        case mi.DictType() | mi.TypedDictType():
            return (dict,)
        case mi.SetType():
            return (set,)
        case mi.FrozenSetType():
            return (frozenset,)
        case mi.TupleType() | mi.VarTupleType():
            return (tuple,)
        case mi.ByteArrayType():
            return (bytearray,)
        case mi.StructType(cls) | mi.DataclassType(cls) | mi.NamedTupleType(cls):
            return (get_origin(cls) or cls,)
        case _:
            named = _NAMED.get(type(info))
            if named is None:
                raise Unshareable(f"{type(info).__name__} cannot be part of a union")
            return (named,)


_NAMED: Mapping[type[mi.Type], type] = {
    mi.DateTimeType: datetime.datetime,
    mi.DateType: datetime.date,
    mi.TimeType: datetime.time,
    mi.TimeDeltaType: datetime.timedelta,
    mi.DecimalType: decimal.Decimal,
    mi.UUIDType: uuid.UUID,
}


def _keys(info: mi.Type) -> tuple[Callable[[Any], Any] | None, Callable[[Any], str] | None] | None:
    """How keys are written in nodes and in images, if all are text, or all are whole numbers."""
    match info:
        case mi.Metadata(inner):
            return _keys(inner)
        case mi.StrType():
            return None, None
        case mi.IntType():
            return _int_key, _int_text
        case mi.EnumType(cls):
            values = {type(member.value) for member in cls}
            if values == {str}:
                return _enum_value, _enum_value
            return (_enum_key, _enum_text) if values == {int} else None
        case mi.LiteralType(values):
            types = {type(value) for value in values}
            if types == {str}:
                return None, None
            return (_int_key, _int_text) if types == {int} else None
        case _:
            return None


# What JSON can have as text in place of a key.
_KEYS = (mi.AnyType, mi.StrType, mi.IntType, mi.FloatType, mi.DecimalType, mi.UUIDType, mi.EnumType, mi.LiteralType)
_TIMES = (mi.DateTimeType, mi.DateType, mi.TimeType, mi.TimeDeltaType)


def _is_key(info: mi.Type) -> bool:
    """Whether values of this type may be keys of a dict that is shared."""
    match info:
        case mi.Metadata(inner):
            return _is_key(inner)
        case mi.UnionType(types):
            return all(map(_is_key, types))
        case _:
            return isinstance(info, (*_KEYS, *_TIMES))


def _int_key(key: Any) -> int | str:
    """Shorter as a number, as long as every client has that number."""
    if not isinstance(key, int):
        raise Unshareable(f"its key is {a(key)}, not a whole number")
    number = int(key)
    return number if -_NUMBER_MAX <= number <= _NUMBER_MAX else str(number)


def _int_text(key: Any) -> str:
    return str(_int_key(key))


def _enum_value(key: Any) -> Any:
    if not isinstance(key, Enum):
        raise Unshareable(f"its key is {a(key)}, not of an Enum")
    return key.value


def _enum_key(key: Any) -> int | str:
    return _int_key(_enum_value(key))


def _enum_text(key: Any) -> str:
    return str(_enum_value(key))
