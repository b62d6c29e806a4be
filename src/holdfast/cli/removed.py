"""Commands and options that no longer exist: each says what to use instead."""

from collections.abc import Callable
from typing import Any, NoReturn

import click

_INSTEAD = "encrypt TCP with TLS: holdfast serve --tls-cert FILE --tls-key FILE, and connect to tcps://host:port"


@click.command(hidden=True, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1)
def key(arguments: tuple[str, ...]) -> NoReturn:
    """Say what took the place of `holdfast key`."""
    raise click.UsageError(f"`holdfast key` was removed; {_INSTEAD}.")


def removed_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command refuse --tcp-key and --tcp-plain."""
    for option, takes_value in (("--tcp-key", True), ("--tcp-plain", False)):
        command = click.option(
            option,
            is_flag=not takes_value,
            multiple=takes_value,
            hidden=True,
            expose_value=False,
            callback=_refuse,
        )(command)
    return command


def _refuse(_: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value:
        raise click.UsageError(f"{parameter.opts[0]} was removed; {_INSTEAD}.")
