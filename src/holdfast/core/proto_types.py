"""Types as protobuf messages: which fields a message has, and with which numbers. Pure: no protobuf library is needed.

A field's number is its place in the class, counted from 1; `Annotated[float, Meta(extra={"protobuf": 7})]` gives it
another, and the fields after it go on from there. What a type cannot say in protobuf is a `Value`, which is any value.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import EnumType
from typing import Any, Final, Literal, NamedTuple

import msgspec.inspect as mi
from msgspec import NODEFAULT, Struct

from holdfast.schemas.frames import OWN_BODY
from holdfast.state.markers import FLOAT32

NUMBER: Final = "protobuf"
"""The key of a field's number in `Meta(extra={…})`."""

NUMBER_MAX = 2**29 - 1
# Protobuf's own.
_RESERVED = range(19_000, 20_000)

Kind = Literal["bool", "int64", "uint64", "double", "float", "string", "bytes", "message", "value", "body"]
"""`body` is the bytes of another message, whose type is known from elsewhere; `value` is any value."""
Shape = Literal["one", "list", "map"]
Form = Literal["object", "array", "union"]
"""What a message is as plain data: a mapping, a list, or one of several messages that say which they are."""

_SCALARS: Mapping[type[mi.Type], Kind] = {
    mi.BoolType: "bool",
    mi.ByteArrayType: "bytes",
    mi.BytesType: "bytes",
    mi.DateTimeType: "string",
    mi.DateType: "string",
    mi.DecimalType: "string",
    mi.IntType: "int64",
    mi.MemoryViewType: "bytes",
    mi.RawType: "body",
    mi.StrType: "string",
    mi.TimeDeltaType: "string",
    mi.TimeType: "string",
    mi.UUIDType: "string",
}
_LISTS = (mi.CollectionType, mi.FrozenSetType, mi.ListType, mi.SetType, mi.VarTupleType)
_RECORDS = (mi.StructType, mi.DataclassType, mi.TypedDictType, mi.NamedTupleType)


class BadFieldNumber(Exception):
    """A class cannot be written as a protobuf message: two fields have one number, or a number is none."""


@dataclass(slots=True)
class ProtoField:
    """One field of a message."""

    name: str
    key: str
    """Its name in plain data."""
    attribute: str
    number: int
    kind: Kind
    message: "ProtoMessage | None" = None
    shape: Shape = "one"
    key_kind: Kind = "string"
    is_optional: bool = False
    """Whether it matters that a scalar is absent: else an absent one is zero."""
    none_if_absent: bool = False
    is_required: bool = True
    default: Any = None
    """What an array has in the place of one that is absent."""

    @property
    def has_presence(self) -> bool:
        """Whether one can see that it is absent."""
        return self.shape == "one" and (self.is_optional or self.kind in {"message", "value"})

    @property
    def flags(self) -> tuple[bool, bool, bool]:
        """Whether the library's value is ours, whether ours is the library's if its type fits, and `is_optional`."""
        is_plain = self.shape == "one" and self.kind in {"bool", "int64", "uint64", "string", "bytes"}
        return is_plain, is_plain or (self.shape == "one" and self.kind in {"double", "float"}), self.is_optional


class Row(NamedTuple):
    """A field, and what of it is needed each time."""

    field: ProtoField
    key: str
    name: str
    attribute: str
    has_presence: bool
    is_plain: bool
    is_scalar: bool
    is_optional: bool


@dataclass(slots=True, eq=False)
class ProtoMessage:
    """One message, which may refer to itself."""

    cls: Any
    """The class, or the classes of a union."""
    form: Form
    names: tuple[str, ...] = ()
    """The class and field in which it was first found: the name of a message that has no class."""
    fields: list[ProtoField] = field(default_factory=list)
    tag: tuple[str, Any] | None = None
    forbids_unknown: bool = False
    is_wrapper: bool = False
    """Whether it stands for what is in its one field, `value`: a list, say, which is no message."""
    _rows: list["Row"] | None = None

    @property
    def rows(self) -> list["Row"]:
        """Its fields, as they are looked at for each message."""
        rows = self._rows
        if rows is None:
            rows = self._rows = [
                Row(each, each.key, each.name, each.attribute, each.has_presence, *each.flags) for each in self.fields
            ]
        return rows


class ProtoTypes:
    """The messages of some classes, each made once."""

    def __init__(self) -> None:
        self.messages: dict[Any, ProtoMessage] = {}

    def of(self, kind: Any) -> ProtoMessage:
        """The message of a class; for a list or another type a message with one field, `value`."""
        info = _bare(mi.type_info(kind))[0]
        if isinstance(info, (*_RECORDS, mi.TupleType)) or _tagged(info):
            return self._message(info, ())
        found = self.messages.get(kind)
        if found is None:
            found = self.messages[kind] = ProtoMessage(kind, "object", ("Wrapper",), is_wrapper=True)
            found.fields.append(self._field(mi.Field("value", "value", info), 1, ()))
        return found

    def union(self, classes: Mapping[type[Struct], int], name: str) -> ProtoMessage:
        """One of these structs, each with the number of its field."""
        found = ProtoMessage(tuple(classes), "union", (name,))
        for cls, number in classes.items():
            message = self._message(mi.type_info(cls), ())
            tag = cls.__struct_config__.tag
            found.fields.append(ProtoField(identifier(str(tag)), str(tag), "", number, "message", message))
        return found

    def _message(self, info: mi.Type, names: tuple[str, ...]) -> ProtoMessage:
        if isinstance(info, mi.UnionType):
            return self._union(info, names)
        # A tuple has no class, and is made each time.
        key = getattr(info, "cls", names)
        found = self.messages.get(key)
        if found is not None and not isinstance(info, mi.TupleType):
            return found
        is_array = isinstance(info, mi.TupleType | mi.NamedTupleType) or getattr(info, "array_like", False)
        found = ProtoMessage(key, "array" if is_array else "object", names or (_class_name(key),))
        # Known before its fields are: one of them may refer to it.
        self.messages[key] = found
        found.forbids_unknown = getattr(info, "forbid_unknown_fields", False)
        if getattr(info, "tag", None) is not None:
            assert isinstance(info, mi.StructType)
            found.tag = str(info.tag_field), info.tag
        number = 0
        for each in _fields_of(info):
            number = _own_number(each, number + 1, found)
            found.fields.append(self._field(each, number, (*found.names, each.name)))
        return found

    def _union(self, info: mi.UnionType, names: tuple[str, ...]) -> ProtoMessage:
        members = [each for each in info.types if isinstance(each, mi.StructType)]
        classes = tuple(each.cls for each in members)
        if classes in self.messages:
            return self.messages[classes]
        found = self.messages[classes] = ProtoMessage(classes, "union", names or ("Union",))
        for number, each in enumerate(members, 1):
            message = self._message(each, ())
            found.fields.append(ProtoField(identifier(str(each.tag)), str(each.tag), "", number, "message", message))
        return found

    def _field(self, of: mi.Field, number: int, names: tuple[str, ...]) -> ProtoField:
        info, extra = _bare(of.type)
        info, is_nullable = _without_none(info)
        info = _bare(info)[0]
        default = of.default
        if of.default_factory is not NODEFAULT:
            default = of.default_factory()
        made = ProtoField(identifier(of.encode_name), of.encode_name, of.name, number, "value", is_required=of.required)
        made.default = None if default is NODEFAULT else default
        scalar: Kind | None = "float" if FLOAT32 in extra else "body" if OWN_BODY in extra else _scalar(info)
        if is_nullable and not of.required and default is not None and default is not NODEFAULT:
            return made  # absent is the default, and None is a value beside it
        made.none_if_absent = is_nullable and of.required
        if scalar is not None:
            made.kind = scalar
            is_zero = type(default) in {bool, int, float, str, bytes} and not default
            made.is_optional = is_nullable or (not of.required and not is_zero)
        elif isinstance(info, (*_RECORDS, mi.TupleType)) or _tagged(info):
            made.kind, made.message = "message", self._message(info, _own_names(info, names))
        elif isinstance(info, mi.AnyType):
            made.none_if_absent = of.required
        elif not is_nullable and (of.required or not default):
            self._several(made, info, names)
        return made

    def _several(self, made: ProtoField, info: mi.Type, names: tuple[str, ...]) -> None:
        if isinstance(info, _LISTS):
            made.shape = "list"
            made.kind, made.message = self._item(info.item_type, names)
        elif isinstance(info, mi.DictType):
            key = _bare(info.key_type)[0]
            key_kind = "string" if isinstance(key, mi.AnyType) else _scalar(key)
            if key_kind in {"string", "int64"}:
                made.shape, made.key_kind = "map", key_kind
                made.kind, made.message = self._item(info.value_type, names)

    def _item(self, info: mi.Type, names: tuple[str, ...]) -> tuple[Kind, ProtoMessage | None]:
        info, extra = _bare(info)
        scalar: Kind | None = "float" if FLOAT32 in extra else _scalar(info)
        if scalar is not None and scalar != "body":
            return scalar, None
        if isinstance(info, (*_RECORDS, mi.TupleType)) or _tagged(info):
            return "message", self._message(info, _own_names(info, names))
        return "value", None


def identifier(name: str) -> str:
    """A field's name in protobuf, where only ASCII letters, digits and underscores may be in one."""
    text = "".join(each if each.isascii() and each.isalnum() else "_" for each in name)
    return text if text[:1].isalpha() else f"f_{text}"


def check_numbers(message: ProtoMessage) -> None:
    """Refuse numbers and names that occur twice, and numbers that protobuf does not have."""
    numbers: dict[int, str] = {}
    names: set[str] = set()
    for each in message.fields:
        where = f"{'.'.join(message.names)}.{each.key}"
        if not 1 <= each.number <= NUMBER_MAX or each.number in _RESERVED:
            raise BadFieldNumber(f"{where} has the number {each.number}: use 1 to 18,999, or 20,000 to {NUMBER_MAX:,}")
        if each.number in numbers:
            raise BadFieldNumber(f"{where} has the number {each.number}, as {numbers[each.number]} has")
        if each.name in names:
            raise BadFieldNumber(f"{where} has the name of another field in protobuf, {each.name}: rename one of them")
        numbers[each.number] = each.key
        names.add(each.name)


def _own_number(of: mi.Field, next_number: int, owner: ProtoMessage) -> int:
    number = _bare(of.type)[1].get(NUMBER)
    if number is not None:
        if type(number) is not int:
            raise BadFieldNumber(f"{'.'.join(owner.names)}.{of.name}: {NUMBER!r} takes a whole number; got {number!r}")
        return number
    return _RESERVED.stop if next_number in _RESERVED else next_number


def _fields_of(info: mi.Type) -> Sequence[mi.Field]:
    if isinstance(info, mi.TupleType):
        return [mi.Field(f"item{at}", f"item{at}", each) for at, each in enumerate(info.item_types, 1)]
    assert isinstance(info, _RECORDS)
    return info.fields


def _own_names(info: mi.Type, names: tuple[str, ...]) -> tuple[str, ...]:
    return names if isinstance(info, mi.TupleType | mi.UnionType) else ()


def _class_name(cls: Any) -> str:
    return str(getattr(cls, "__qualname__", getattr(cls, "__name__", cls)))


def _bare(info: mi.Type) -> tuple[mi.Type, dict[str, Any]]:
    """The type without its metadata, and what that says."""
    extra: dict[str, Any] = {}
    while isinstance(info, mi.Metadata):
        extra |= info.extra or {}
        info = info.type
    return info, extra


def _without_none(info: mi.Type) -> tuple[mi.Type, bool]:
    if not isinstance(info, mi.UnionType):
        return info, False
    others = tuple(each for each in info.types if not isinstance(each, mi.NoneType))
    is_nullable = len(others) < len(info.types)
    return (others[0] if len(others) == 1 else mi.UnionType(others)), is_nullable


def _scalar(info: mi.Type) -> Kind | None:
    if isinstance(info, mi.FloatType):
        return "double"
    if isinstance(info, mi.UnionType):
        are_numbers = all(isinstance(_bare(each)[0], mi.IntType | mi.FloatType) for each in info.types)
        return "double" if are_numbers else None
    if isinstance(info, mi.EnumType):
        assert isinstance(info.cls, EnumType)
        return _kind_of_all(each.value for each in info.cls)
    if isinstance(info, mi.LiteralType):
        return _kind_of_all(info.values)
    return _SCALARS.get(type(info))


def _kind_of_all(values: Iterable[Any]) -> Kind | None:
    types = {type(each) for each in values}
    if types == {str}:
        return "string"
    return "int64" if types == {int} else None


def _tagged(info: mi.Type) -> bool:
    """Whether this is one of several structs that say which they are."""
    return isinstance(info, mi.UnionType) and all(
        isinstance(each, mi.StructType) and each.tag is not None for each in info.types
    )
