"""`holdfast types game.py`: write a game's messages as TypeScript types, as clients that use MessagePack see them."""

import inspect
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any, get_args, get_origin

import click
from msgspec import Struct
from msgspec import inspect as mi

from holdfast.cli.loading import load
from holdfast.cli.shared_types import SHARED, Side, seen_fields, seen_types, shared_parts, side_of
from holdfast.core.messages import Message
from holdfast.core.room import Room
from holdfast.server.messages import (
    RECORDS,
    Direction,
    HandlerAnswer,
    Named,
    Record,
    RoomMessages,
    file_name,
    inner_types,
    is_array,
    may_be_missing,
    may_be_unset,
    messages_of,
    name_of,
    named_types,
    version_of,
    without_metadata,
)
from holdfast.state import Unshareable

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
# What the generated file itself uses. TypeScript's other words begin with a small letter.
_TAKEN = frozenset({"Date", "Partial", "Record", "Uint8Array"})
# Keys that are text on the wire.
_TEXT_KEYS = (mi.DateTimeType, mi.DateType, mi.DecimalType, mi.StrType, mi.TimeType, mi.TimeDeltaType, mi.UUIDType)


class Unmappable(Exception):
    """A type in a game's messages cannot be written in TypeScript; the text names it."""


@click.command()
@click.argument("game")
# There is one language so far.
@click.option(
    "--lang", type=click.Choice(["ts"]), default="ts", show_default=True, expose_value=False, help="Language."
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to this file instead of printing.",
)
@click.option("--check", is_flag=True, help="Write nothing; fail and show the difference if FILE is not up to date.")
def types(game: str, *, out: Path | None, check: bool) -> None:
    """Write the types of a game's messages and of what its rooms share, for its clients.

    GAME is a Python file (game.py) or module (games.arena). Each kind of room gets an interface with the messages that
    clients send (those that its @on handlers take), the messages that it sends to them (its `sends`, or every message
    of the project that no handler takes), the options that players join with (its `join_options`), and what it shares:
    its `state`, what everybody sees of a `player`, and what a player sees of their own data (`mine`).

    The interface has a version, which clients give when they create and join rooms. If the messages have changed since
    then, the server rejects such a client and says what to do.
    """
    if check and out is None:
        raise click.UsageError("--check needs a file to compare with: give --out FILE.")
    try:
        loaded = load(game)
        rooms = loaded.rooms if loaded.server is None else loaded.server.room_types
        text = typescript(rooms, Path(game).name)
    except Unmappable as error:
        raise click.ClickException(f"{game}: {error}.") from None
    if out is None:
        click.echo(text, nl=False)
    elif check:
        _check(out, text, game)
    else:
        try:
            out.write_text(text, "utf-8")
        except OSError as error:
            raise click.ClickException(f"{out} cannot be written: {error.strerror}.") from None
        click.echo(f"Wrote {out}.")


def _check(file: Path, text: str, game: str) -> None:
    try:
        old = file.read_text("utf-8")
    except FileNotFoundError:
        old = ""
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{file} cannot be read: {error}.") from None
    if old == text:
        return
    diff = unified_diff(old.splitlines(True), text.splitlines(True), str(file), f"holdfast types {game}")
    click.echo("".join(diff), nl=False)
    raise click.ClickException(f"{file} is not up to date: run `holdfast types {game} --out {file}`.")


@dataclass(frozen=True, slots=True)
class _RoomTypes:
    """A kind of room and its messages."""

    room: type[Room[Any]]
    messages: RoomMessages

    @property
    def sides(self) -> dict[Direction, tuple[type[Message], ...]]:
        return {"toServer": self.messages.to_server, "toClient": self.messages.to_client}

    @property
    def interface(self) -> str:
        return f"{self.room.__name__}Messages"

    @property
    def constant(self) -> str:
        name = self.room.__name__
        return f"{name[:1].lower()}{name[1:]}Version"


def typescript(rooms: Sequence[type[Room[Any]]], source: str) -> str:
    """A module with the messages of these rooms; `source` is the file that they come from."""
    kinds = [_RoomTypes(room, messages_of(room)) for room in sorted(rooms, key=lambda room: room.kind)]
    writer = _Writer(kinds)
    head = (
        f"// Generated by `holdfast types {source}`; do not edit. Generate it again when the game's messages change.\n"
    )
    return "\n".join([head, *writer.types(), *map(writer.room, kinds)])


class _Writer:
    """Writes the declarations; knows the TypeScript name of each type."""

    def __init__(self, kinds: Sequence[_RoomTypes]) -> None:
        self._messages: dict[type[Struct], mi.Type] = {}
        sent: dict[Direction, list[mi.Type]] = {"toServer": [], "toClient": []}
        for kind in kinds:
            for side, messages in kind.sides.items():
                _check_wire_names(kind.room, messages)
                self._messages |= {message: _info(message) for message in messages}
                sent[side] += [self._messages[message] for message in messages]
            answers: dict[type[Struct], mi.Type] = {
                message: _info(message) for answer in kind.messages.answers.values() for message in answer.types
            }
            self._messages |= answers
            sent["toClient"] += answers.values()
            if kind.messages.options is not None:
                self._messages[kind.messages.options] = _info(kind.messages.options)
                sent["toServer"].append(self._messages[kind.messages.options])
        up, self._to_client = named_types(sent["toServer"]), named_types(sent["toClient"])
        self._types = up | self._to_client
        # Those that are sent both ways and look different each way.
        self._split = {cls for cls in up.keys() & self._to_client.keys() if _depends_on_direction(up[cls])}
        self._parts = {kind.room: _shared(kind.room) for kind in kinds}
        self._shared = seen_types(part for parts in self._parts.values() for part in parts.values())
        taken = {name for kind in kinds for name in (kind.interface, kind.constant)}
        if len(taken) < 2 * len(kinds):
            raise Unmappable("two kinds of rooms have classes of the same name: rename one of them")
        self._names = _names_for(self._types, taken)
        for double in sorted({self._name(cls, "toServer") for cls in self._split} & set(self._names.values())):
            # TypeScript would merge two interfaces of the same name.
            raise Unmappable(f"two classes would be called {double}: rename one of them")
        self._shared_names = self._names_of_shared({*self._names.values(), *taken})

    def _names_of_shared(self, taken: Collection[str]) -> dict[Any, str]:
        """A class that is in messages too may look different there: with optional fields, or another form of dates."""
        plain = _names_for({cls for cls, _ in self._shared}, ())
        names = {
            (cls, side): ("Own" if side == "own" else "Shared" if plain[cls] in taken else "") + plain[cls]
            for cls, side in self._shared
        }
        for name, same in _grouped(names, names.__getitem__).items():
            if len(same) > 1 or name in taken:
                raise Unmappable(f"two classes would be called {name}: rename one of them")
        return names

    def types(self) -> list[str]:
        """The declaration of every type, in the order of their names."""
        declared = []
        for cls, name in sorted(self._names.items(), key=lambda item: item[1]):
            kind = self._types[cls]
            declared.append(self._declared(name, kind, "toClient" if cls in self._to_client else "toServer"))
            if cls in self._split:
                declared.append(self._declared(self._name(cls, "toServer"), kind, "toServer"))
        for seen, name in sorted(self._shared_names.items(), key=lambda item: item[1]):
            declared.append(self._declared(name, self._shared[seen], seen[1]))
        return declared

    def room(self, kind: _RoomTypes) -> str:
        """The interface of one kind of room, and its version."""
        version = version_of(kind.messages)
        name = _closed(json.dumps(kind.room.kind))
        lines = [f"/** Rooms of the kind {name}. */", f"export interface {kind.interface} {{"]
        for side, messages in kind.sides.items():
            bodies = [
                f"    {_key(message.wire_name)}: {self._type(self._messages[message], side, message.__name__)};"
                for message in messages
            ]
            lines += [f"  {side}: {{", *bodies, "  };"] if bodies else [f"  {side}: Record<never, never>;"]
        if kind.messages.answers:
            lines += ["  answers: {", *self._answers(kind.messages.answers), "  };"]
        options = kind.messages.options
        if options is not None:
            lines.append(f"  options: {self._type(self._messages[options], 'toServer', options.__name__)};")
        for part, (info, seen_by) in self._parts[kind.room].items():
            lines.append(f"  {part}: {self._type(info, seen_by, kind.room.__name__)};")
        lines += [f"  version: typeof {kind.constant};", "}", ""]
        lines += [
            f"/** Version {name_of(version)} of these messages: pass it when you create and join rooms. */",
            f"export const {kind.constant} = {json.dumps(version)};",
        ]
        return "\n".join(lines) + "\n"

    def _answers(self, answers: Mapping[str, HandlerAnswer]) -> Iterable[str]:
        for name, answer in answers.items():
            types = [self._type(self._messages[each], "toClient", each.__name__) for each in answer.types]
            yield f"    {_key(name)}: {' | '.join([*types, *(['null'] if answer.may_be_nothing else [])])};"

    def _declared(self, name: str, kind: Named, side: Side) -> str:
        if isinstance(kind, mi.EnumType):
            return f"{_comment(kind.cls)}export type {name} = {_one_of(each.value for each in kind.cls)};\n"
        if is_array(kind):
            return f"{_comment(kind.cls)}export type {name} = {self._tuple(kind, side)};\n"
        fields = [
            f"  {_key(field.encode_name)}{'?' if _may_be_missing(kind, field, side) else ''}: "
            f"{self._type(field.type, side, _place(kind, field))};"
            for field in seen_fields(kind, side)
        ]
        if isinstance(kind, mi.StructType) and kind.tag_field is not None:
            fields.insert(0, f"  {_key(kind.tag_field)}: {json.dumps(kind.tag)};")
        if not fields:
            return f"{_comment(kind.cls)}export type {name} = Record<string, never>;\n"
        return "\n".join([f"{_comment(kind.cls)}export interface {name} {{", *fields, "}"]) + "\n"

    def _tuple(self, kind: Record, side: Side) -> str:
        is_missing = [_may_be_missing(kind, field, side) for field in kind.fields]
        # Only the last elements can be optional.
        last_needed = max((at for at, missing in enumerate(is_missing) if not missing), default=-1)
        parts = []
        for at, field in enumerate(kind.fields):
            label = field.name if _IDENTIFIER.fullmatch(field.name) else "_"
            mark = "?" if at > last_needed else ""
            parts.append(f"{label}{mark}: {self._type(field.type, side, _place(kind, field))}")
        if isinstance(kind, mi.StructType) and kind.tag is not None:
            parts.insert(0, f"tag: {json.dumps(kind.tag)}")
        return f"[{', '.join(parts)}]"

    def _type(self, kind: mi.Type, side: Side, place: str) -> str:
        kind = without_metadata(kind)
        match kind:
            case mi.StructType() | mi.DataclassType() | mi.TypedDictType() | mi.NamedTupleType() | mi.EnumType():
                return self._name(kind.cls, side)
            case mi.UnionType(types=types):
                # int and float are both `number`.
                return " | ".join(dict.fromkeys(self._type(each, side, place) for each in types))
            case mi.LiteralType(values=values):
                return _one_of(values)
            case mi.TupleType(item_types=types):
                return f"[{', '.join(self._type(each, side, place) for each in types)}]"
            case mi.DateTimeType(tz=tz):
                if side != "toClient":
                    return "string"
                return {True: "Date", False: "string", None: "Date | string"}[tz]
            case _ if isinstance(kind, _ARRAYS):
                item = self._type(kind.item_type, side, place)
                return f"({item})[]" if " | " in item else f"{item}[]"
            case _ if hasattr(kind, "key_type") and hasattr(kind, "value_type"):
                return self._mapping(kind.key_type, self._type(kind.value_type, side, place), side, place)
            case _ if type(kind) in _PLAIN:
                return _PLAIN[type(kind)]
            case _:
                what = getattr(getattr(kind, "cls", None), "__name__", type(kind).__name__)
                raise Unmappable(f"{place} has a type that cannot be written in TypeScript: {what}")

    def _mapping(self, key: mi.Type, value: str, side: Side, place: str) -> str:
        key = without_metadata(key)
        # What is shared has the text of other keys.
        if isinstance(key, _TEXT_KEYS) or (side in SHARED and isinstance(key, mi.IntType)):
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
        raise Unmappable(f"{place} has keys that are not text, but the keys of JavaScript objects are always text")

    def _name(self, cls: Any, side: Side) -> str:
        if side in SHARED:
            return self._shared_names[cls, side_of(cls, side)]
        name = self._names[cls]
        return f"{name}ToServer" if side == "toServer" and cls in self._split else name


def _shared(room: type[Room[Any]]) -> dict[str, tuple[mi.Type, Side]]:
    try:
        return shared_parts(room)
    except Unshareable as error:
        raise Unmappable(f"{room.__name__} cannot share what it names in `shares`: {error}") from None


def _may_be_missing(kind: Record, field: mi.Field, side: Side) -> bool:
    """What is shared has all its fields but those that are UNSET."""
    if side in ("toServer", "toClient"):
        return may_be_missing(kind, field, side)
    return may_be_unset(kind, field)


def _check_wire_names(room: type[Room[Any]], messages: Iterable[type[Message]]) -> None:
    wire_names: dict[str, type[Message]] = {}
    for message in messages:
        other = wire_names.setdefault(message.wire_name, message)
        if other is not message:
            where = f"{other.__module__}.{other.__qualname__} and {message.__module__}.{message.__qualname__}"
            raise Unmappable(f"{room.__name__}: {where} are both called {message.wire_name!r}")


def _info(message: type[Struct]) -> mi.Type:
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
    """Text that cannot close the comment around it."""
    return text.replace("*/", "* /")


def _comment(cls: Any) -> str:
    """The class's own docstring as a comment; those of dataclasses and enums may be generated by Python."""
    is_message = isinstance(cls, type) and issubclass(cls, Struct)
    text = inspect.cleandoc(vars(cls).get("__doc__") or "") if is_message else ""
    if not text:
        return ""
    lines = _closed(text).splitlines()
    if len(lines) == 1:
        return f"/** {lines[0]} */\n"
    return "\n".join(["/**", *(f" * {line}".rstrip() for line in lines), " */"]) + "\n"


# Which types there are, and their names


def _depends_on_direction(kind: Named) -> bool:
    """Whether a type, or one that it is made of, looks different to the server and to the client."""
    records = (each for each in named_types([kind]).values() if not isinstance(each, mi.EnumType))
    return any(
        may_be_missing(record, field, "toServer") != may_be_missing(record, field, "toClient")
        or _has_two_forms(field.type)
        for record in records
        for field in record.fields
    )


def _has_two_forms(kind: mi.Type) -> bool:
    """Whether a field has a date: text to the server and a Date to the client, unless it has no time zone."""
    if isinstance(kind, RECORDS):
        return False
    is_date = isinstance(kind, mi.DateTimeType) and kind.tz is not False
    return is_date or any(map(_has_two_forms, inner_types(kind)))


def _names_for(types: Iterable[Any], taken: Collection[str]) -> dict[Any, str]:
    """A unique name for each type, as in Python where possible; names in `taken` are used otherwise."""
    names: dict[Any, str] = {}
    for name, same in _grouped(types, _class_name).items():
        if len(same) == 1 and name[:1].isupper() and name not in _TAKEN and name not in taken:
            names[same[0]] = name
            continue
        # Add their modules: `items.Point` and `maps.Point` are ItemsPoint and MapsPoint.
        for longer, each in _grouped(same, _with_module).items():
            if len(each) > 1 or longer in taken:
                raise Unmappable(f"{len(each)} classes are called {name}: rename one of them")
            names[each[0]] = longer
    if len(set(names.values())) < len(names):
        double = next(name for name in names.values() if list(names.values()).count(name) > 1)
        raise Unmappable(f"two classes would be called {double}: rename one of them")
    return names


def _class_name(cls: Any) -> str:
    """The name of a class; of a generic one with its arguments, as in `BoxInt`."""
    arguments = get_args(cls)
    own = getattr(get_origin(cls) or cls, "__name__", str(cls))
    return own + "".join(_camel(_class_name(each)) for each in arguments)


def _with_module(cls: Any) -> str:
    return _camel(file_name(cls)) + _class_name(cls)


def _camel(text: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[\W_]+", text))


def _grouped(types: Iterable[Any], key: Any) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = defaultdict(list)
    for each in types:
        groups[key(each)].append(each)
    return groups
