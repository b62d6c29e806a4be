"""What a log line says, for tests that look at it."""

from logging import LogRecord
from typing import Any


def line_of(record: LogRecord) -> tuple[str, dict[str, Any]]:
    """The constant sentence and the fields of one of our lines."""
    said = vars(record)
    return said["event"], said["fields"]
