"""Loggers for every part: `log.warning("token reused", session=…)`.

structlog formats the lines and the standard library delivers them: an application that uses plain `logging` gets them
through its own handlers, as text; ours (`logs/output.py`) also find the sentence and the fields in the record, as
`record.event` and `record.fields`. structlog's global configuration is neither read nor changed.
"""

import logging
import sys
import traceback
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from holdfast.logs.secrets import HIDDEN, is_secret, struck_out

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger as Logger
    from structlog.typing import EventDict, WrappedLogger

# Inside a value, these would make it look like several.
_SEPARATORS = frozenset(" =\"'")


class Block(list[str]):
    """A field of several lines, which is shown below the others."""


def get_logger(name: str) -> "Logger":
    """The logger of a part, on top of the standard library's of that name."""
    return cast("Logger", _LazyLogger(name))


class _LazyLogger:
    """A structlog logger that is created for the first line: structlog imports rich, which takes longer than
    Holdfast."""

    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def _logger(self) -> "Logger":
        from structlog.stdlib import BoundLogger, filter_by_level  # noqa: PLC0415

        return BoundLogger(logging.getLogger(self._name), [filter_by_level, _to_record], {})

    def __getattr__(self, name: str) -> Any:
        # A method is looked up here only once: events often ask whether a level is enabled.
        method = self.__dict__[name] = getattr(self._logger, name)
        return method


def render(event: str, fields: Mapping[str, Any]) -> str:
    """A line as text: the sentence, then name=value."""
    words = [f"{name}={_shown(value)}" for name, value in fields.items() if not isinstance(value, Block)]
    rows = [row for value in fields.values() if isinstance(value, Block) for row in value]
    return "\n".join([" ".join([event, *words]), *rows])


def _shown(value: object) -> str:
    text = str(value)
    # Text of players must not look like another field, make another line or control a terminal.
    return text if text and text.isprintable() and _SEPARATORS.isdisjoint(text) else repr(text)


def _to_record(_: "WrappedLogger", __: str, line: "EventDict") -> tuple[tuple[str], dict[str, Any]]:
    event = str(line.pop("event"))
    error = line.pop("exc_info", None)
    secrets = line.pop("hide", ())
    fields = {name: HIDDEN if is_secret(name) else value for name, value in line.items()}
    if error is not None and secrets:
        fields["exception"] = Block(struck_out(_traceback(error), secrets).splitlines())
        error = None
    extra = {"event": event, "fields": fields}
    return (render(event, fields),), {"exc_info": error, "extra": extra, "stacklevel": _depth()}


def _traceback(error: BaseException | bool) -> str:
    return "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else traceback.format_exc()


def _depth() -> int:
    """How far up the stack the logging call is: for formats that show the file and the line."""
    depth = 0
    frame = sys._getframe(2)  # noqa: SLF001 - as logging finds its caller
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("structlog."):
        frame = frame.f_back
        depth += 1
    return depth
