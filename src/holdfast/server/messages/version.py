"""The version of a room's messages, and whether a client built for one version is compatible with another.

A version is a list of short fingerprints, one for each fact that a client relies on: "move takes x and y, both floats",
"moved always has a field who, a string". A client is compatible while the server's version has every fact of its own.
So a server may add messages and optional fields, and send more than before. It is incompatible if anything is renamed,
removed, of another type, newly required or no longer always sent.
"""

import hashlib
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import EnumType
from typing import Any, get_args, get_origin

from msgspec import inspect as mi

from holdfast.core.errors import OtherVersion
from holdfast.core.messages import Message
from holdfast.core.room import Room
from holdfast.logs import get_logger
from holdfast.schemas.requests import MESSAGE_VERSION_CHARS_MAX
from holdfast.server.messages.inspection import (
    Direction,
    Record,
    RoomMessages,
    file_name,
    inner_types,
    is_array,
    may_be_missing,
    messages_of,
    named_types,
    without_metadata,
)

log = get_logger("holdfast.server")

NAME_CHARS = 8
"""The length of a version's name, which people compare."""
# Three bytes: among a thousand facts, one change in sixteen thousand goes unnoticed.
_FACT_BYTES, _FACT_CHARS = 3, 4
FACTS_MAX = (MESSAGE_VERSION_CHARS_MAX - NAME_CHARS - 1) // _FACT_CHARS
"""A version with more facts has no list, and is compatible only with itself."""

# A game has a few versions; clients that make them up must not fill the memory.
_LOGGED_MAX = 64


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
    facts = sorted({*_facts("toServer", messages.to_server), *_facts("toClient", messages.to_client)})
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


def _facts(direction: Direction, messages: tuple[type[Message], ...]) -> Iterator[str]:
    """The facts that a client relies on, each as a sentence."""
    infos = mi.multi_type_info(messages)
    records = {
        cls: kind
        for cls, kind in named_types(each for info in infos for each in inner_types(info)).items()
        if not isinstance(kind, mi.EnumType)
    }
    names = _names_for(records)
    for message, info in zip(messages, infos, strict=True):
        assert isinstance(info, mi.StructType)
        yield from _record_facts(f"{direction} message {message.wire_name}", direction, info, names)
    for cls, record in records.items():
        yield from _record_facts(f"{direction} {names[cls]}", direction, record, names)


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
