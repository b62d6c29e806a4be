"""The version of a room's messages: what a client was made for, and whether that is still so.

A version is a list of short fingerprints, one for each fact that a client goes by: "move takes x and y, both floats",
"moved always has a field who, a string". A client is understood while every fact it was made for is still one of the
server's. So the server may learn new messages and new optional fields, and tell more than before; what is renamed,
removed, of another type, newly required or no longer always sent is another version.
"""

import hashlib
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import EnumType
from typing import Any, get_args, get_origin

from msgspec import inspect as mi

from holdfast.core.messages import Message
from holdfast.schemas.requests import MESSAGE_VERSION_CHARS_MAX
from holdfast.server.messages.parts import (
    Direction,
    Record,
    file_name,
    inner_types,
    is_array,
    may_be_missing,
    named_types,
    without_words,
)
from holdfast.server.messages.spoken import Spoken

NAME_CHARS = 8
"""How long the name of a version is: what people compare."""
# Three bytes: among a thousand facts, one change in sixteen thousand is not seen.
_FACT_BYTES, _FACT_CHARS = 3, 4
FACTS_MAX = (MESSAGE_VERSION_CHARS_MAX - NAME_CHARS - 1) // _FACT_CHARS
"""Of more than these a version has no list, and must be the same."""


def version_of(spoken: Spoken) -> str:
    """The version of these messages, as clients give it."""
    facts = sorted({*_facts("toServer", spoken.to_server), *_facts("toClient", spoken.to_client)})
    name = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:NAME_CHARS]
    if len(facts) > FACTS_MAX:
        return name
    return f"{name}.{''.join(sorted(map(_fingerprint, facts)))}"


def name_of(version: str) -> str:
    """The short name of a version, for people."""
    return version[:NAME_CHARS]


def is_understood(version: str, *, by: str) -> bool:
    """Whether a client with this version is understood by a server with that one."""
    have_lists = "." in version and "." in by
    return version == by or (have_lists and _fingerprints(version) <= _fingerprints(by))


def _fingerprint(fact: str) -> str:
    return urlsafe_b64encode(hashlib.sha256(fact.encode()).digest()[:_FACT_BYTES]).decode()


def _fingerprints(version: str) -> set[str]:
    _, _, facts = version.partition(".")
    return {facts[at : at + _FACT_CHARS] for at in range(0, len(facts), _FACT_CHARS)}


def _facts(direction: Direction, messages: tuple[type[Message], ...]) -> Iterator[str]:
    """What a client goes by, each as a sentence."""
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
    """One fact for what the server needs, and one or two for each other field: it may be there, it always is."""
    tag = f"{getattr(record, 'tag_field', None)}={getattr(record, 'tag', None)!r}"
    needed = []
    for place, field in enumerate(record.fields):
        # In an array it is the place that counts.
        fact = f"{place if is_array(record) else field.encode_name}: {_words(field.type, names)}"
        if direction == "toServer" and field.required:
            needed.append(fact)
            continue
        yield f"{name} may have {fact}"
        if direction == "toClient" and not may_be_missing(record, field, direction):
            yield f"{name} always has {fact}"
    yield f"{name} is {'an array' if is_array(record) else 'an object'} {tag} with {', '.join(sorted(needed))}"


def _words(kind: mi.Type, names: dict[Any, str]) -> str:
    """A type as text, the same for the same type. Limits are no part of it: what breaks one is refused in words."""
    kind = without_words(kind)
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
    """What each class is called: with its file only if another has the same name, so that a class can be moved."""
    names = {cls: _class_name(cls) for cls in classes}
    uses = Counter(names.values())
    return {cls: name if uses[name] == 1 else _class_name(cls, with_file=True) for cls, name in names.items()}


def _class_name(cls: Any, *, with_file: bool = False) -> str:
    """A class's, or that of a generic one with its arguments; without the module, which may be `__main__` elsewhere."""
    arguments = get_args(cls)
    if arguments:
        of = ", ".join(_class_name(each, with_file=with_file) for each in arguments)
        return f"{_class_name(get_origin(cls), with_file=with_file)}[{of}]"
    name = str(getattr(cls, "__qualname__", cls))
    return f"{file_name(cls)}.{name}" if with_file and isinstance(cls, type) else name
