"""Keyword arguments that no longer exist: a call that passes one raises an error that says what to use instead."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def removed(**advice: str) -> Callable[[Callable[_Parameters, _Result]], Callable[_Parameters, _Result]]:
    """Decorate a function whose keyword arguments of these names were removed. Type checkers never see them."""

    def decorate(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
        @wraps(function)
        def checked(*args: Any, **keywords: Any) -> _Result:
            for name in keywords:
                if name in advice:
                    raise TypeError(f"`{name}` was removed: {advice[name]}")
            return function(*args, **keywords)

        return checked

    return decorate
