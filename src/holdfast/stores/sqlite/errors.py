"""Maps SQLite's errors to the port's: nothing was written and a retry may help, or the store is broken.

Only the listed errors are harmless. A log whose sync failed may or may not be on the disk, and a retry would be
answered from a cache that has forgotten the failure; unknown errors are no better.
"""

import sqlite3
from pathlib import Path

from holdfast.stores.port import Broken, StoreError, Unavailable

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
