"""The layout of the file, its migrations, and how connections to it are opened.

The file is marked as ours (`application_id`) and with the number of its layout (`user_version`). A file that is not
ours, or newer than this version, is refused before anything is written to it.
"""

import os
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from holdfast.logs import get_logger
from holdfast.stores.port import Unavailable

log = get_logger("holdfast.stores")

APPLICATION_ID = int.from_bytes(b"Hldf")

COUNT_KEY = ""
"""The last assigned revision is an entry like any other, under the one key that callers cannot use."""

# A row inserted into `change` is a write of the port: if the entry is not at the expected revision, it fails, and the
# whole statement with it. So a commit is one statement (see connections.py), padded with rows without a key.
# `entry` has rowids: with WITHOUT ROWID, values of 2 KiB and more cost twice the CPU, and small ones no less.
MIGRATIONS: Sequence[Sequence[str]] = (
    (
        "CREATE TABLE entry (key TEXT PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL) STRICT",
        f"INSERT INTO entry VALUES ('{COUNT_KEY}', x'', 1)",  # noqa: S608 - a constant
        "CREATE VIEW change AS SELECT key, value, revision AS expected, revision FROM entry",
        """
        CREATE TRIGGER create_entry INSTEAD OF INSERT ON change WHEN new.value NOTNULL AND new.expected = 0 BEGIN
            INSERT INTO entry VALUES (new.key, new.value, new.revision);
        END
        """,
        """
        CREATE TRIGGER replace_entry INSTEAD OF INSERT ON change WHEN new.value NOTNULL AND new.expected > 0 BEGIN
            UPDATE entry SET value = new.value, revision = new.revision
                WHERE key = new.key AND revision = new.expected;
            SELECT raise(ABORT, 'conflict') WHERE changes() = 0;
        END
        """,
        """
        CREATE TRIGGER delete_entry INSTEAD OF INSERT ON change WHEN new.value ISNULL AND new.key NOTNULL BEGIN
            SELECT raise(ABORT, 'conflict')
                WHERE coalesce((SELECT revision FROM entry WHERE key = new.key), 0) != new.expected;
            DELETE FROM entry WHERE key = new.key;
        END
        """,
    ),
)
"""Step n migrates a file from layout n to n + 1; released steps never change."""


def connect(path: Path, *, busy_s: float) -> sqlite3.Connection:
    """A connection without implicit transactions."""
    return sqlite3.connect(path, timeout=busy_s, isolation_level=None)


def connect_immutable(path: Path) -> sqlite3.Connection:
    """A connection that reads the file without its log, and changes nothing."""
    return sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)


def prepare(path: Path, *, busy_s: float, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> sqlite3.Connection:
    """The connection for writing, to a file that was created, or checked and migrated."""
    # Only this user can read it, and its log, to which SQLite gives the same permissions. SQLite reports a failure.
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    connection = connect(path, busy_s=busy_s)
    try:
        _check_mark(connection, path)
        _migrate(connection, path, migrations)
        _make_durable(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def warn_if_others_can_read(path: Path) -> None:
    """Warn about permissions of an existing file: other users should not read players' data."""
    if os.name == "posix" and path.exists() and path.stat().st_mode & 0o077:
        log.warning("other users can read the store: run chmod 600 on it, its -wal and its -shm", file=path)


def check_file(path: Path) -> None:
    """Refuse a file that cannot be a store, without changing anything."""
    try:
        if not path.parent.is_dir():
            raise Unavailable(f"{path} cannot be opened: there is no folder {path.parent}")
        if path.is_dir():
            raise Unavailable(f"{path} cannot be opened: it is a folder, but a store is a file")
        if not path.exists():
            return
    except OSError as error:
        raise Unavailable(f"{path} cannot be opened: {error.strerror}") from error
    # Opening and closing it otherwise would change it if a program had left a log beside it.
    with closing(connect_immutable(path)) as connection:
        try:
            _check_mark(connection, path)
        except sqlite3.DatabaseError as error:
            # Without its log, a file with an unfinished checkpoint looks damaged.
            if error.sqlite_errorcode != sqlite3.SQLITE_CORRUPT:
                raise


def _check_mark(connection: sqlite3.Connection, path: Path) -> None:
    is_empty = _read(connection, "page_count") == 0
    if not is_empty and _read(connection, "application_id") != APPLICATION_ID:
        raise ValueError(f"{path} is another program's database, not a Holdfast store: choose another file")


def _migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Sequence[str]]) -> None:
    known = len(migrations)
    # A file is created in one transaction, and before it has a log: its mark is in the file itself from the start.
    connection.execute("BEGIN IMMEDIATE")
    layout = _read(connection, "user_version")
    if layout > known:
        raise ValueError(
            f"{path} has layout {layout}, but this version of Holdfast supports at most {known}: "
            "run the version that wrote it, or choose another file"
        )
    for statements in migrations[layout:]:
        for statement in statements:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {known}")
    # A write that is rolled back shows whether writing is permitted.
    connection.execute("COMMIT" if layout < known else "ROLLBACK")


def _make_durable(connection: sqlite3.Connection, path: Path) -> None:
    [[mode]] = connection.execute("PRAGMA journal_mode = WAL").fetchall()
    if mode != "wal":
        raise Unavailable(f"{path} is on a file system without write-ahead logs: use a local folder")
    # The log is synced at every commit, on macOS down to the disk itself.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")
    # Temporary data does not go to the disk.
    connection.execute("PRAGMA temp_store = MEMORY")
    suit_log_to_disk(connection, path)


# 16 MiB of log: rare enough to be cheap, and small enough for one block of the log's index, so that a commit does not
# need space for another.
_LOG_PAGES_MAX = 4000
_LOG_PAGES_MIN = 15
_PAGE_BYTES = 4096


def suit_log_to_disk(connection: sqlite3.Connection, path: Path) -> None:
    """Limit the log to an eighth of the free space: its contents need space in the file, too.

    A log that fills a small disk could never be checkpointed.
    """
    try:
        space = shutil.disk_usage(path.absolute().parent).free
        now = _read(connection, "wal_autocheckpoint")
        pages = _LOG_PAGES_MAX
        while pages > _LOG_PAGES_MIN and pages * _PAGE_BYTES > space // 8:
            pages //= 2
        if pages != now:
            connection.execute(f"PRAGMA wal_autocheckpoint = {pages}").fetchall()
            connection.execute(f"PRAGMA journal_size_limit = {pages * _PAGE_BYTES}").fetchall()
    except (OSError, sqlite3.Error):
        # It stays as it was, until the next check.
        return


def _read(connection: sqlite3.Connection, pragma: str) -> int:
    [[number]] = connection.execute(f"PRAGMA {pragma}").fetchall()
    assert isinstance(number, int)
    return number
