"""What the types of a game are called in TypeScript: as in Python, unless that says two things."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any, get_args, get_origin

from holdfast.server.messages.parts import file_name

# What the generated file itself means something by. TypeScript's other words begin with a small letter.
_TAKEN = frozenset({"Date", "Partial", "Record", "Uint8Array"})


class TwoOfOneName(Exception):
    """Two types cannot be told apart."""


def names_for(types: Iterable[Any], taken: Collection[str]) -> dict[Any, str]:
    """A name for each type, in whatever order they come; those in `taken` are other things."""
    names: dict[Any, str] = {}
    for name, same in _grouped(types, class_name).items():
        if len(same) == 1 and name[:1].isupper() and name not in _TAKEN and name not in taken:
            names[same[0]] = name
            continue
        # With their modules: `items.Point` and `maps.Point` are ItemsPoint and MapsPoint.
        for longer, each in _grouped(same, _with_module).items():
            if len(each) > 1 or longer in taken:
                raise TwoOfOneName(f"{len(each)} classes are called {name}: give one of them another name")
            names[each[0]] = longer
    if len(set(names.values())) < len(names):
        double = next(name for name in names.values() if list(names.values()).count(name) > 1)
        raise TwoOfOneName(f"two classes would be called {double}: give one of them another name")
    return names


def class_name(cls: Any) -> str:
    """A class's own name; of a generic one with its arguments, as in `BoxInt`."""
    arguments = get_args(cls)
    own = getattr(get_origin(cls) or cls, "__name__", str(cls))
    return own + "".join(_camel(class_name(each)) for each in arguments)


def _with_module(cls: Any) -> str:
    return _camel(file_name(cls)) + class_name(cls)


def _camel(text: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[\W_]+", text))


def _grouped(types: Iterable[Any], key: Any) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = defaultdict(list)
    for each in types:
        groups[key(each)].append(each)
    return groups
