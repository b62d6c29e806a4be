"""`@on(Move)`: which method of a room handles which message, collected once per class."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.core.codec import CODECS, BodyDecoder, Codec
from holdfast.core.messages import RESERVED, Message

M = TypeVar("M", bound=Message)
F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__holdfast_on__"


@dataclass(frozen=True, slots=True)
class Handler:
    """A message type, the method that handles it, and a decoder for each encoding of the wire."""

    message_type: type[Message]
    method: Callable[..., Any]
    decoders: Mapping[Codec, BodyDecoder]


def on(message_type: type[M]) -> Callable[[F], F]:
    """Mark a method of a room as the handler of a message: `def moved(self, player, move)`."""
    if not isinstance(message_type, type) or not issubclass(message_type, Message):  # type: ignore[redundant-expr]
        raise TypeError(f"@on takes a Message class, as in @on(Move); got {message_type!r}")
    if message_type.wire_name.startswith(RESERVED):
        raise TypeError(f"{message_type.__name__} is Holdfast's own message and cannot be handled by a room")

    def mark(method: F) -> F:
        if hasattr(method, _MARK):
            raise TypeError(f"{method.__name__} is marked with @on already: write one method per message")
        setattr(method, _MARK, message_type)
        return method

    return mark


def handlers_of(cls: type) -> dict[str, Handler]:
    """The handlers of a room class by wire name; a subclass's method takes the place of its base's, marked or not."""
    found: dict[str, Handler] = {}
    for attribute in dir(cls):
        message_type = _marked(cls, attribute)
        method = getattr(cls, attribute, None)
        if message_type is None or not callable(method):
            continue
        name = message_type.wire_name
        if name in found:
            raise TypeError(
                f"{cls.__name__} handles {name!r} twice: {found[name].method.__name__} and {method.__name__}"
            )
        decoders = {codec: codec.body_decoder(message_type) for codec in CODECS.values()}
        found[name] = Handler(message_type, method, decoders)
    return found


def _marked(cls: type, attribute: str) -> type[Message] | None:
    """What the method is marked with, by itself or by the method that it overrides."""
    marks = (getattr(base.__dict__.get(attribute), _MARK, None) for base in cls.__mro__)
    return next((mark for mark in marks if mark is not None), None)
