"""A disk that fails on demand: the writer's connection, with the errors that SQLite would raise."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.stores.sqlite import layout


def sqlite_error(code: int, message: str = "as if") -> sqlite3.Error:
    """What the sqlite3 module raises when SQLite returns this code."""
    error = sqlite3.OperationalError(message)
    error.sqlite_errorcode = code
    error.sqlite_errorname = f"code {code}"
    return error


class Disk:
    """Shared by the test and the connection, which asks it before every statement."""

    def __init__(self) -> None:
        self.pages_max: int | None = None
        """The file may not grow beyond this: SQLite's own way to a full disk."""
        self.has_no_space = False
        """Whether not even the log can be put away."""
        self.statements: list[str] = []
        self._failures: dict[int, int] = {}

    def fail(self, code: int, *, statement: int = 0) -> None:
        """Fail once, at the statement after this many others."""
        self._failures[len(self.statements) + statement] = code

    def asked_for(self, statement: str) -> None:
        index = len(self.statements)
        self.statements.append(statement)
        if self.has_no_space and "wal_checkpoint" in statement:
            raise sqlite_error(sqlite3.SQLITE_FULL)
        if index in self._failures:
            raise sqlite_error(self._failures.pop(index))


class FaultyConnection(sqlite3.Connection):
    """Otherwise a connection like any other."""

    disk: Disk

    def execute(self, statement: str, parameters: Any = ()) -> sqlite3.Cursor:
        if self.disk.pages_max is not None:
            super().execute(f"PRAGMA max_page_count = {self.disk.pages_max}").fetchall()
        self.disk.asked_for(statement)
        return super().execute(statement, parameters)


@contextmanager
def faulty_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """Stores that are opened meanwhile write to this disk; they read from it as ever."""
    disk = Disk()

    def connect(path: Path, *, busy_s: float) -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None, factory=FaultyConnection)
        connection.disk = disk
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(layout, "connect", connect)
        yield disk
