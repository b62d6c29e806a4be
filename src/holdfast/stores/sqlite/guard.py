"""Notices that the files of an open store are not the ones that were opened: deleted, replaced, truncated or
overwritten.

SQLite does not check. It continues with a deleted file, and its commits are lost with the process. The database itself
is only examined with `stat` or through SQLite: closing a descriptor of our own would drop SQLite's locks on it. The
log has no locks, so it can be read.
"""

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from holdfast.stores.port import Broken
from holdfast.stores.sqlite.layout import APPLICATION_ID, COUNT_KEY, connect, connect_immutable

_LOG_HEADER = 32
_FRAME_HEADER = 24
# The first bytes of a log; the last bit is the byte order of its checksums.
_LOG_MAGIC = (bytes.fromhex("377f0682"), bytes.fromhex("377f0683"))
# A file that another program has written is checked page by page, unless that would take too long.
_THOROUGH_BYTES_MAX = 256 * 1024 * 1024

# The disk has no space for a checkpoint, or somebody else makes one: that says nothing about the log.
_SAYS_NOTHING = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}

_FileId = tuple[int, int]


class FileGuard:
    """Watches the database, its log and the log's index from `open` to `close`; raises `Broken`."""

    def __init__(self, path: Path) -> None:
        self._path = self._log = self._index = path
        self._ids: dict[Path, _FileId] = {}
        self._log_file = -1
        self._size = 0
        self._written_at = 0
        self._log_size = 0
        # The newest revision seen in the database without its log: it never has an older one.
        self._count = 0
        self.has_written = False
        """Whether this process wrote since the last check: then its checkpoint may have changed the database."""

    def open(self) -> None:
        """Remember which files these are; SQLite has just opened them."""
        # Resolved now: the program may change its working directory later.
        real = self._path.resolve()
        self._path = self._path.absolute()
        self._log = real.with_name(f"{real.name}-wal")
        self._index = real.with_name(f"{real.name}-shm")
        self._ids = {file: _id(file.stat()) for file in (self._path, self._log, self._index)}
        self._log_file = os.open(self._log, os.O_RDONLY)
        self._size = self._path.stat().st_size

    def close(self) -> None:
        self._ids.clear()
        if self._log_file >= 0:
            os.close(self._log_file)
            self._log_file = -1

    def check(self) -> None:
        """Check that commits are where the next start will read them. Takes a few microseconds."""
        if self._ids:
            self._same(self._path)
            self._same(self._log)
            # An empty log was truncated by a checkpoint; `look` verifies that.
            if _first_bytes(self._log_file) not in (b"", *_LOG_MAGIC):
                raise self._broken(f"its log {self._log} was overwritten")

    def look(self, connection: sqlite3.Connection) -> None:
        """The same, and whether another program has written or truncated the files; called a few times a second."""
        if not self._ids:
            return
        self.check()
        self._same(self._index)
        has_written, self.has_written = self.has_written, False
        self._look_at_log(connection)
        found = self._same(self._path)
        is_shorter = found.st_size < self._size
        if is_shorter:
            self._check_shorter(connection, found.st_size)
        if found.st_mtime_ns != self._written_at:
            is_ours = not self._written_at or has_written or found.st_size > _THOROUGH_BYTES_MAX
            try:
                self._examine()
                if is_shorter or not is_ours:
                    self._examine_pages()
            except sqlite3.OperationalError:
                # It cannot be opened at the moment, for want of descriptors for example: the next call examines it.
                return
        self._size, self._written_at = found.st_size, found.st_mtime_ns

    def _same(self, file: Path) -> os.stat_result:
        what = "it" if file is self._path else file
        try:
            found = file.stat()
        except OSError as error:
            is_gone = isinstance(error, FileNotFoundError | NotADirectoryError)
            raise self._broken(
                f"{what} was deleted or moved" if is_gone else f"{what} can no longer be reached ({error.strerror})"
            ) from None
        if _id(found) != self._ids.get(file, _id(found)):
            raise self._broken(f"{what} was replaced by another file")
        return found

    def _look_at_log(self, connection: sqlite3.Connection) -> None:
        size = os.fstat(self._log_file).st_size
        if size < self._log_size:
            # A checkpoint may have truncated it, ours or another program's: then SQLite needs nothing of the rest.
            try:
                [[_, frames, done]] = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                [[page]] = connection.execute("PRAGMA page_size").fetchall()
            except sqlite3.Error as error:
                if error.sqlite_errorcode & 0xFF in _SAYS_NOTHING:
                    return  # the next call looks at it again
                raise self._broken(f"its log {self._log} was truncated ({error})") from error
            if frames > done and size < _LOG_HEADER + frames * (page + _FRAME_HEADER):
                raise self._broken(f"its log {self._log} was truncated")
        self._log_size = size

    def _check_shorter(self, connection: sqlite3.Connection, size: int) -> None:
        """It was truncated, unless SQLite itself needs no more: another program has compacted it (`VACUUM`)."""
        try:
            [[pages]] = connection.execute("PRAGMA page_count").fetchall()
            [[page]] = connection.execute("PRAGMA page_size").fetchall()
        except sqlite3.Error as error:
            raise self._broken(f"it was truncated from {self._size} to {size} bytes ({error})") from error
        # Later writes are in the log.
        if size == 0 or size + self._log_size < pages * page:
            raise self._broken(f"it was truncated from {self._size} to {size} bytes")

    def _examine(self) -> None:
        """Read the file without its log: is it still this store, and not an older copy of it?"""
        with closing(connect_immutable(self._path)) as connection:
            try:
                [[mark]] = connection.execute("PRAGMA application_id").fetchall()
                if mark != APPLICATION_ID:
                    raise self._broken("it was overwritten by another database")
                count = connection.execute("SELECT revision FROM entry WHERE rowid = 1 AND key = ?", [COUNT_KEY])
                for [revision] in count.fetchall():
                    if revision < self._count:
                        raise self._broken("it was overwritten by an older copy of it")
                    self._count = revision
            except sqlite3.DatabaseError as error:
                # Without its log, a file with an unfinished checkpoint looks damaged.
                if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
                    raise self._broken("it was overwritten") from None

    def _examine_pages(self) -> None:
        """Another program has written to the file: a checkpoint, or damage."""
        with closing(connect(self._path, busy_s=0.0)) as connection:
            try:
                found = connection.execute("PRAGMA quick_check(1)").fetchall()
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError as error:
                raise self._broken(f"it was overwritten ({error})") from None
            if found != [("ok",)]:
                raise self._broken(f"it was overwritten ({found[0][0]})")

    def _broken(self, what: str) -> Broken:
        return Broken(f"{self._path}: {what} while it was in use; nothing more is written to it")


def _first_bytes(file: int) -> bytes:
    if sys.platform == "win32":
        # It has no `pread`; and there, open files cannot be deleted or replaced.
        return b""
    return os.pread(file, 4, 0)


def _id(found: os.stat_result) -> _FileId:
    return found.st_dev, found.st_ino
