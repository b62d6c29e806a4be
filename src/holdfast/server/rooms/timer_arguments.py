"""The arguments of timers as they are saved, and back: players by id, all else by value."""

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import msgspec
from msgspec import Raw

from holdfast.core.room import Room, context_of
from holdfast.core.session import Player, Spectator


def saved_argument(argument: Any, method: str) -> tuple[str, Any]:
    """An argument of a timer as it is saved: a player by id, anything else by value."""
    if isinstance(argument, Player):
        return "player", argument.id
    if isinstance(argument, Spectator):
        return "spectator", argument.id
    try:
        return "value", Raw(msgspec.msgpack.encode(argument))
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            f"the timer of {method}: timers of a durable room are saved, and {type(argument).__name__} cannot be: "
            f"{error}"
        ) from None


def restored_arguments(room: Room[Any], method: Callable[..., Any], saved: list[tuple[str, Any]]) -> tuple[Any, ...]:
    """The arguments to call a timer's method with: values of the annotated types, and players by id."""
    hints = get_type_hints(method)
    kinds = [hints.get(name, Any) for name in inspect.signature(method).parameters]
    arguments: list[Any] = []
    for number, (tag, value) in enumerate(saved):
        if tag == "player":
            seat = context_of(room).seats.occupied_by(value)
            if seat is None:
                raise LookupError(f"player {value} has left the room")
            arguments.append(seat.player)
        elif tag == "spectator":
            places = context_of(room).spectators
            place = places.of(value) if places is not None else None
            if place is None:
                raise LookupError(f"{value} does not watch the room any more")
            arguments.append(place.spectator)
        else:
            # More arguments than parameters: the last one takes them all (`*args`).
            arguments.append(msgspec.convert(value, kinds[min(number, len(kinds) - 1)] if kinds else Any))
    return tuple(arguments)


def noted_arguments(args: tuple[Any, ...]) -> list[tuple[str, Any]]:
    """The arguments of a timer that is recorded and not saved: what cannot be saved is noted as text."""
    noted: list[tuple[str, Any]] = []
    for argument in args:
        try:
            noted.append(saved_argument(argument, ""))
        except TypeError:
            noted.append(("text", repr(argument)))
    return noted
