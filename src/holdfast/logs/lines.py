"""Loggers for every part: `log.warning("token reused", session=…)`.

structlog formats the lines and the standard library delivers them: an application that uses plain `logging` gets them
through its own handlers, as text; ours (`logs/output.py`) also find the sentence and the fields in the record, as
`record.event` and `record.fields`. structlog's global configuration is neither read nor changed.
"""

import logging
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger as Logger
    from structlog.typing import EventDict, WrappedLogger

HIDDEN = "***"

_NAMES = re.compile(
    r"passw|passphrase|passcode|^pass$|^pwd$|^pin$|credential|secret|token|ticket|api_?key|private_?key|authorization"
    r"|cookie",
    re.IGNORECASE,
)
# In a credential, these separate the name of an account from its password, and the parts of a signed token.
_PARTS = re.compile("[:.]")
# Shorter strings are in too many words: a text full of "***" explains nothing.
_STRUCK_CHARS_MIN = 4
# Inside a value, these would make it look like several.
_SEPARATORS = frozenset(" =\"'")


class LogRows(list[str]):
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


def prepare_logs() -> None:
    """Import what the first line needs: not in the middle of a turn, which everybody would wait for."""
    import structlog.stdlib  # noqa: F401, PLC0415 - see above


def render(event: str, fields: Mapping[str, Any]) -> str:
    """A line as text: the sentence, then name=value."""
    words = [f"{name}={_shown(value)}" for name, value in fields.items() if not isinstance(value, LogRows)]
    rows = [row for value in fields.values() if isinstance(value, LogRows) for row in value]
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
        fields["exception"] = LogRows(struck_out(_traceback(error), secrets).splitlines())
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


# Secrets


def is_secret(name: str) -> bool:
    """Whether a field with this name holds a secret: "password", "accessToken", "api_key" …"""
    return _NAMES.search(name) is not None


def struck_out(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets and their parts, also as Python would quote them."""
    found: set[str] = set()
    for secret in secrets:
        _, _, password = secret.partition(":")
        for each in (secret, password, *_PARTS.split(secret)[1:]):
            if len(each) >= _STRUCK_CHARS_MIN:
                found |= {each, repr(each)[1:-1]}
    # The longest first: masking a part of a longer one would leave the rest readable.
    for spelling in sorted(found, key=len, reverse=True):
        text = text.replace(spelling, HIDDEN)
    return text
