"""Which messages a kind of room takes and sends, as its code says.

What it takes is what its `@on` handlers take. What it sends no code says, unless the room does (`sends`): it is every
message of the project that no handler of any room takes.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from holdfast.core.messages import RESERVED, Message
from holdfast.core.room import Room, room_handlers

_OURS = "holdfast"
# Where other people's code lies, also within the folder of a game.
_LIBRARIES = frozenset({"site-packages", "dist-packages"})


@dataclass(frozen=True, slots=True)
class Spoken:
    """The messages of one kind of room, each direction in the order of their wire names."""

    to_server: tuple[type[Message], ...]
    to_client: tuple[type[Message], ...]


def spoken_in(room_type: type[Room[Any]]) -> Spoken:
    """What the room takes, and what it may send."""
    taken = {handler.message_type for handler in room_handlers(room_type).values()}
    sent = set(_not_handled(room_type, taken) if room_type.sends is None else room_type.sends)
    return Spoken(_in_order(taken), _in_order(sent))


def project_modules(room_type: type[Room[Any]]) -> list[ModuleType]:
    """The module of a room and those of the same project that it imports, and so on."""
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
        # Of ours, only those of a game that we ship.
        is_the_game_s = value.__module__ == room_type.__module__ or _outermost(value.__module__) != _OURS
        if issubclass(value, Message) and is_the_game_s and not name.startswith("_") and value not in handled | taken:
            yield value


def _in_order(messages: set[type[Message]]) -> tuple[type[Message], ...]:
    shown = (each for each in messages if not each.wire_name.startswith(RESERVED))
    return tuple(sorted(shown, key=lambda each: (each.wire_name, each.__module__, each.__qualname__)))


def _folder(module: ModuleType) -> Path | None:
    """Where the project lies: the folder of the outermost package, or of the file; None: only the module itself."""
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
