"""What a timer was given, as it was saved, and as its method is to be called with."""

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import msgspec

from holdfast.core.room import Room


def timer_arguments(room: Room[Any], method: Callable[..., Any], saved: list[tuple[str, Any]]) -> tuple[Any, ...]:
    """What the method is to be called with: values of the types that it is annotated with, and players by id."""
    hints = get_type_hints(method)
    kinds = [hints.get(name, Any) for name in inspect.signature(method).parameters]
    arguments: list[Any] = []
    for number, (tag, value) in enumerate(saved):
        if tag == "player":
            player = room.player(value)
            if player is None:
                raise LookupError(f"player {value} has left the room")
            arguments.append(player)
        else:
            # More arguments than parameters: the last one takes them all (`*args`).
            arguments.append(msgspec.convert(value, kinds[min(number, len(kinds) - 1)] if kinds else Any))
    return tuple(arguments)
