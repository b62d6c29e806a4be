"""The messages of a kind of room, the types that they are made of, and their version.

A room receives the messages that its `@on` handlers take. It sends the messages in its `sends`; without that, every
message of the project that no handler of any room takes.

A version is a list of short fingerprints, one for each fact that a client relies on: "move takes x and y, both floats",
"moved always has a field who, a string". A client is compatible while the server's version has every fact of its own.
So a server may add messages and optional fields, and send more than before. It is incompatible if anything is renamed,
removed, of another type, newly required or no longer always sent.
"""

import hashlib
import sys
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from enum import EnumType
from pathlib import Path
from types import FunctionType, ModuleType, NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from msgspec import Struct, UnsetType
from msgspec import inspect as mi

from holdfast.core.errors import OtherVersion
from holdfast.core.handlers import Handler, answers_of
from holdfast.core.messages import RESERVED, Message
from holdfast.core.room import Room, room_handlers
from holdfast.logs import get_logger
from holdfast.schemas.requests import MESSAGE_VERSION_CHARS_MAX

log = get_logger("holdfast.server")

_OURS = "holdfast"
# Folders of other people's code, which may be inside a game's folder.
_LIBRARIES = frozenset({"site-packages", "dist-packages"})

Direction = Literal["toServer", "toClient"]
Record = mi.StructType | mi.DataclassType | mi.TypedDictType | mi.NamedTupleType
Named = Record | mi.EnumType
RECORDS = (mi.StructType, mi.DataclassType, mi.TypedDictType, mi.NamedTupleType)

NAME_CHARS = 8
"""The length of a version's name, which people compare."""
# Three bytes: among a thousand facts, one change in sixteen thousand goes unnoticed.
_FACT_BYTES, _FACT_CHARS = 3, 4
FACTS_MAX = (MESSAGE_VERSION_CHARS_MAX - NAME_CHARS - 1) // _FACT_CHARS
"""A version with more facts has no list, and is compatible only with itself."""

# A game has a few versions; clients that make them up must not fill the memory.
_LOGGED_MAX = 64


# Messages


@dataclass(frozen=True, slots=True)
class RoomMessages:
    """The messages of one kind of room, each direction ordered by wire name."""

    to_server: tuple[type[Message], ...]
    to_client: tuple[type[Message], ...]
    answers: Mapping[str, "HandlerAnswer"] = dataclass_field(default_factory=dict)
    """By the wire name of a message to the server, in that order: how its handler answers those who ask."""
    options: type[Struct] | None = None
    """What a player joins with, if the room asks for something."""


@dataclass(frozen=True, slots=True)
class HandlerAnswer:
    """What a handler returns."""

    types: tuple[type[Message], ...]
    may_be_nothing: bool


def messages_of(room_type: type[Room[Any]]) -> RoomMessages:
    """The messages that the room receives and those that it may send."""
    handlers = room_handlers(room_type)
    taken = {handler.message_type for handler in handlers.values()}
    sent = set(_not_handled(room_type, taken) if room_type.sends is None else room_type.sends)
    answers = dict(_answers(room_type, handlers))
    return RoomMessages(_in_order(taken), _in_order(sent), answers, room_type.join_options)


def _answers(room_type: type[Room[Any]], handlers: Mapping[str, Handler]) -> Iterator[tuple[str, HandlerAnswer]]:
    for name, handler in sorted(handlers.items()):
        if answers := set(answers_of(room_type, handler)):
            yield name, HandlerAnswer(_in_order(answers - {NoneType}), NoneType in answers)


def project_modules(room_type: type[Room[Any]]) -> list[ModuleType]:
    """The room's module and all modules of its project that it imports, directly or not."""
    first = sys.modules.get(room_type.__module__)
    if first is None:
        return []
    folder = _folder(first)
    found = [first]
    for module in found:
        for value in list(vars(module).values()):
            other = sys.modules.get(value.__module__) if isinstance(value, type | FunctionType) else value
            if isinstance(other, ModuleType) and other not in found and _is_within(other, folder):
                found.append(other)
    return found


def _not_handled(room_type: type[Room[Any]], taken: set[type[Message]]) -> Iterator[type[Message]]:
    named = [
        (name, value)
        for module in project_modules(room_type)
        for name, value in vars(module).items()
        if isinstance(value, type)
    ]
    handled = {
        handler.message_type
        for _, value in named
        if issubclass(value, Room)
        for handler in room_handlers(value).values()
    }
    for name, value in named:
        # Of Holdfast's own messages only those of a game in the same module, such as the demo's.
        is_of_the_game = value.__module__ == room_type.__module__ or _outermost(value.__module__) != _OURS
        if issubclass(value, Message) and is_of_the_game and not name.startswith("_") and value not in handled | taken:
            yield value


def _in_order(messages: set[type[Message]]) -> tuple[type[Message], ...]:
    shown = (each for each in messages if not each.wire_name.startswith(RESERVED))
    return tuple(sorted(shown, key=lambda each: (each.wire_name, each.__module__, each.__qualname__)))


def _folder(module: ModuleType) -> Path | None:
    """The project's folder: that of the outermost package or of the file; None if the module is all there is."""
    outermost = _outermost(module.__name__)
    paths = list(getattr(sys.modules.get(outermost), "__path__", ()))
    if outermost == _OURS:
        return None
    if paths:
        return Path(paths[0])
    file = getattr(module, "__file__", None)
    return None if file is None else Path(file).resolve().parent


def _is_within(module: ModuleType, folder: Path | None) -> bool:
    file = getattr(module, "__file__", None)
    if folder is None or file is None or _outermost(module.__name__) == _OURS:
        return False
    path = Path(file).resolve()
    return path.is_relative_to(folder) and _LIBRARIES.isdisjoint(path.relative_to(folder).parts)


def _outermost(module_name: str) -> str:
    return module_name.partition(".")[0]


# Types


def inner_types(kind: mi.Type) -> Iterator[mi.Type]:
    """The types that a type directly consists of: of its fields, its items, its keys."""
    if isinstance(kind, RECORDS):
        for field in kind.fields:
            yield field.type
        return
    for name in kind.__struct_fields__:
        value = getattr(kind, name)
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, mi.Type):
                yield each


def named_types(kinds: Iterable[mi.Type]) -> dict[Any, Named]:
    """The named types among these types and all their parts, by class."""
    found: dict[Any, Named] = {}
    waiting = list(kinds)
    while waiting:
        each = waiting.pop()
        if isinstance(each, (*RECORDS, mi.EnumType)):
            if each.cls in found:
                continue
            found[each.cls] = each
        waiting.extend(inner_types(each))
    return found


def may_be_missing(record: Record, field: mi.Field, direction: Direction) -> bool:
    """Whether a field is optional: to the server if it has a default, to the client if the struct can omit it."""
    if direction == "toServer" or isinstance(record, mi.TypedDictType):
        return not field.required
    if may_be_unset(record, field):
        return True
    cls = get_origin(record.cls) or record.cls
    omits = getattr(getattr(cls, "__struct_config__", None), "omit_defaults", False)
    return omits and not field.required and not is_array(record)


def may_be_unset(record: Record, field: mi.Field) -> bool:
    """Whether a field is left out while it is UNSET. (msgspec tells whether that is the default only.)"""
    # For a generic class with arguments, look at the class without them.
    return UnsetType in get_args(get_type_hints(get_origin(record.cls) or record.cls).get(field.name))


def is_array(record: Record) -> bool:
    """Whether it is encoded as an array, without field names."""
    return isinstance(record, mi.NamedTupleType) or getattr(record, "array_like", False)


def without_metadata(kind: mi.Type) -> mi.Type:
    """The type without a title, a description or examples."""
    while isinstance(kind, mi.Metadata):
        kind = kind.type
    return kind


def file_name(cls: Any) -> str:
    """The name of the file that defines a class."""
    # Not the module's name: a module that is run, or loaded beside another of its name, has a different one.
    module: str = (get_origin(cls) or cls).__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file).stem if file else module


# Versions


class MessageVersions:
    """The versions of the kinds of rooms, each computed when it is first needed."""

    def __init__(self) -> None:
        self._own: dict[type[Room[Any]], str] = {}
        self._logged: set[tuple[str, str]] = set()

    def check(self, room_type: type[Room[Any]], version: str) -> None:
        """Reject an incompatible client, or log it, as the room says; clients without a version are accepted."""
        if not version:
            return
        own = self._own.get(room_type)
        if own is None:
            own = self._own[room_type] = _version_of(room_type)
        if is_compatible(version, own):
            return
        theirs, ours = name_of(version), name_of(own) or "none"
        if room_type.other_version == "refuse":
            raise OtherVersion(
                f"this client was built for version {theirs} of {room_type.kind}'s messages, the server has {ours}:"
                " run `holdfast types` and build the client again"
            )
        if len(self._logged) < _LOGGED_MAX and (room_type.kind, theirs) not in self._logged:
            self._logged.add((room_type.kind, theirs))
            log.warning(
                "clients were built for another version of the messages", kind=room_type.kind, theirs=theirs, ours=ours
            )


def _version_of(room_type: type[Room[Any]]) -> str:
    try:
        return version_of(messages_of(room_type))
    except (TypeError, NameError):
        # A message has a type that msgspec does not support, so `holdfast types` never wrote a version for it.
        return ""


def version_of(messages: RoomMessages) -> str:
    """The version of these messages, as clients send it."""
    answers = {answer for each in messages.answers.values() for answer in each.types}
    to_client = _in_order({*messages.to_client, *answers})
    up = {f"message {each.wire_name}": each for each in messages.to_server}
    options: dict[str, type[Struct]] = {"options": messages.options} if messages.options is not None else {}
    down = {f"message {each.wire_name}": each for each in to_client}
    facts = sorted(
        {*_facts("toServer", {**up, **options}), *_facts("toClient", down), *_answer_facts(messages.answers)}
    )
    name = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:NAME_CHARS]
    if len(facts) > FACTS_MAX:
        return name
    return f"{name}.{''.join(sorted(map(_fingerprint, facts)))}"


def name_of(version: str) -> str:
    """The short name of a version, for people."""
    return version[:NAME_CHARS]


def is_compatible(version: str, server_version: str) -> bool:
    """Whether a client with this version can talk to a server with that one."""
    have_lists = "." in version and "." in server_version
    return version == server_version or (have_lists and _fingerprints(version) <= _fingerprints(server_version))


def _fingerprint(fact: str) -> str:
    return urlsafe_b64encode(hashlib.sha256(fact.encode()).digest()[:_FACT_BYTES]).decode()


def _fingerprints(version: str) -> set[str]:
    _, _, facts = version.partition(".")
    return {facts[at : at + _FACT_CHARS] for at in range(0, len(facts), _FACT_CHARS)}


def _facts(direction: Direction, spoken: Mapping[str, type[Struct]]) -> Iterator[str]:
    """The facts that a client relies on, each as a sentence; what is spoken has a name for each."""
    infos = mi.multi_type_info(spoken.values())
    records = {
        cls: kind
        for cls, kind in named_types(each for info in infos for each in inner_types(info)).items()
        if not isinstance(kind, mi.EnumType)
    }
    names = _names_for(records)
    for name, info in zip(spoken, infos, strict=True):
        assert isinstance(info, mi.StructType)
        yield from _record_facts(f"{direction} {name}", direction, info, names)
    for cls, record in records.items():
        yield from _record_facts(f"{direction} {names[cls]}", direction, record, names)


def _answer_facts(answers: Mapping[str, HandlerAnswer]) -> Iterator[str]:
    for name, answer in answers.items():
        types = [each.wire_name for each in answer.types]
        yield f"{name} is answered with {' or '.join([*types, *(['nothing'] if answer.may_be_nothing else [])])}"


def _record_facts(name: str, direction: Direction, record: Record, names: dict[Any, str]) -> Iterator[str]:
    """One fact for the fields that the server requires, and for each other field that it may be or always is there."""
    tag = f"{getattr(record, 'tag_field', None)}={getattr(record, 'tag', None)!r}"
    needed = []
    for place, field in enumerate(record.fields):
        # In an array the position counts.
        fact = f"{place if is_array(record) else field.encode_name}: {_words(field.type, names)}"
        if direction == "toServer" and field.required:
            needed.append(fact)
            continue
        yield f"{name} may have {fact}"
        if direction == "toClient" and not may_be_missing(record, field, direction):
            yield f"{name} always has {fact}"
    yield f"{name} is {'an array' if is_array(record) else 'an object'} {tag} with {', '.join(sorted(needed))}"


def _words(kind: mi.Type, names: dict[Any, str]) -> str:
    """A type as text, the same for equal types. Without its limits: values beyond them get an error of their own."""
    kind = without_metadata(kind)
    match kind:
        case mi.StructType() | mi.DataclassType() | mi.TypedDictType() | mi.NamedTupleType():
            return names[kind.cls]
        case mi.EnumType(cls=cls):
            assert isinstance(cls, EnumType)
            return f"one of {sorted(repr(each.value) for each in cls)}"
        case mi.LiteralType(values=values):
            return f"one of {sorted(map(repr, values))}"
        case mi.UnionType(types=types):
            return " or ".join(sorted(_words(each, names) for each in types))
        case mi.CustomType(cls=cls):
            return cls.__qualname__
        case mi.DateTimeType(tz=tz):
            return f"DateTimeType({tz})"
        case _:
            inner = [getattr(kind, name) for name in kind.__struct_fields__]
            several = [each for value in inner for each in (value if isinstance(value, tuple) else (value,))]
            words = [_words(each, names) for each in several if isinstance(each, mi.Type)]
            return f"{type(kind).__name__}({', '.join(words)})"


def _names_for(classes: Iterable[Any]) -> dict[Any, str]:
    """The name of each class; with its file only if two have the same name, so that a class can be moved."""
    names = {cls: _class_name(cls) for cls in classes}
    uses = Counter(names.values())
    return {cls: name if uses[name] == 1 else _class_name(cls, with_file=True) for cls, name in names.items()}


def _class_name(cls: Any, *, with_file: bool = False) -> str:
    """The name of a class, with the arguments of a generic one; without its module, which may be `__main__`."""
    arguments = get_args(cls)
    if arguments:
        of = ", ".join(_class_name(each, with_file=with_file) for each in arguments)
        return f"{_class_name(get_origin(cls), with_file=with_file)}[{of}]"
    name = str(getattr(cls, "__qualname__", cls))
    return f"{file_name(cls)}.{name}" if with_file and isinstance(cls, type) else name
