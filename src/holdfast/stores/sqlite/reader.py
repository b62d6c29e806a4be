"""The one connection that reads, beside the writer and never in its way. Every method runs in its thread."""

import sqlite3
from pathlib import Path

from holdfast.stores.port import Entry
from holdfast.stores.sqlite.errors import translate
from holdfast.stores.sqlite.layout import COUNT_KEY, connect

_ONE = "SELECT key, value, revision FROM entry WHERE key = ?"
_RANGE = f"SELECT key, value, revision FROM entry WHERE key > '{COUNT_KEY}' AND key >= ? AND key < ? ORDER BY key"  # noqa: S608 - a constant
# Greater than every character of a key.
_AFTER = "\x7f"


class Reader:
    """Sees what was committed."""

    def __init__(self, path: Path, *, busy_s: float) -> None:
        self._path = path
        self._busy_s = busy_s
        self._connection: sqlite3.Connection | None = None

    def open(self) -> None:
        """To be called when the writer has made the file."""
        self._connection = connect(self._path, busy_s=self._busy_s)

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            self._connection.close()

    def get(self, key: str) -> Entry | None:
        """The entry, if there is one."""
        return next(iter(self._select(_ONE, key)), None)

    def _select(self, statement: str, *parameters: str) -> list[Entry]:
        assert self._connection is not None
        try:
            return [Entry._make(row) for row in self._connection.execute(statement, parameters)]
        except sqlite3.Error as error:
            raise translate(error, self._path) from error

    def list(self, prefix: str) -> list[Entry]:
        """The entries whose keys begin like this, in order."""
        return self._select(_RANGE, prefix, prefix + _AFTER)
