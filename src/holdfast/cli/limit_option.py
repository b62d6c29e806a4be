"""`--limit NAME=VALUE`: any of the server's limits, from the command line."""

from collections.abc import Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any, get_args

import click

from holdfast.core.limits import Limits

_TYPES = {limit.name: limit.type for limit in fields(Limits)}


def limits_from(_: click.Context, parameter: click.Parameter, requests: Sequence[str]) -> Limits:
    """The default limits with the given ones in place of theirs."""
    try:
        return replace(Limits(), **dict(map(_parsed, requests)))
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from None


def _parsed(request: str) -> tuple[str, Any]:
    name, equals, text = request.partition("=")
    name, text = name.strip().replace("-", "_"), text.strip()
    if name not in _TYPES:
        near = get_close_matches(name, _TYPES, n=1)
        advice = f"did you mean {near[0]}?" if near else "see docs/guide/limits.md for all of them."
        raise ValueError(f"no limit is called {name!r}: {advice}")
    if not equals or not text:
        raise ValueError(f"{name} needs a value, as in {name}={getattr(Limits(), name)}")
    return name, _value(name, text)


def _value(name: str, text: str) -> Any:
    kind = _TYPES[name]
    if kind == tuple[str, ...]:
        return tuple(each.strip() for each in text.split(","))
    if choices := get_args(kind):
        if text not in choices:
            raise ValueError(f"{name} is one of {', '.join(choices)}; got {text!r}")
        return text
    number = int if kind is int else float
    try:
        return number(text.replace("_", ""))
    except ValueError:
        what = "a whole number" if number is int else "a number"
        raise ValueError(f"{name} is {what}, as in {name}={getattr(Limits(), name)}; got {text!r}") from None


limit_option = click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=VALUE",
    callback=limits_from,
    help="Change a limit, as in --limit messages_per_s=500; may be given more than once.",
)
