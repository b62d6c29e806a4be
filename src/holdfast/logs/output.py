"""Where the lines of a process go, and their format: text for people, or JSON with one object per line."""

import json
import logging
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from holdfast.logs.lines import LogRows, render

Format = Literal["console", "json"]
FORMATS: tuple[str, ...] = get_args(Format)

PACKETS = "holdfast.packets"
"""The logger of the packet log."""
ADDRESSES = frozenset({"address", "peer"})
"""The fields with the address of a player."""

_TEXT = "%(asctime)s %(levelname)s{node} %(name)s: %(message)s"


class ConsoleFormatter(logging.Formatter):
    """Time, level, logger, sentence, fields; a traceback or a dump follows, indented: only the first line is not.

    Tracebacks are Python's own: prettier ones show the variables, and with them passwords.
    """

    default_msec_format = "%s.%03d"

    def __init__(self, node: str = "") -> None:
        super().__init__(_TEXT.format(node=f" {node}" if node else ""))

    def format(self, record: logging.LogRecord) -> str:
        """One line, with its traceback or dump."""
        first, *more = super().format(record).splitlines() or [""]
        return "\n    ".join(map(_harmless, [first, *more]))


def _harmless(text: str) -> str:
    return "".join(each if each.isprintable() or each == "\t" else ascii(each)[1:-1] for each in text)


class JsonFormatter(logging.Formatter):
    """One object per line: time (ISO 8601, UTC), level, logger, event, the fields, and an exception as text.

    With a name, also the node: `node`; a field of that name is then `node_`.
    """

    def __init__(self, node: str = "") -> None:
        super().__init__()
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = getattr(record, "fields", {})
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": getattr(record, "event", None) or record.getMessage(),
        }
        if self._node:
            line["node"] = self._node
        line |= {f"{name}_" if name in line else name: value for name, value in fields.items()}
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            line["exception"] = record.exc_text
        elif isinstance(block := line.get("exception"), LogRows):
            line["exception"] = "\n".join(block)
        # In ASCII: whatever players write, a line is one line.
        return json.dumps(line, default=str)


class WithoutAddresses(logging.Filter):
    """Removes the addresses of players from Holdfast's lines."""

    def filter(self, record: logging.LogRecord) -> bool:
        fields = getattr(record, "fields", {})
        if not ADDRESSES.isdisjoint(fields):
            kept = {name: value for name, value in fields.items() if name not in ADDRESSES}
            record.__dict__.update(fields=kept, msg=render(record.__dict__["event"], kept))
        return True


def set_up(
    level: int, form: Format, *, packet_file: Path | None = None, with_addresses: bool = True, node: str = ""
) -> None:
    """Log this process to stderr, and its packet log to a file if one is named: `OSError` if that cannot be opened.

    Each line begins with the name of the `node`, if it has one: several processes may share a stream.
    """
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    logging.basicConfig(level=level, handlers=[_dressed(handler, form, node, with_addresses=with_addresses)])
    if packet_file is not None:
        # It contains the players' messages.
        packet_file.touch(mode=0o600)
        handler = logging.FileHandler(packet_file, encoding="utf-8", errors="backslashreplace")
        packets = logging.getLogger(PACKETS)
        packets.addHandler(_dressed(handler, form, node, with_addresses=with_addresses))
        packets.propagate = False


def _dressed(handler: logging.Handler, form: Format, node: str, *, with_addresses: bool) -> logging.Handler:
    handler.setFormatter(JsonFormatter(node) if form == "json" else ConsoleFormatter(node))
    if not with_addresses:
        handler.addFilter(WithoutAddresses())
    return handler
