"""The two connections to the file, one for writing and one for reading, each used in a thread of its own.

After each step of SQLite the writing thread must reacquire the GIL, and waits for it 5 ms or more while the event loop
is busy: a commit of a hundred rows with a statement for each took half a second. So the common commit, without
conflicts, is one statement, which SQLite runs as a transaction.
"""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from holdfast.stores.port import ABSENT, Batch, Broken, Claim, Entry, Outcome, RevisionConflict, StoreError, Unavailable
from holdfast.stores.sqlite.guard import FileGuard
from holdfast.stores.sqlite.layout import (
    COUNT_KEY,
    check_file,
    connect,
    prepare,
    suit_log_to_disk,
    warn_if_others_can_read,
)
from holdfast.stores.sqlite.lock import NewestRevision, ServerLock

_COLUMNS = 4
# Few sizes of statement, so that each is parsed once; the largest has about half the parameters that SQLite allows.
_INSERTS = {
    2**n: "INSERT INTO change VALUES " + ",".join(["(?,?,?,?)"] * 2**n)  # noqa: S608 - nothing but question marks
    for n in range(1, 13)
}
_ROWS_MAX = max(_INSERTS)

_CONFLICTS = """
    SELECT expected.key, coalesce(entry.revision, 0)
    FROM json_each(?) AS expected LEFT JOIN entry ON entry.key = expected.key
    WHERE coalesce(entry.revision, 0) != expected.value
"""

_ONE = "SELECT key, value, revision FROM entry WHERE key = ?"
_ALL = f"SELECT key, value, revision FROM entry WHERE key > '{COUNT_KEY}' ORDER BY key"  # noqa: S608 - a constant
_BELOW = "SELECT key, value, revision FROM entry WHERE key = ? OR (key > ? AND key < ?) ORDER BY key"
_AFTER_SLASH = "0"


class Writer:
    """Writes batches; refuses all writes once one may have been lost."""

    def __init__(self, path: Path, *, busy_s: float) -> None:
        self._path = path
        self._busy_s = busy_s
        self._opened: sqlite3.Connection | None = None
        self._lock: ServerLock | None = None
        self._newest: NewestRevision | None = None
        self.guard = FileGuard(path)
        # The last assigned revision, unless another process has written since.
        self._count = 0
        self._broken: Broken | None = None

    def open(self, claim: Claim = "shared") -> None:
        """Create the file, or migrate it."""
        try:
            check_file(self._path)
            is_new = not self._path.exists()
            if claim != "shared":
                self._lock = ServerLock(self._path)
                self._lock.take(takeover=claim == "takeover")
                warn_if_others_can_read(self._path)
            self._opened = prepare(self._path, busy_s=self._busy_s)
            self._count = self._stored_count()
            if self._lock is not None:
                self._newest = NewestRevision(self._path)
                self._newest.check(self._count, is_new=is_new)
            self.guard.open()
            self.guard.look(self._opened)
        except sqlite3.Error as error:
            raise translate(error, self._path) from error
        except OSError as error:
            raise Unavailable(f"{self._path} cannot be opened: {error.strerror}") from error

    def close(self) -> None:
        """Checkpoint the log into the file, unless another process is reading it."""
        self.guard.close()
        connection, self._opened = self._opened, None
        try:
            if self._newest is not None and self._broken is None:
                self._newest.note(self._count)
            if connection is not None:
                with closing(connection), suppress(sqlite3.Error):
                    # If this fails, the log stays, and the next process that opens the file reads it.
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            if self._lock is not None:
                self._lock.release()

    def write(self, batches: Sequence[Batch]) -> list[Outcome]:
        """Write the batches without a conflict."""
        if self._broken is not None:
            raise Broken(f"nothing more is written after a failure: {self._broken}")
        self.guard.has_written = True
        try:
            return self._try(batches)
        except Unavailable as error:
            if not (is_full(error.__cause__) and self._empty_log()):
                raise
        return self._try(batches)

    def look(self) -> None:
        """Periodic checks, a few times a second; `Broken` if nothing more may be written."""
        if self._opened is None or self._broken is not None:
            return
        try:
            self.guard.look(self._opened)
            suit_log_to_disk(self._opened, self._path)
            if self._lock is not None:
                self._lock.look()
            if self._newest is not None:
                self._newest.note(self._count)
        except Broken as error:
            self.failed(error)
            raise
        except Exception as error:
            failure = Broken(f"{self._path} cannot be checked: {error!r}")
            self.failed(failure)
            raise failure from error

    def reclaim(self) -> bool:
        """Whether this process has the server's lock; a free one is taken again."""
        return self._lock is not None and self._lock.has_it()

    def failed(self, error: Broken) -> None:
        """Refuse all further writes."""
        self._broken = self._broken or error

    def _try(self, batches: Sequence[Batch]) -> list[Outcome]:
        try:
            return self._write_all(batches) or self._write_without_conflicts(batches)
        except sqlite3.Error as error:
            failure = self._roll_back(error)
            if isinstance(failure, Broken):
                self.failed(failure)
            raise failure from error

    def _empty_log(self) -> bool:
        """Make space: checkpoint the log, which mostly has the same pages again and again."""
        try:
            [[busy, _, _]] = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error:
            # There is no space for that either.
            return False
        return not busy

    def _write_all(self, batches: Sequence[Batch]) -> list[Outcome] | None:
        """The fast path: one statement that writes everything, or nothing if there is any conflict."""
        rows, outcomes = _number(batches, self._count)
        if len(rows) > _ROWS_MAX * _COLUMNS:
            return None
        try:
            self._insert(rows)
        except sqlite3.IntegrityError:
            return None
        self._count += len(rows) // _COLUMNS - 1
        return outcomes

    def _write_without_conflicts(self, batches: Sequence[Batch]) -> list[Outcome]:
        """The slow path: find the batches in conflict, and write the others."""
        self._connection.execute("BEGIN IMMEDIATE")
        expected = {key: revision for batch in batches for key, _, revision in batch}
        found: dict[str, int] = dict(self._connection.execute(_CONFLICTS, [json.dumps(expected)]).fetchall())
        conflicts = [_first_conflict(batch, found) for batch in batches]
        accepted = [batch for batch, conflict in zip(batches, conflicts, strict=True) if conflict is None]
        count = self._stored_count()
        rows, outcomes = _number(accepted, count)
        for start in range(0, len(rows), _ROWS_MAX * _COLUMNS):
            self._insert(rows[start : start + _ROWS_MAX * _COLUMNS])
        self._connection.execute("COMMIT")
        self._count = count + len(rows) // _COLUMNS - 1
        written = iter(outcomes)
        return [conflict or next(written) for conflict in conflicts]

    def _insert(self, rows: list[Any]) -> None:
        size = max(2, 1 << (len(rows) // _COLUMNS - 1).bit_length())
        padding = size * _COLUMNS - len(rows)
        self._connection.execute(_INSERTS[size], rows + [None] * padding if padding else rows)

    def _stored_count(self) -> int:
        [[count]] = self._connection.execute("SELECT revision FROM entry WHERE key = ?", [COUNT_KEY]).fetchall()
        assert isinstance(count, int)
        return count

    def _roll_back(self, error: sqlite3.Error) -> StoreError:
        """SQLite rolls back automatically after some errors, and not after others."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as failed:
            return Broken(f"{self._path} could not be rolled back ({failed}) after: {error}")
        return translate(error, self._path, committing=True)

    @property
    def _connection(self) -> sqlite3.Connection:
        assert self._opened is not None
        return self._opened


def _number(batches: Sequence[Batch], count: int) -> tuple[list[Any], list[Outcome]]:
    """The rows that write the batches, with the revisions after this count, and the outcomes."""
    rows: list[Any] = [COUNT_KEY, b"", count, count + sum(map(len, batches))]
    outcomes: list[Outcome] = []
    for batch in batches:
        revisions = []
        for key, value, expected in batch:
            count += 1
            rows += (key, value, expected, count)
            revisions.append(ABSENT if value is None else count)
        outcomes.append(revisions)
    return rows, outcomes


def _first_conflict(batch: Batch, found: dict[str, int]) -> RevisionConflict | None:
    return next((RevisionConflict(key, expected, found[key]) for key, _, expected in batch if key in found), None)


class Reader:
    """Reads committed entries."""

    def __init__(self, path: Path, *, busy_s: float) -> None:
        self._path = path
        self._busy_s = busy_s
        self._connection: sqlite3.Connection | None = None

    def open(self) -> None:
        """Call it after the writer has created the file."""
        self._connection = connect(self._path, busy_s=self._busy_s)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def get(self, key: str) -> Entry | None:
        return next(iter(self._select(_ONE, key)), None)

    def _select(self, statement: str, *parameters: str) -> list[Entry]:
        assert self._connection is not None
        try:
            return [Entry._make(row) for row in self._connection.execute(statement, parameters)]
        except sqlite3.Error as error:
            raise translate(error, self._path) from error

    def list(self, path: str) -> list[Entry]:
        """The entry of this key and those below it, in order."""
        return self._select(_BELOW, path, f"{path}/", path + _AFTER_SLASH) if path else self._select(_ALL)


# Errors: only the listed ones are harmless, that is, nothing was written and a retry may help. A log whose sync failed
# may or may not be on the disk, and a retry would be answered from a cache that has forgotten the failure; unknown
# errors are no better.

# By primary code.
_HARMLESS = {
    sqlite3.SQLITE_BUSY: "another process has locked it",
    sqlite3.SQLITE_LOCKED: "another process has locked it",
    sqlite3.SQLITE_PROTOCOL: "another process has locked it",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that this user may read and write it, and its folder",
    sqlite3.SQLITE_PERM: "permission denied",
}
# By extended code. A full disk is FULL, an exceeded quota is this: the log ends before the frame that would commit.
_HARMLESS_IO = {
    sqlite3.SQLITE_IOERR_WRITE: "it cannot be written; check free space and quota",
}
# The log's index beside the file: harmless, except at the end of a commit, when the log is already on the disk.
_HARMLESS_UNLESS_COMMITTING = {
    sqlite3.SQLITE_IOERR_SHMOPEN: "its -shm file cannot be opened; check free space",
    sqlite3.SQLITE_IOERR_SHMSIZE: "its -shm file cannot grow; check free space",
    sqlite3.SQLITE_IOERR_SHMMAP: "its -shm file cannot be mapped; check free memory",
    sqlite3.SQLITE_IOERR_SHMLOCK: "its -shm file cannot be locked",
}


# By extended code: the file is not the one that was opened. No later attempt finds the old one again.
_MOVED = sqlite3.SQLITE_READONLY_DBMOVED


def is_full(error: BaseException | None) -> bool:
    """Whether the disk is full, or the quota exceeded."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code is not None and (code & 0xFF == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_WRITE)


def translate(error: sqlite3.Error, path: Path, *, committing: bool = False) -> StoreError:
    """The port's error for one of SQLite's; the writer has rolled back."""
    # Errors of the Python module, such as a closed connection, have no code.
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is not None and code != _MOVED:
        words = _HARMLESS.get(code & 0xFF) or _HARMLESS_IO.get(code)
        if words is None and not committing:
            words = _HARMLESS_UNLESS_COMMITTING.get(code)
        if words is not None:
            return Unavailable(f"{path}: {words} ({error})")
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return Broken(f"{path} is damaged or its disk fails ({name}: {error}): do not continue with it")
