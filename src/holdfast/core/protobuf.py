"""The codec `holdfast.v1.protobuf`: the frames and messages of spec/holdfast.proto, through the protobuf library.

What was received becomes plain data, and msgspec checks it as it checks MessagePack and JSON: the same input is refused
with the same words. The library is an extra, and is imported when the codec is used for the first time.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from math import isfinite
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from holdfast.core.codec import DECODE_ERRORS, MSGPACK, Codec
from holdfast.core.errors import ProtocolError
from holdfast.core.proto_types import Kind, ProtoField, ProtoMessage, ProtoTypes, check_numbers
from holdfast.schemas.frames import (
    Ack,
    BlockFrame,
    Bye,
    Close,
    Data,
    Frame,
    FromClient,
    FromServer,
    Hello,
    Latest,
    Notice,
    Ping,
    Pong,
    Reply,
    Request,
    SeatFrame,
    Welcome,
)
from holdfast.schemas.requests import REQUESTS

FRAMES: Mapping[type[Struct], int] = {
    Hello: 1,
    Welcome: 2,
    Request: 3,
    Reply: 4,
    Data: 5,
    BlockFrame: 6,
    Latest: 7,
    Ack: 8,
    Ping: 9,
    Pong: 10,
    SeatFrame: 11,
    Notice: 12,
    Bye: 13,
    Close: 14,
}
"""The number of each frame in `Frame`. They never change."""

PACKAGE = "holdfast.v1"
VALUE: Sequence[tuple[str, int, Kind]] = (
    *(("null", 1, "bool"), ("boolean", 2, "bool"), ("integer", 3, "int64"), ("number", 4, "double")),
    *(("text", 5, "string"), ("data", 6, "bytes"), ("unsigned", 9, "uint64")),
)
"""The plain fields of `Value`; beside them it has a `list` (7) and a `map` (8). Integers from 2^63 are `unsigned`."""
LIST, MAP = 7, 8

DEPTH_MAX = 100
"""The library refuses messages that are nested deeper."""
_SCALARS = frozenset({bool, int, float, str, bytes})
_INTEGERS, _UNSIGNED = range(-(2**63), 2**63), range(2**63, 2**64)
_TYPES: Mapping[Kind, str] = {
    "bool": "TYPE_BOOL",
    "int64": "TYPE_INT64",
    "uint64": "TYPE_UINT64",
    "double": "TYPE_DOUBLE",
    "float": "TYPE_FLOAT",
    "string": "TYPE_STRING",
    "bytes": "TYPE_BYTES",
    "body": "TYPE_BYTES",
    "message": "TYPE_MESSAGE",
    "value": "TYPE_MESSAGE",
}


def is_installed() -> bool:
    """Whether the protobuf library is there."""
    try:
        return find_spec("google.protobuf") is not None
    except ModuleNotFoundError:
        return False


class _Library:
    """The parts of the library that are used, and the classes it made for our messages."""

    def __init__(self) -> None:
        self.descriptors: Any = import_module("google.protobuf.descriptor_pb2")
        self.unknown: Any = import_module("google.protobuf.unknown_fields")
        self._factory: Any = import_module("google.protobuf.message_factory")
        self.error: type[Exception] = import_module("google.protobuf.message").DecodeError
        self._pool: Any = import_module("google.protobuf.descriptor_pool").DescriptorPool()
        self._count = 0
        self._add(self._value_file())

    def make(self, root: ProtoMessage) -> Callable[[], Any]:
        """The class of a message, in a file of its own with all that it refers to."""
        self._count += 1
        file = self.descriptors.FileDescriptorProto(
            name=f"{self._count}.proto", package=f"p{self._count}", syntax="proto3", dependency=["value.proto"]
        )
        names: dict[int, str] = {}
        waiting = [root]
        names[id(root)] = "M0"
        while waiting:
            message = waiting.pop()
            check_numbers(message)
            made = file.message_type.add(name=names[id(message)])
            for each in message.fields:
                if each.message is not None and id(each.message) not in names:
                    names[id(each.message)] = f"M{len(names)}"
                    waiting.append(each.message)
                self._field(made, each, names, f".{file.package}", is_choice=message.form == "union")
        self._add(file)
        return self._class(f"{file.package}.M0")

    def _field(self, made: Any, of: ProtoField, names: Mapping[int, str], package: str, *, is_choice: bool) -> None:
        kinds = self.descriptors.FieldDescriptorProto
        field = made.field.add(name=of.name, number=of.number, type=getattr(kinds, _TYPES[of.kind]))
        field.label = kinds.LABEL_OPTIONAL if of.shape == "one" else kinds.LABEL_REPEATED
        if of.kind == "value":
            field.type_name = f".{PACKAGE}.Value"
        elif of.message is not None:
            field.type_name = f"{package}.{names[id(of.message)]}"
        if of.shape == "map":
            entry = made.nested_type.add(name="".join(part.capitalize() for part in of.name.split("_")) + "Entry")
            entry.options.map_entry = True
            key = entry.field.add(name="key", number=1, type=getattr(kinds, _TYPES[of.key_kind]))
            value = entry.field.add(name="value", number=2, type=field.type)
            if field.type_name:
                value.type_name = field.type_name
            key.label = value.label = kinds.LABEL_OPTIONAL
            field.type, field.type_name = kinds.TYPE_MESSAGE, f"{package}.{made.name}.{entry.name}"
        if is_choice:
            if not made.oneof_decl:
                made.oneof_decl.add(name="one")
            field.oneof_index = 0
        elif of.is_optional and of.shape == "one":
            made.oneof_decl.add(name=f"_{of.name}")
            field.oneof_index, field.proto3_optional = len(made.oneof_decl) - 1, True

    def _value_file(self) -> Any:
        kinds = self.descriptors.FieldDescriptorProto
        file = self.descriptors.FileDescriptorProto(name="value.proto", package=PACKAGE, syntax="proto3")
        value = file.message_type.add(name="Value")
        value.oneof_decl.add(name="kind")
        for name, number, kind in VALUE:
            value.field.add(name=name, number=number, type=getattr(kinds, _TYPES[kind]), label=1, oneof_index=0)
        for name, number in (("List", LIST), ("Map", MAP)):
            value.field.add(
                name=name.lower(), number=number, type=kinds.TYPE_MESSAGE, label=1, oneof_index=0,
                type_name=f".{PACKAGE}.Value.{name}",
            )  # fmt: skip
        items = value.nested_type.add(name="List").field.add(name="items", number=1, label=3, type=kinds.TYPE_MESSAGE)
        items.type_name = f".{PACKAGE}.Value"
        entries = value.nested_type.add(name="Map")
        entry = entries.nested_type.add(name="EntriesEntry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=1)
        entry.field.add(name="value", number=2, type=kinds.TYPE_MESSAGE, type_name=f".{PACKAGE}.Value", label=1)
        field = entries.field.add(name="entries", number=1, type=kinds.TYPE_MESSAGE, label=3)
        field.type_name = f".{PACKAGE}.Value.Map.EntriesEntry"
        return file

    def _add(self, file: Any) -> None:
        self._pool.AddSerializedFile(file.SerializeToString())

    def _class(self, name: str) -> Callable[[], Any]:
        made: Callable[[], Any] = self._factory.GetMessageClass(self._pool.FindMessageTypeByName(name))
        return made

    def value(self) -> Any:
        return self._class(f"{PACKAGE}.Value")()


# msgspec keeps what it knows of a Struct, and would look at any other type each time.
class _ClientFrames(Struct, array_like=True):
    frames: list[FromClient]


class _ServerFrames(Struct, array_like=True):
    frames: list[FromServer]


F = TypeVar("F", _ClientFrames, _ServerFrames)


class ProtobufCodec(Codec):
    """Frames and messages as protobuf. Classes of messages are made when they are first used, and kept."""

    has_opaque_bodies = True

    def __init__(self) -> None:
        self.name, self.text = "holdfast.v1.protobuf", False
        self.encode = self._encode
        self._types = ProtoTypes()
        self._made: dict[int, Callable[[], Any]] = {}
        self._plans: dict[Any, ProtoMessage] = {}
        self._frames = self._types.union(FRAMES, "Frame")
        self._ask = self.plan_of(tuple[str, Raw])
        self._payload = ProtoMessage(None, "object", ("Payload",))
        self._payload.fields.append(ProtoField("frames", "frames", "frames", 1, "message", self._frames, "list"))

    @cached_property
    def _library(self) -> _Library:
        return _Library()

    @property
    def for_state(self) -> Codec:
        return MSGPACK

    def plan_of(self, kind: Any) -> ProtoMessage:
        """The message of a class."""
        found = self._plans.get(kind)
        if found is None:
            found = self._plans[kind] = self._types.of(kind)
        return found

    # Encoding

    def _encode(self, value: Any) -> bytes:
        """A frame, a payload of frames, a message's body, the answer to a request; anything else as a `Value`."""
        if isinstance(value, Frame):
            return self._written(self._payload, (value,))
        if isinstance(value, Struct):
            return self._written(self.plan_of(type(value)), value)
        if isinstance(value, list | tuple) and value:
            first = value[0]
            if isinstance(first, Frame):
                return self._written(self._payload, value)
            if isinstance(first, Struct):
                return self._written(self.plan_of(list[type(first)]), value)  # type: ignore[misc]  # it is made here
            if isinstance(first, str) and isinstance(value, tuple):
                # An ask: the type of a message, and the message.
                return self._written(self._ask, (first, Raw(self._encode(value[1]))))
            if isinstance(first, tuple):
                return self._written(self.plan_of(BlockFrame), {"messages": value})
        return self._written_value(value)

    def encode_request(self, operation: str, arguments: Any) -> bytes:
        return self._written(self.plan_of(REQUESTS[operation]), arguments)

    def encode_any(self, value: Any) -> bytes:
        return self._written_value(value)

    def _written(self, plan: ProtoMessage, value: Any) -> bytes:
        message = self._new(plan)
        if plan is self._payload:
            for frame in value:
                self._fill(message.frames.add(), self._frames, frame)
        elif plan.is_wrapper:
            self._set(message, plan.fields[0], value)
        else:
            self._fill(message, plan, value)
        written: bytes = message.SerializeToString(deterministic=True)
        return written

    def _new(self, plan: ProtoMessage) -> Any:
        made = self._made.get(id(plan))
        if made is None:
            made = self._made[id(plan)] = self._library.make(plan)
        return made()

    def _fill(self, message: Any, plan: ProtoMessage, value: Any) -> None:
        if plan.form == "union":
            chosen = plan.fields[plan.cls.index(type(value))]
            inner = getattr(message, chosen.name)
            inner.SetInParent()
            assert chosen.message is not None
            self._fill(inner, chosen.message, value)
            return
        is_struct = isinstance(value, Struct)
        is_mapping = not is_struct and isinstance(value, Mapping)
        for at, (field, key, name, attribute, _, _, is_scalar, is_optional) in enumerate(plan.rows):
            if is_struct:
                content = getattr(value, attribute)
                if is_scalar and type(content) in _SCALARS:
                    # What is zero is absent, but where that is not the same.
                    if content or is_optional:
                        try:
                            setattr(message, name, content)
                        except (TypeError, ValueError) as error:
                            raise _misfit(field, content, error) from None
                    continue
            elif is_mapping:
                content = value.get(key, msgspec.UNSET)
            else:
                content = value[at] if type(value) is tuple else getattr(value, attribute)
            if content is not None and content is not msgspec.UNSET:
                self._set(message, field, content)
            elif content is None and field.kind == "value" and not field.none_if_absent:
                getattr(message, name).null = True

    def _set(self, message: Any, field: ProtoField, value: Any) -> None:
        if field.shape == "list":
            if isinstance(value, Raw):
                message.MergeFromString(bytes(value))
            else:
                self._set_list(getattr(message, field.name), field, value)
        elif field.shape == "map":
            self._set_map(getattr(message, field.name), field, value)
        elif field.kind == "message":
            inner = getattr(message, field.name)
            inner.SetInParent()
            assert field.message is not None
            self._fill(inner, field.message, value)
        elif field.kind == "value":
            self._fill_value(getattr(message, field.name), value)
        else:
            try:
                setattr(message, field.name, self._scalar(field.kind, value))
            except (TypeError, ValueError) as error:
                raise _misfit(field, value, error) from None

    def _set_list(self, items: Any, field: ProtoField, values: Any) -> None:
        if field.kind == "message":
            assert field.message is not None
            for each in values:
                self._fill(items.add(), field.message, each)
        elif field.kind == "value":
            for each in values:
                self._fill_value(items.add(), each)
        else:
            items.extend([self._scalar(field.kind, each) for each in values])

    def _set_map(self, entries: Any, field: ProtoField, values: Mapping[Any, Any]) -> None:
        for key, value in values.items():
            name = self._scalar(field.key_kind, key)
            if field.kind == "message":
                assert field.message is not None
                entries[name].SetInParent()
                self._fill(entries[name], field.message, value)
            elif field.kind == "value":
                self._fill_value(entries[name], value)
            else:
                entries[name] = self._scalar(field.kind, value)

    def _scalar(self, kind: Kind, value: Any) -> Any:
        match kind:
            case "string":
                return value if type(value) is str else msgspec.to_builtins(value, str_keys=True)
            case "body":
                return bytes(value) if isinstance(value, Raw) else self._encode(value)
            case "bytes":
                return bytes(value)
            case "int64":
                return value if type(value) is int else msgspec.to_builtins(value)
            case _:
                return value

    def _written_value(self, value: Any) -> bytes:
        message = self._library.value()
        self._fill_value(message, value)
        written: bytes = message.SerializeToString(deterministic=True)
        return written

    def _fill_value(self, message: Any, value: Any) -> None:  # noqa: PLR0912 - a table
        match value:
            case None:
                message.null = True
            case bool():
                message.boolean = value
            case int() if value in _INTEGERS:
                message.integer = value
            case int() if value in _UNSIGNED:
                message.unsigned = value
            case int():
                raise OverflowError(f"{value} has more than the 64 bits of an integer in protobuf")
            case float():
                message.number = value
            case str():
                message.text = value if type(value) is str else str(msgspec.to_builtins(value))
            case bytes() | bytearray() | memoryview():
                message.data = bytes(value)
            case list() | tuple() | set() | frozenset():
                message.list.SetInParent()
                for each in value:
                    self._fill_value(message.list.items.add(), each)
            case Mapping():
                message.map.SetInParent()
                for key, each in value.items():
                    name = key if type(key) is str else msgspec.to_builtins({key: None}, str_keys=True)
                    self._fill_value(message.map.entries[name if type(name) is str else next(iter(name))], each)
            case _:
                self._fill_value(message, msgspec.to_builtins(value, builtin_types=(bytes, bytearray, memoryview)))

    # Decoding

    def body_decoder(self, kind: Any) -> "BodyOfProtobuf":
        return BodyOfProtobuf(self, kind)

    def read(self, payload: bytes, kind: Any, depth_max: int = DEPTH_MAX, *, must_be_finite: bool = False) -> Any:
        """A message as an object of this class; one of `DECODE_ERRORS` if it is none, or nested deeper."""
        plan = self.plan_of(kind)
        plain = _Reader(self._library, depth_max, must_be_finite=must_be_finite).plain(
            self._parsed(plan, payload), plan
        )
        if plan.is_wrapper:
            plain = plain.get("value")
        return msgspec.convert(plain, kind)

    def from_client(self, payload: bytes) -> list[FromClient]:
        return self._frames_of(payload, _ClientFrames).frames

    def from_server(self, payload: bytes) -> list[FromServer]:
        return self._frames_of(payload, _ServerFrames).frames

    def _frames_of(self, payload: bytes, kind: type[F]) -> F:
        try:
            return msgspec.convert((self._raw_frames(payload),), kind)
        except DECODE_ERRORS as error:
            raise ProtocolError(f"not a payload of frames: {error}") from None

    def plain_frames(self, payload: bytes) -> list[list[Any]]:
        """With the arguments of requests; of other bodies there is only their size."""
        frames = self._raw_frames(payload)
        for frame in frames:
            for at, content in enumerate(frame):
                if isinstance(content, Raw):
                    frame[at] = f"({len(bytes(content))} bytes)"
                elif frame[0] == BlockFrame.name and isinstance(content, list):
                    frame[at] = [[name, f"({len(bytes(body))} bytes)"] for name, body in content]
        return frames

    def plain_request(self, request: Request) -> Any:
        return msgspec.to_builtins(self.read(bytes(request.arguments), REQUESTS[request.operation]))

    def _raw_frames(self, payload: bytes) -> list[list[Any]]:
        message = self._parsed(self._payload, payload)
        plain = _Reader(self._library, DEPTH_MAX).plain
        return [plain(each, self._frames) for each in message.frames]

    def _parsed(self, plan: ProtoMessage, payload: bytes) -> Any:
        message = self._new(plan)
        try:
            message.ParseFromString(bytes(payload))
        except self._library.error as error:
            raise msgspec.DecodeError(f"not a protobuf message: {error}") from None
        return message


class _Reader:
    """Makes plain data of messages, to some depth."""

    __slots__ = ("_depth_max", "_left", "_library", "_must_be_finite")

    def __init__(self, library: _Library, depth_max: int, *, must_be_finite: bool = False) -> None:
        self._must_be_finite = must_be_finite
        self._library = library
        self._depth_max = self._left = depth_max

    def plain(self, message: Any, plan: ProtoMessage) -> Any:
        """A message as a list or as a mapping."""
        if plan.form == "union":
            name = message.WhichOneof("one")
            if name is None:
                raise msgspec.ValidationError(f"a {plan.names[-1]} of no known kind")
            chosen = next(each for each in plan.fields if each.name == name)
            assert chosen.message is not None
            return self.plain(getattr(message, name), chosen.message)
        if plan.forbids_unknown and len(self._library.unknown.UnknownFieldSet(message)):
            raise msgspec.ValidationError("Object contains unknown fields")
        self._enter()
        plain = self._array(message, plan) if plan.form == "array" else self._object(message, plan)
        self._left += 1
        return plain

    def _enter(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise msgspec.ValidationError(f"nested more than {self._depth_max} levels deep")

    def _object(self, message: Any, plan: ProtoMessage) -> dict[str, Any]:
        plain = {} if plan.tag is None else {plan.tag[0]: plan.tag[1]}
        for field, key, name, _, has_presence, is_plain, _, _ in plan.rows:
            if not has_presence or message.HasField(name):
                content = getattr(message, name)
                plain[key] = content if is_plain else self._content(content, field)
            elif field.none_if_absent:
                plain[key] = None
        return plain

    def _array(self, message: Any, plan: ProtoMessage) -> list[Any]:
        plain = [] if plan.tag is None else [plan.tag[1]]
        for field, _, name, _, has_presence, is_plain, _, _ in plan.rows:
            if not has_presence or message.HasField(name):
                content = getattr(message, name)
                plain.append(content if is_plain else self._content(content, field))
            else:
                plain.append(field.default)
        return plain

    def _content(self, content: Any, field: ProtoField) -> Any:
        if field.shape == "one":
            return self._one(content, field)
        self._enter()
        if field.shape == "map":
            several: Any = {key: self._one(each, field) for key, each in content.items()}
        elif field.kind in {"message", "value", "double", "float"}:
            several = [self._one(each, field) for each in content]
        else:
            several = list(content)
        self._left += 1
        return several

    def _one(self, content: Any, field: ProtoField) -> Any:
        if field.kind == "message":
            assert field.message is not None
            return self.plain(content, field.message)
        if field.kind == "value":
            return self._value(content)
        if field.kind in {"double", "float"}:
            self._check(content)
        return Raw(content) if field.kind == "body" else content

    def _check(self, number: float) -> None:
        if self._must_be_finite and not isfinite(number):
            raise msgspec.ValidationError("a number must be finite: NaN and infinity cannot be sent")

    def _value(self, message: Any) -> Any:
        name = message.WhichOneof("kind")
        if name is None or name == "null":
            return None
        if name == "number":
            self._check(message.number)
        if name not in {"list", "map"}:
            return getattr(message, name)
        self._enter()
        if name == "list":
            plain: Any = [self._value(each) for each in message.list.items]
        else:
            plain = {key: self._value(each) for key, each in message.map.entries.items()}
        self._left += 1
        return plain


def _misfit(field: ProtoField, value: Any, error: Exception) -> Exception:
    return type(error)(f"{field.key!r} is {field.kind} in protobuf, and cannot be {value!r}")


class BodyOfProtobuf:
    """Decodes the bodies of one class. What has no class stays bytes: only its sender knows what they mean."""

    def __init__(
        self, codec: ProtobufCodec, kind: Any, depth_max: int = DEPTH_MAX, *, must_be_finite: bool = False
    ) -> None:
        self._codec = codec
        self._kind = kind
        self._depth_max = depth_max
        self._must_be_finite = must_be_finite

    def bounded(self, depth_max: int) -> "BodyOfProtobuf":
        """The same decoder, limited to this depth."""
        return BodyOfProtobuf(self._codec, self._kind, depth_max, must_be_finite=self._must_be_finite)

    def finite(self) -> "BodyOfProtobuf":
        """The same decoder, for finite numbers only."""
        return BodyOfProtobuf(self._codec, self._kind, self._depth_max, must_be_finite=True)

    def decode(self, body: Any, /) -> Any:
        if self._kind is Any:
            return bytes(body)
        if self._kind is Raw:
            return Raw(bytes(body))
        return self._codec.read(body, self._kind, self._depth_max, must_be_finite=self._must_be_finite)


PROTOBUF = ProtobufCodec()


def typed(content: Any, kind: Any) -> Any:
    """Data from a server as what it must be: it is plain already, or the bytes of a message of this class."""
    return PROTOBUF.read(bytes(content), kind) if isinstance(content, Raw) else msgspec.convert(content, kind)
