"""Loggers for every part: `log.warning("token reused", session=…)`.

structlog makes the lines and the standard library carries them: an application that uses plain `logging` gets them
through its own handlers, as text; ours (`logs/output.py`) also find the sentence and the fields in the record, as
`record.event` and `record.fields`. Nothing of structlog's global configuration is read or changed.
"""

import logging
import sys
import traceback
from collections.abc import Mapping
from typing import Any

from structlog.stdlib import BoundLogger, filter_by_level
from structlog.typing import EventDict, WrappedLogger

from holdfast.logs.secrets import HIDDEN, is_secret, struck_out

Logger = BoundLogger

# Within a value, these would make it look like more than one.
_SEPARATORS = frozenset(" =\"'")


class Block(list[str]):
    """A field of several lines, which is shown below the others."""


def get_logger(name: str) -> Logger:
    """The logger of a part, over the standard library's of that name."""
    return BoundLogger(logging.getLogger(name), [filter_by_level, _to_record], {})


def render(event: str, fields: Mapping[str, Any]) -> str:
    """A line as text: the sentence, then name=value."""
    words = [f"{name}={_shown(value)}" for name, value in fields.items() if not isinstance(value, Block)]
    rows = [row for value in fields.values() if isinstance(value, Block) for row in value]
    return "\n".join([" ".join([event, *words]), *rows])


def _shown(value: object) -> str:
    text = str(value)
    # What players write must not look like another field, make another line or steer a terminal.
    return text if text and text.isprintable() and _SEPARATORS.isdisjoint(text) else repr(text)


def _to_record(_: WrappedLogger, __: str, line: EventDict) -> tuple[tuple[str], dict[str, Any]]:
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
    """How far up the stack the call is that logs: for those whose format shows the file and the line."""
    depth = 0
    frame = sys._getframe(2)  # noqa: SLF001 - as logging finds its caller
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("structlog."):
        frame = frame.f_back
        depth += 1
    return depth
