"""`@on(Move)`: which method of a room handles which message, collected once per class."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, NamedTuple, TypeVar

from holdfast.core.codec import CODECS, BodyDecoder, Codec
from holdfast.core.messages import RESERVED, Message
from holdfast.core.nesting import bounded_decoders, can_nest, has_text_keys

M = TypeVar("M", bound=Message)
F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__holdfast_on__"


@dataclass(frozen=True, slots=True)
class Handler:
    """A message type, the method that handles it, and a decoder for each codec."""

    message_type: type[Message]
    method: Callable[..., Any]
    decoders: Mapping[Codec, BodyDecoder]
    role: str = ""
    """The role that a sender needs; None for everybody."""
    can_nest: bool = False
    """Whether a body can be nested arbitrarily deep."""


class _Mark(NamedTuple):
    """The mark that `@on` leaves on a method."""

    message_type: type[Message]
    role: str


def on(message_type: type[M], *, role: str | None = None) -> Callable[[F], F]:
    """Mark a method of a room as the handler of a message: `def moved(self, player, move)`.

    With a role, as in `@on(Kick, role="gm")`, only players who have it may send the message; others are refused.
    """
    if not isinstance(message_type, type) or not issubclass(message_type, Message):  # type: ignore[redundant-expr]
        raise TypeError(f"@on takes a Message class, as in @on(Move); got {message_type!r}")
    if message_type.wire_name.startswith(RESERVED):
        raise TypeError(f"{message_type.__name__} is Holdfast's own message and cannot be handled by a room")
    if role is not None and (not isinstance(role, str) or not role):  # type: ignore[redundant-expr]
        raise TypeError(f'role= takes the name of a role, as in @on({message_type.__name__}, role="gm"); got {role!r}')

    def mark(method: F) -> F:
        if is_handler(method):
            raise TypeError(f"{method.__name__} is already marked with @on: write one method per message")
        setattr(method, _MARK, _Mark(message_type, role or ""))
        return method

    return mark


def handlers_of(cls: type) -> dict[str, Handler]:
    """The handlers of a room class by wire name; a subclass's method overrides its base's, marked or not."""
    found: dict[str, Handler] = {}
    for attribute in dir(cls):
        mark = _marked(cls, attribute)
        method = getattr(cls, attribute, None)
        if mark is None or not callable(method):
            continue
        name = mark.message_type.wire_name
        if name in found:
            raise TypeError(
                f"{cls.__name__} handles {name!r} twice: {found[name].method.__name__} and {method.__name__}"
            )
        check_parameters(cls, attribute, method, ("player", mark.message_type.wire_name))
        decoders = {codec: codec.body_decoder(mark.message_type) for codec in CODECS.values()}
        found[name] = Handler(mark.message_type, method, decoders, mark.role, can_nest(mark.message_type))
    return found


def is_handler(method: Any) -> bool:
    """Whether a method is marked with `@on`."""
    return hasattr(method, _MARK)


def check_parameters(cls: type, name: str, method: Any, expected: Iterable[str]) -> None:
    """Refuse a hook or handler that cannot be called with these arguments."""
    if not isinstance(method, FunctionType):
        return
    arguments = ("self", *expected)
    try:
        inspect.signature(method).bind(*arguments)
    except TypeError:
        given = ", ".join(inspect.signature(method).parameters)
        wanted = ", ".join(arguments)
        raise TypeError(f"{cls.__name__}.{name} takes ({given}), but is called with ({wanted})") from None


def bounded(handlers: dict[str, Handler], depth_max: int) -> dict[str, Handler]:
    """The same handlers, with decoders that refuse deeper nesting where it is possible."""
    if not any(handler.can_nest for handler in handlers.values()):
        return handlers
    return {
        name: replace(handler, decoders=_bounded(handler, depth_max)) if handler.can_nest else handler
        for name, handler in handlers.items()
    }


def _bounded(handler: Handler, depth_max: int) -> Mapping[Codec, BodyDecoder]:
    return bounded_decoders(handler.decoders, depth_max, text_keys=has_text_keys(handler.message_type))


def _marked(cls: type, attribute: str) -> _Mark | None:
    """The mark of the method, or of the method that it overrides."""
    marks = (getattr(base.__dict__.get(attribute), _MARK, None) for base in cls.__mro__)
    return next((mark for mark in marks if mark is not None), None)
