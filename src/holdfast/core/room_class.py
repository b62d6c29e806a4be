"""Catches misspelt settings and hooks when a room class is made: Python itself would silently ignore them.

Only near misses count. A game names its own things as it likes: `max_hp` and `on_fire` resemble nothing of ours.
"""

import inspect
from collections.abc import Iterable
from functools import cache
from types import FunctionType
from typing import Any, get_type_hints

from holdfast.core.handlers import check_parameters, is_handler

# Hooks whose answer is needed at once.
_NEVER_ASYNC = ("heir", "snapshot", "restore")
# Hooks that do not begin with `on_` and are long enough to recognise a slip in them.
_OTHER_HOOKS = ("admit", "snapshot", "restore")
_UNITS = ("s", "hz", "ms", "sec", "secs", "seconds", "minutes", "rate")
# Forms of a verb that no rule makes.
_IRREGULAR = {"left": "leave"}
# Shorter words with another letter in them are words of their own: `on_trick` is no slip for `on_tick`.
_LONG_WORD = 6


def check_room_class(cls: type, base: type) -> None:
    """Refuse what was surely meant to be a setting or hook of `base`, with its right name."""
    hooks = {name: method for name, method in vars(base).items() if _is_hook(name, method)}
    annotated = _annotated(base)
    settings = {name: value for name, value in vars(base).items() if name in annotated and _is_setting(name)}
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


def _is_hook(name: str, method: Any) -> bool:
    return isinstance(method, FunctionType) and (name.startswith("on_") or name in {*_OTHER_HOOKS, "heir", "save"})


@cache
def _annotated(base: type) -> frozenset[str]:
    return frozenset(get_type_hints(base))


def _is_setting(name: str) -> bool:
    return not name.startswith("_")


def _check_hook(cls: type, name: str, value: Any, hook: FunctionType) -> None:
    if is_handler(value):
        raise TypeError(f"{cls.__name__}.{name} is marked with @on, but {name} is a hook: name the handler otherwise")
    parameters = ", ".join(inspect.signature(hook).parameters)
    if not callable(value) and not isinstance(value, staticmethod | classmethod):
        raise TypeError(f"{cls.__name__}.{name} is a hook: write it as a method, `def {name}({parameters})`")
    if name in _NEVER_ASYNC and inspect.iscoroutinefunction(value):
        raise TypeError(f"{cls.__name__}.{name} is called between two turns and cannot be `async def`")
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
