"""Where in a type the fields are that not everybody sees, for those who are shown everything."""

from collections.abc import Iterator
from typing import Any

import msgspec.inspect as mi

from holdfast.state.markers import HIDDEN, PRIVATE, has_marker
from holdfast.state.parts import fields_of

Path = tuple[str, ...]


def marked_paths(kind: Any, *root: str) -> tuple[list[Path], list[Path]]:
    """The paths of private and of hidden fields, below a root, with `*` for any key of a dict or place of a list.

    A type that contains itself is followed once.
    """
    private: list[Path] = []
    hidden: list[Path] = []
    for path, info in _fields(mi.type_info(kind), root, frozenset()):
        if has_marker(info.extra, PRIVATE):
            private.append(path)
        elif has_marker(info.extra, HIDDEN):
            hidden.append(path)
    return list(dict.fromkeys(private)), list(dict.fromkeys(hidden))


def is_seen(field: mi.Field, *, is_own: bool) -> bool:
    """Whether a field leaves: to the player whose data it is in, or to everybody."""
    extra = field.type.extra if isinstance(field.type, mi.Metadata) else None
    return not has_marker(extra, HIDDEN) and (is_own or not has_marker(extra, PRIVATE))


def _fields(info: mi.Type, path: Path, inside: frozenset[int]) -> Iterator[tuple[Path, mi.Metadata]]:
    """The fields with metadata, at any depth, by path."""
    match info:
        case mi.Metadata(inner):
            yield path, info
            yield from _fields(inner, path, inside)
        case mi.StructType() if id(info) not in inside:
            for field in fields_of(info):
                yield from _fields(field.type, (*path, field.encode_name), inside | {id(info)})
        case mi.ListType(item) | mi.DictType(_, item):
            yield from _fields(item, (*path, "*"), inside)
        case mi.UnionType(types):
            for each in types:
                yield from _fields(each, path, inside)
        case _:
            pass
