"""A room class as it is made: its handlers, marked with `@on(Move)`, and a check for misspelt settings and hooks.

Python itself would silently ignore those. Only near misses count. A game names its own things as it likes: `max_hp` and
`on_fire` resemble nothing of ours.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import FunctionType, NoneType, SimpleNamespace, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from holdfast.core.codec import BodyDecoder, Codec
from holdfast.core.codecs import CODECS
from holdfast.core.finite import finite_decoders, has_floats
from holdfast.core.messages import RESERVED, Message
from holdfast.core.nesting import bounded_decoders, can_nest, has_text_keys

F = TypeVar("F", bound=Callable[..., Any])

# Where `@on` leaves its `_Mark` on a method.
_MARK = "__holdfast_on__"
# In the place of a message type: the one that the method's annotation names.
_ANNOTATED: Any = object()

# Hooks whose answer is needed at once.
_NEVER_ASYNC = ("heir", "snapshot", "restore", "view", "area", "sees")
# Hooks that do not begin with `on_` and are long enough to recognise a slip in them.
_OTHER_HOOKS = ("admit", "snapshot", "restore")
_SHORT_HOOKS = ("heir", "save", "view", "area", "sees")
_UNITS = ("s", "hz", "ms", "sec", "secs", "seconds", "minutes", "rate")
# Forms of a verb that no rule makes, and the words of other servers.
_IRREGULAR = {
    "left": "leave",
    "spectator": "spectate",
    "connect": "join",
    "disconnect": "drop",
    "reconnect": "rejoin",
    "dispose": "destroyed",
}
# Shorter words with another letter in them are words of their own: `on_trick` is no slip for `on_tick`.
_LONG_WORD = 6


@dataclass(frozen=True, slots=True)
class Handler:
    """A message type, the method that handles it, and a decoder for each codec."""

    message_type: type[Message]
    method: Callable[..., Any]
    decoders: Mapping[Codec, BodyDecoder]
    role: str = ""
    """The role that a sender needs; empty for none."""
    can_nest: bool = False
    """Whether a body can be nested arbitrarily deep."""
    spectators: bool = False
    """Whether spectators may send the message, too."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """The arguments of `@on`."""

    message_type: type[Message]
    """`_ANNOTATED` until the class is made: an annotation may be text that cannot be resolved earlier."""
    role: str = ""
    spectators: bool = False


@overload
def on(message_type: type[Message], /, *, role: str | None = None, spectators: bool = False) -> Callable[[F], F]: ...
@overload
def on(*, role: str | None = None, spectators: bool = False) -> Callable[[F], F]: ...
@overload
def on(method: F, /) -> F: ...
def on(marked: Any = _ANNOTATED, /, *, role: str | None = None, spectators: bool = False) -> Any:
    """Mark a method of a room as the handler of a message: `@on` before `def moved(self, player, move: Move)`.

    The message's type is that of the annotation, or the one in brackets: `@on(Move)`. With a role, as in
    `@on(role="gm")`, only players who have it may send the message; others are refused. With `spectators=True`
    spectators may send it, too: then the method gets a `Player` or a `Spectator`.
    """
    if role is not None and (not isinstance(role, str) or not role):  # type: ignore[redundant-expr]
        raise TypeError(f'role= takes the name of a role, as in @on(Move, role="gm"); got {role!r}')
    if callable(marked) and not isinstance(marked, type):
        return _marked(marked, _Mark(_ANNOTATED))
    mark = _Mark(marked if marked is _ANNOTATED else _message_type(marked), role or "", spectators)
    return lambda method: _marked(method, mark)


def _marked(method: F, mark: _Mark) -> F:
    if is_handler(method):
        raise TypeError(f"{method.__name__} is already marked with @on: write one method per message")
    setattr(method, _MARK, mark)
    return method


def _message_type(given: Any) -> type[Message]:
    """A type that a room can handle; `TypeError` if it is none."""
    if not isinstance(given, type) or not issubclass(given, Message):
        raise TypeError(f"@on takes a Message class, as in @on(Move); got {given!r}")
    if given.wire_name.startswith(RESERVED):
        raise TypeError(f"{given.__name__} is Holdfast's own message and cannot be handled by a room")
    return given


def handlers_of(cls: type) -> dict[str, Handler]:
    """The handlers of a room class by wire name; a subclass's method overrides its base's, marked or not."""
    found: dict[str, Handler] = {}
    for attribute in dir(cls):
        # The method, or the one that it overrides.
        methods = (base.__dict__.get(attribute) for base in cls.__mro__)
        marked = next((method for method in methods if is_handler(method)), None)
        method = getattr(cls, attribute, None)
        if marked is None or not callable(method):
            continue
        mark: _Mark = getattr(marked, _MARK)
        message_type = mark.message_type
        if message_type is _ANNOTATED:
            message_type = _annotated_type(cls, attribute, marked)
        name = message_type.wire_name
        if name in found:
            raise TypeError(
                f"{cls.__name__} handles {name!r} twice: {found[name].method.__name__} and {method.__name__}"
            )
        check_parameters(cls, attribute, method, ("player", name))
        decoders = {codec: codec.body_decoder(message_type) for codec in CODECS.values()}
        found[name] = Handler(message_type, method, decoders, mark.role, can_nest(message_type), mark.spectators)
    return found


def _annotated_type(cls: type, name: str, method: Any) -> type[Message]:
    """The message type in a handler's annotation."""
    parameters = list(inspect.signature(method).parameters.values())
    # After `self` and `player`.
    parameter = parameters[2] if len(parameters) > 2 else None  # noqa: PLR2004 - see above
    if parameter is None or parameter.annotation is parameter.empty:
        raise TypeError(
            f"{cls.__name__}.{name} is marked with @on and does not say which message it takes: annotate it, as in "
            f"`def {name}(self, player: Player, move: Move)`, or write @on(Move)"
        )
    try:
        return _message_type(annotation_of(cls, method, parameter.name))
    except (NameError, AttributeError, SyntaxError) as error:
        raise TypeError(
            f"{cls.__name__}.{name} is marked with @on, and its annotation {parameter.annotation!r} cannot be resolved "
            f"({error}): define the message before the room, at the top of a module, or write @on(…) with it"
        ) from None
    except TypeError as error:
        raise TypeError(f"{cls.__name__}.{name}: {error}") from None


def annotation_of(cls: type, method: Any, name: str) -> Any:
    """One annotation of a method, resolved if it is text; whatever that raises if it cannot be."""
    function = inspect.unwrap(method)
    # Only this one: the others may name what is imported for type checkers alone.
    annotated = SimpleNamespace(__annotations__={name: function.__annotations__[name]})
    return get_type_hints(annotated, function.__globals__, dict(vars(cls)))[name]


def answers_of(cls: type, handler: Handler) -> tuple[type, ...]:
    """The messages that a handler answers with, as its return annotation names them, and `NoneType` if it is there."""
    try:
        annotation = annotation_of(cls, handler.method, "return")
    except (KeyError, NameError, AttributeError, SyntaxError, TypeError):
        # There is none, or it names what is imported for type checkers alone: no message that the handler makes.
        return ()
    named = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
    answers = tuple(each for each in named if isinstance(each, type) and issubclass(each, Message | NoneType))
    is_known = Message not in answers and len(answers) == len(named)
    return answers if is_known and any(each is not NoneType for each in answers) else ()


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
    """The same handlers, with decoders that refuse deeper nesting, and numbers that are not finite, where those are
    possible."""
    found: dict[str, Handler] = {}
    for name, handler in handlers.items():
        decoders = handler.decoders
        if has_floats(handler.message_type):
            decoders = finite_decoders(decoders)
        if handler.can_nest:
            decoders = bounded_decoders(decoders, depth_max, text_keys=has_text_keys(handler.message_type))
        found[name] = handler if decoders is handler.decoders else replace(handler, decoders=decoders)
    return found


# Misspelt settings and hooks


def check_room_class(cls: type, base: type) -> None:
    """Refuse what was surely meant to be a setting or hook of `base`, with its right name."""
    hooks = hooks_of(base)
    annotated = _annotated(base)
    settings = {name: value for name, value in vars(base).items() if name in annotated and not name.startswith("_")}
    taken = {
        name: value
        for each in reversed(base.__mro__[:-1])
        for name, value in vars(each).items()
        if not name.startswith("_") and name not in hooks and name not in annotated
    }
    for name, value in vars(cls).items():
        if name in hooks:
            _check_hook(cls, name, value, hooks[name])
        elif name in taken:
            _check_override(cls, name, value, taken[name])
        elif not name.startswith("_") and not hasattr(base, name) and name not in annotated:
            if is_handler(value):
                continue
            is_method = isinstance(value, FunctionType)
            if meant := _meant_hook(name, hooks) if is_method else _meant_setting(name, value, settings):
                raise TypeError(
                    f"{cls.__name__}.{name} is not known to Holdfast: did you mean {meant}? "
                    "(If it is the game's own, give it a name that differs more.)"
                )


def hooks_of(base: type) -> dict[str, FunctionType]:
    """The hooks of a class by name, in the order in which they are written."""
    return {name: method for name, method in vars(base).items() if _is_hook(name, method)}


def _is_hook(name: str, method: Any) -> bool:
    return isinstance(method, FunctionType) and (name.startswith("on_") or name in {*_OTHER_HOOKS, *_SHORT_HOOKS})


@cache
def _annotated(base: type) -> frozenset[str]:
    return frozenset(get_type_hints(base))


def _check_hook(cls: type, name: str, value: Any, hook: FunctionType) -> None:
    if is_handler(value):
        raise TypeError(
            f"{cls.__name__}.{name} is marked with @on, but {name} is a hook: give the handler another name"
        )
    parameters = ", ".join(inspect.signature(hook).parameters)
    if not callable(value) and not isinstance(value, staticmethod | classmethod):
        raise TypeError(f"{cls.__name__}.{name} is a hook: write it as a method, `def {name}({parameters})`")
    if name in _NEVER_ASYNC and inspect.iscoroutinefunction(value):
        raise TypeError(f"{cls.__name__}.{name} has to answer at once and cannot be `async def`")
    check_parameters(cls, name, value, list(inspect.signature(hook).parameters)[1:])


def _check_override(cls: type, name: str, value: Any, ours: Any) -> None:
    """Refuse a game's own thing in the place of one that the room needs; one that can do the same is welcome."""
    if isinstance(ours, FunctionType) and isinstance(value, FunctionType):
        parameters = list(inspect.signature(ours).parameters.values())
        positional = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
        by_name = {each.name: None for each in parameters if each.kind is each.KEYWORD_ONLY}
        try:
            inspect.signature(value).bind(*positional, **by_name)
        except TypeError:
            pass
        else:
            return
    elif type(ours) is type(value):
        return
    raise TypeError(f"{cls.__name__}.{name} hides {name} of Room, which it needs: give yours another name")


def _meant_hook(name: str, hooks: Iterable[str]) -> str:
    for hook in hooks:
        if _without_case(name) == _without_case(hook):
            return hook
        if hook.startswith("on_") and name.startswith("on_"):
            word, meant = name.removeprefix("on_"), hook.removeprefix("on_")
            if _IRREGULAR.get(word) == meant or word in _inflections(meant) or _is_slip(word, meant):
                return hook
        elif hook in _OTHER_HOOKS and _is_slip(name, hook):
            return hook
    return ""


def _meant_setting(name: str, value: Any, settings: dict[str, Any]) -> str:
    for setting, default in settings.items():
        if _kind(value) is not _kind(default) or _kind(value) is None:
            continue
        # 0 is where a game's own counter begins, as in `tick = 0`.
        is_without_unit = value != 0 and _without_unit(name) == _without_unit(setting)
        if is_without_unit or _without_case(name) == _without_case(setting) or _is_slip(name, setting):
            return setting
    return ""


def _kind(value: Any) -> str | None:
    """What sort of setting a value could be: a game's own list of `duplicates` is no policy for them."""
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else None


def _without_unit(name: str) -> str:
    stem, _, unit = name.rpartition("_")
    return stem if stem and unit in _UNITS else name


def _without_case(name: str) -> str:
    return name.replace("_", "").lower()


def _inflections(word: str) -> set[str]:
    """Other forms of a verb: `on_joined` and `on_joining` mean `on_join`."""
    stem = word.removesuffix("e")
    doubled = word + word[-1]
    return {f"{word}s", f"{word}ed", f"{stem}ed", f"{stem}ing", f"{doubled}ed", f"{doubled}ing"}


def _is_slip(name: str, meant: str) -> bool:
    """Whether a finger slipped once: a letter left out, doubled, swapped with the next; in long words also replaced.

    The first letter of each word is what people get right, and what tells `max_layers` from `max_players`.
    """
    if [word[:1] for word in name.split("_")] != [word[:1] for word in meant.split("_")]:
        return False
    start = next((at for at, (a, b) in enumerate(zip(name, meant, strict=False)) if a != b), min(len(name), len(meant)))
    rest, rest_meant = name[start:], meant[start:]
    is_missing = rest == rest_meant[1:]
    is_extra = rest[1:] == rest_meant and (start == len(meant) or name[start] == name[start - 1])
    is_swapped = rest[:2] == rest_meant[:2][::-1] and rest[2:] == rest_meant[2:]
    is_replaced = len(meant) >= _LONG_WORD and rest[1:] == rest_meant[1:]
    return name != meant and (is_missing or is_extra or is_swapped or is_replaced)
