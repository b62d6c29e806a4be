"""The options that say what a server logs, and how."""

import functools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from holdfast.logs.output import FORMATS, Format, set_up

LOG_OPTIONS = frozenset({"verbose", "log_format", "log_no_addresses", "packet_log"})
"""Their names: they are for every server, also for one that a game made."""

_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


def log_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add them to a command, which is called when the log is ready; of them it gets `verbose`."""

    @functools.wraps(command)
    def with_log(
        *args: Any, log_format: Format, log_no_addresses: bool, packet_log: Path | None, verbose: int, **arguments: Any
    ) -> None:
        level = _LEVELS[min(verbose, len(_LEVELS) - 1)]
        try:
            set_up(level, log_format, packet_file=packet_log, with_addresses=not log_no_addresses)
        except OSError as error:
            raise click.ClickException(f"The packet log {packet_log} cannot be written: {error.strerror}.") from None
        command(*args, verbose=verbose, **arguments)

    for option in reversed(_OPTIONS):
        with_log = option(with_log)
    return with_log


_OPTIONS = (
    click.option("-v", "--verbose", count=True, help="Log what happens, not only what is wrong; twice for everything."),
    click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        envvar="HOLDFAST_LOG_FORMAT",
        default="console",
        show_default=True,
        help="The log on stderr: for people, or one JSON object a line; also $HOLDFAST_LOG_FORMAT.",
    ),
    click.option("--log-no-addresses", is_flag=True, help="Keep the addresses of players out of the log."),
    click.option(
        "--packet-log",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Where `holdfast packets on` writes; to the log if not.",
    ),
)
