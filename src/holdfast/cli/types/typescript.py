"""Messages as TypeScript, exactly as they look to a client that speaks MessagePack."""

import inspect
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct
from msgspec import inspect as mi

from holdfast.cli.types.names import TwoOfOneName, names_for
from holdfast.cli.types.reach import Reach
from holdfast.core.messages import Message
from holdfast.core.room import Room
from holdfast.server.messages.parts import Direction, Named, Record, is_array, may_be_missing, without_words
from holdfast.server.messages.spoken import Spoken, spoken_in
from holdfast.server.messages.version import name_of, version_of

_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_PLAIN: dict[type[mi.Type], str] = {
    mi.AnyType: "unknown",
    mi.BoolType: "boolean",
    mi.ByteArrayType: "Uint8Array",
    mi.BytesType: "Uint8Array",
    mi.DateType: "string",
    mi.DecimalType: "string",
    mi.FloatType: "number",
    mi.IntType: "number",
    mi.MemoryViewType: "Uint8Array",
    mi.NoneType: "null",
    mi.RawType: "unknown",
    mi.StrType: "string",
    mi.TimeDeltaType: "string",
    mi.TimeType: "string",
    mi.UUIDType: "string",
}
_ARRAYS = (mi.CollectionType, mi.FrozenSetType, mi.ListType, mi.SetType, mi.VarTupleType)
# Keys that are text on the wire.
_TEXT_KEYS = (mi.DateTimeType, mi.DateType, mi.DecimalType, mi.StrType, mi.TimeType, mi.TimeDeltaType, mi.UUIDType)


class Unmappable(Exception):
    """Something in a game's messages has no place in TypeScript; the text names it."""


@dataclass(frozen=True, slots=True)
class _Talk:
    """One kind of room, and what its clients and it say."""

    room: type[Room[Any]]
    spoken: Spoken

    @property
    def interface(self) -> str:
        return f"{self.room.__name__}Messages"

    @property
    def constant(self) -> str:
        name = self.room.__name__
        return f"{name[:1].lower()}{name[1:]}Version"


def typescript(rooms: Sequence[type[Room[Any]]], source: str) -> str:
    """A module with the messages of these rooms; `source` is the file that they come from."""
    talks = [_Talk(room, spoken_in(room)) for room in sorted(rooms, key=lambda room: room.kind)]
    writer = _Writer(talks)
    head = f"// Made by `holdfast types {source}`; do not edit. Make it again when the game's messages change.\n"
    return "\n".join([head, *writer.types(), *map(writer.talk, talks)])


class _Writer:
    """Knows what each type is called."""

    def __init__(self, talks: Sequence[_Talk]) -> None:
        self._reach = Reach()
        self._messages: dict[type[Message], mi.Type] = {}
        for talk in talks:
            self._take(talk, "toServer", talk.spoken.to_server)
            self._take(talk, "toClient", talk.spoken.to_client)
        taken = {name for talk in talks for name in (talk.interface, talk.constant)}
        if len(taken) < 2 * len(talks):
            raise Unmappable("two kinds of rooms have classes of the same name: give one of them another")
        try:
            self._names = names_for(self._reach.types, taken)
        except TwoOfOneName as error:
            raise Unmappable(str(error)) from None
        halves = {self._name(cls, "toServer") for cls in self._names if self._reach.is_split(cls)}
        for double in sorted(halves.intersection(self._names.values())):
            # TypeScript would take two interfaces of one name for one.
            raise Unmappable(f"two classes would be called {double}: give one of them another name")

    def _take(self, talk: _Talk, direction: Direction, messages: Iterable[type[Message]]) -> None:
        wire_names: dict[str, type[Message]] = {}
        for message in messages:
            other = wire_names.setdefault(message.wire_name, message)
            if other is not message:
                where = f"{other.__module__}.{other.__qualname__} and {message.__module__}.{message.__qualname__}"
                raise Unmappable(f"{talk.room.__name__}: {where} are both called {message.wire_name!r}")
            self._messages[message] = _info(message)
            self._reach.add(self._messages[message], direction)

    def types(self) -> list[str]:
        """The declaration of every type, in the order of their names."""
        declared = []
        for cls, name in sorted(self._names.items(), key=lambda item: item[1]):
            kind = self._reach.types[cls]
            if self._reach.is_split(cls):
                declared.append(self._declared(name, kind, "toClient"))
                declared.append(self._declared(self._name(cls, "toServer"), kind, "toServer"))
            else:
                declared.append(self._declared(name, kind, self._reach.directions(cls)[0]))
        return declared

    def talk(self, talk: _Talk) -> str:
        """What one kind of room and its clients say, and the version of it."""
        version = version_of(talk.spoken)
        sides: list[tuple[Direction, tuple[type[Message], ...]]] = [
            ("toServer", talk.spoken.to_server),
            ("toClient", talk.spoken.to_client),
        ]
        kind = _closed(json.dumps(talk.room.kind))
        lines = [f"/** Rooms of the kind {kind}. */", f"export interface {talk.interface} {{"]
        for side, messages in sides:
            bodies = [
                f"    {_key(message.wire_name)}: {self._type(self._messages[message], side, message.__name__)};"
                for message in messages
            ]
            lines += [f"  {side}: {{", *bodies, "  };"] if bodies else [f"  {side}: Record<never, never>;"]
        lines += [f"  version: typeof {talk.constant};", "}", ""]
        lines += [
            f"/** Version {name_of(version)} of these messages: give it when you create and join rooms. */",
            f"export const {talk.constant} = {json.dumps(version)};",
        ]
        return "\n".join(lines) + "\n"

    def _declared(self, name: str, kind: Named, side: Direction) -> str:
        if isinstance(kind, mi.EnumType):
            return f"{_comment(kind.cls)}export type {name} = {_one_of(each.value for each in kind.cls)};\n"
        if is_array(kind):
            return f"{_comment(kind.cls)}export type {name} = {self._tuple(kind, side)};\n"
        fields = [
            f"  {_key(field.encode_name)}{'?' if may_be_missing(kind, field, side) else ''}: "
            f"{self._type(field.type, side, _place(kind, field))};"
            for field in kind.fields
        ]
        if isinstance(kind, mi.StructType) and kind.tag_field is not None:
            fields.insert(0, f"  {_key(kind.tag_field)}: {json.dumps(kind.tag)};")
        if not fields:
            return f"{_comment(kind.cls)}export type {name} = Record<string, never>;\n"
        return "\n".join([f"{_comment(kind.cls)}export interface {name} {{", *fields, "}"]) + "\n"

    def _tuple(self, kind: Record, side: Direction) -> str:
        is_missing = [may_be_missing(kind, field, side) for field in kind.fields]
        # Only what is at the end can be left out.
        last_needed = max((at for at, missing in enumerate(is_missing) if not missing), default=-1)
        parts = []
        for at, field in enumerate(kind.fields):
            label = field.name if _IDENTIFIER.fullmatch(field.name) else "_"
            mark = "?" if at > last_needed else ""
            parts.append(f"{label}{mark}: {self._type(field.type, side, _place(kind, field))}")
        if isinstance(kind, mi.StructType) and kind.tag is not None:
            parts.insert(0, f"tag: {json.dumps(kind.tag)}")
        return f"[{', '.join(parts)}]"

    def _type(self, kind: mi.Type, side: Direction, place: str) -> str:
        kind = without_words(kind)
        match kind:
            case mi.StructType() | mi.DataclassType() | mi.TypedDictType() | mi.NamedTupleType() | mi.EnumType():
                return self._name(kind.cls, side)
            case mi.UnionType(types=types):
                # Numbers of two kinds are one.
                return " | ".join(dict.fromkeys(self._type(each, side, place) for each in types))
            case mi.LiteralType(values=values):
                return _one_of(values)
            case mi.TupleType(item_types=types):
                return f"[{', '.join(self._type(each, side, place) for each in types)}]"
            case mi.DateTimeType(tz=tz):
                with_zone = "string" if side == "toServer" else "Date"
                return {True: with_zone, False: "string", None: "string" if side == "toServer" else "Date | string"}[tz]
            case _ if isinstance(kind, _ARRAYS):
                item = self._type(kind.item_type, side, place)
                return f"({item})[]" if " | " in item else f"{item}[]"
            case _ if hasattr(kind, "key_type") and hasattr(kind, "value_type"):
                return self._mapping(kind.key_type, self._type(kind.value_type, side, place), side, place)
            case _ if type(kind) in _PLAIN:
                return _PLAIN[type(kind)]
            case _:
                what = getattr(getattr(kind, "cls", None), "__name__", type(kind).__name__)
                raise Unmappable(f"{place} is of a type that has no place in TypeScript: {what}")

    def _mapping(self, key: mi.Type, value: str, side: Direction, place: str) -> str:
        key = without_words(key)
        if isinstance(key, _TEXT_KEYS):
            return f"Record<string, {value}>"
        values: Iterable[Any] = ()
        match key:
            case mi.EnumType(cls=cls):
                values = [each.value for each in cls]
            case mi.LiteralType(values=literals):
                values = literals
            case _:
                pass
        if values and all(isinstance(each, str) for each in values):
            return f"Partial<Record<{self._type(key, side, place)}, {value}>>"
        raise Unmappable(f"{place} has keys that are not text; JavaScript's objects have no others")

    def _name(self, cls: Any, side: Direction) -> str:
        name = self._names[cls]
        return f"{name}ToServer" if side == "toServer" and self._reach.is_split(cls) else name


def _info(message: type[Message]) -> mi.Type:
    try:
        return mi.type_info(message)
    except (TypeError, NameError) as error:
        for name, annotation in inspect.get_annotations(message).items():
            try:
                mi.type_info(annotation)
            except (TypeError, NameError) as own:
                raise Unmappable(f"{message.__name__}.{name}: {own}") from None
        raise Unmappable(f"{message.__name__}: {error}") from None


def _place(kind: Record, field: mi.Field) -> str:
    return f"{getattr(kind.cls, '__name__', kind.cls)}.{field.name}"


def _key(name: str) -> str:
    return name if _IDENTIFIER.fullmatch(name) else json.dumps(name)


def _one_of(values: Iterable[Any]) -> str:
    return " | ".join(json.dumps(each) for each in sorted(values, key=lambda each: (str(type(each)), each)))


def _closed(text: str) -> str:
    """Text that cannot end the comment that it stands in."""
    return text.replace("*/", "* /")


def _comment(cls: Any) -> str:
    """What a class says of itself, if it says it itself: dataclasses and enums have words from Python too."""
    is_message = isinstance(cls, type) and issubclass(cls, Struct)
    text = inspect.cleandoc(vars(cls).get("__doc__") or "") if is_message else ""
    if not text:
        return ""
    lines = _closed(text).splitlines()
    if len(lines) == 1:
        return f"/** {lines[0]} */\n"
    return "\n".join(["/**", *(f" * {line}".rstrip() for line in lines), " */"]) + "\n"
