"""The version of a room's messages: what a client was made for, and whether that is still so.

A version is a list of short fingerprints, one for each fact that a client goes by: "move takes x and y, both floats",
"moved has a field who, a string". A client is understood while every fact it was made for is still one of the
server's. So the server may learn new messages and new optional fields, and tell more than before; what is renamed,
removed, of another type or newly required is another version.
"""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from enum import EnumType
from typing import Any, Literal, get_args, get_origin

from msgspec import inspect as mi

from holdfast.core.messages import Message
from holdfast.core.wishes import MESSAGE_VERSION_CHARS_MAX
from holdfast.server.messages.spoken import Spoken

Direction = Literal["to_server", "to_client"]

NAME_CHARS = 8
"""How long the name of a version is: what people compare."""
# Three bytes: among a thousand facts, one change in sixteen thousand is not seen.
_FACT_BYTES, _FACT_CHARS = 3, 4
FACTS_MAX = (MESSAGE_VERSION_CHARS_MAX - NAME_CHARS - 1) // _FACT_CHARS
"""Of more than these a version has no list, and must be the same."""


def version_of(spoken: Spoken) -> str:
    """The version of these messages, as clients give it."""
    facts = sorted({*_facts("to_server", spoken.to_server), *_facts("to_client", spoken.to_client)})
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
    waiting: dict[str, mi.Type] = {}
    for message, info in zip(messages, mi.multi_type_info(messages), strict=True):
        assert isinstance(info, mi.StructType)
        yield from _record_facts(f"{direction} message {message.wire_name}", direction, info, waiting)
    done: set[str] = set()
    while waiting:
        name, record = waiting.popitem()
        if name not in done:
            done.add(name)
            yield from _record_facts(f"{direction} {name}", direction, record, waiting)


def _record_facts(name: str, direction: Direction, record: Any, waiting: dict[str, mi.Type]) -> Iterator[str]:
    """One fact for what has to be there, and one for each field that may be."""
    tag = f"{getattr(record, 'tag_field', None)}={getattr(record, 'tag', None)!r}"
    is_array = getattr(record, "array_like", False) or isinstance(record, mi.NamedTupleType)
    needed = []
    for place, field in enumerate(record.fields):
        # In an array it is the place that counts.
        fact = f"{place if is_array else field.encode_name}: {_words(field.type, waiting)}"
        if direction == "to_server" and field.required:
            needed.append(fact)
        else:
            yield f"{name} may have {fact}"
    yield f"{name} is {'an array' if is_array else 'an object'} {tag} with {', '.join(sorted(needed))}"


def _words(kind: mi.Type, waiting: dict[str, mi.Type]) -> str:
    """A type as text, the same for the same type. Limits are no part of it: what breaks one is refused in words."""
    match kind:
        case mi.StructType() | mi.DataclassType() | mi.TypedDictType() | mi.NamedTupleType():
            name = _class_name(kind.cls)
            waiting[name] = kind
            return name
        case mi.EnumType(cls=cls):
            assert isinstance(cls, EnumType)
            return f"one of {sorted(repr(each.value) for each in cls)}"
        case mi.LiteralType(values=values):
            return f"one of {sorted(map(repr, values))}"
        case mi.UnionType(types=types):
            return " or ".join(sorted(_words(each, waiting) for each in types))
        case mi.CustomType(cls=cls):
            return cls.__qualname__
        case mi.DateTimeType(tz=tz):
            return f"DateTimeType({tz})"
        case _:
            inner = [getattr(kind, name) for name in kind.__struct_fields__]
            several = [each for value in inner for each in (value if isinstance(value, tuple) else (value,))]
            words = [_words(each, waiting) for each in several if isinstance(each, mi.Type)]
            return f"{type(kind).__name__}({', '.join(words)})"


def _class_name(cls: Any) -> str:
    """A class's, or that of a generic one with its arguments; without the module, which may be `__main__` elsewhere."""
    arguments = get_args(cls)
    if not arguments:
        return str(getattr(cls, "__qualname__", cls))
    return f"{_class_name(get_origin(cls))}[{', '.join(map(_class_name, arguments))}]"
