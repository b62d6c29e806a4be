"""One server per file: a lock of the kernel, which ends with its process however that ends.

The lock is on a separate file beside the database (`game.db.lock`), because SQLite's locks are on the database itself.
The file names the holder. A deliberate takeover replaces the file: the former holder keeps its lock on an unlinked
file, and notices. Processes forked by the holder release it at once.

A server without the lock is harmless, only useless: its writes are refused by revision. Where the system has no such
lock (Windows) revisions are the only protection.

Beside it a server notes the newest revision that it has assigned (`game.db.newest`). A database with an older one was
set back: a backup was restored, or a disk lost writes. The note is written a few times a second, and nothing waits for
it: it may lag behind, but is never ahead.
"""

import os
import socket
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from weakref import WeakSet

import msgspec

from holdfast.logs import get_logger
from holdfast.stores.port import Held, Unavailable

if sys.platform != "win32":
    import fcntl

log = get_logger("holdfast.stores")

# A tool that looks up the holder takes the lock for a moment, and a killed process needs a moment to end.
PATIENCE_S = 1.0
_RETRY_S = 0.02
_NOTE_DIGITS = 20


class Holder(msgspec.Struct, frozen=True):
    """The process that has the lock."""

    pid: int
    since: float
    machine: str

    def __str__(self) -> str:
        where = "" if self.machine == socket.gethostname() else f" on {self.machine}"
        # The lock outlives its process in children that it started outside of Python.
        heirs = "" if where or _is_running(self.pid) else ", or a process that it started"
        return (
            f"process {self.pid}{heirs}{where}, since {datetime.fromtimestamp(self.since, UTC):%Y-%m-%d %H:%M:%S} UTC"
        )


class ServerLock:
    """One server's view of a store's lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock_path = Path(f"{path.resolve()}.lock")
        self._file = -1
        self._is_lost = False
        _locks.add(self)

    def take(self, *, takeover: bool = False) -> None:
        """Take the lock; `Held` if another server has it, unless this is a takeover."""
        if sys.platform == "win32":
            return
        try:
            if takeover:
                self._replace()
                return
            deadline = time.monotonic() + PATIENCE_S
            while not self._try():
                if time.monotonic() >= deadline:
                    holder = self.holder()
                    raise Held(
                        f"{self._path} is in use by another server: {holder}. Stop that one first; or take over its"
                        " rooms on purpose, with --takeover or Storage(…, takeover=True). `holdfast rooms list` and"
                        " `holdfast rooms export` can read it meanwhile",
                        holder,
                    )
                time.sleep(_RETRY_S)
        except OSError as error:
            raise Unavailable(
                f"{self._path}: it cannot be opened; check that this user may read and write it, and its folder"
                f" ({self._lock_path}: {error.strerror})"
            ) from error

    def look(self) -> None:
        """Log once if another server has taken over. A lock file that was merely deleted is created again."""
        if self._file < 0 or self._is_lost or self._is_in_place(self._file):
            return
        if self._lock_path.exists() or not self.has_it():
            self._is_lost = True
            log.error("another server took over this store: its rooms are no longer here", holder=self.holder())

    def has_it(self) -> bool:
        """Whether this server has the lock; a free one is taken again."""
        if sys.platform == "win32":
            return False
        try:
            return (self._file >= 0 and self._is_in_place(self._file)) or self._try()
        except OSError:
            return False

    def holder(self) -> str:
        """A description of the process that has the lock."""
        try:
            return str(msgspec.json.decode(self._lock_path.read_bytes(), type=Holder))
        except (OSError, ValueError):
            return "an unknown process"

    def release(self) -> None:
        """Release the lock."""
        if self._file < 0:
            return
        with suppress(OSError):
            if self._is_in_place(self._file):
                self._lock_path.unlink()
        self.let_go()

    def _try(self) -> bool:
        """Take the lock if it is free."""
        file = os.open(self._lock_path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its last holder may have removed or replaced it after we opened it.
            is_ours = self._is_in_place(file)
        except BlockingIOError:
            is_ours = False
        except BaseException:
            os.close(file)
            raise
        if not is_ours:
            os.close(file)
            return False
        self.let_go()
        self._file = file
        self._is_lost = False
        self._sign()
        return True

    def _replace(self) -> None:
        """Replace another server's lock with our own."""
        draft = Path(f"{self._lock_path}.{os.getpid()}")
        draft.unlink(missing_ok=True)
        file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._file = file
        self._sign()
        draft.replace(self._lock_path)

    def _sign(self) -> None:
        holder = Holder(os.getpid(), time.time(), socket.gethostname())
        with suppress(OSError):  # the disk is full: the lock works without the name
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, msgspec.json.encode(holder), 0)

    def _is_in_place(self, file: int) -> bool:
        try:
            found = self._lock_path.stat()
        except FileNotFoundError:
            return False
        ours = os.fstat(file)
        return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)

    def let_go(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


_locks: WeakSet[ServerLock] = WeakSet()


def _let_go_in_child() -> None:
    # Release the copies, or the locks would outlive the server.
    for lock in list(_locks):
        lock.let_go()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_let_go_in_child)


def _is_running(pid: int) -> bool:
    if sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


class NewestRevision:
    """The note of the newest revision beside one store."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._note_path = Path(f"{path.resolve()}.newest")
        self._noted = 0

    def check(self, found: int, *, is_new: bool) -> None:
        """Log an error if an existing store has less than was noted; from now on its own revision counts."""
        noted = self._read()
        if noted > found and is_new:
            log.warning(
                "this store is new, but a server has written to one of this name before: was it deleted or moved?",
                store=str(self._path),
                last_revision=noted,
            )
        elif noted > found:
            log.error(
                "this store is older than what a server last wrote to it: a backup was restored, or the disk lost "
                "writes. Players who know more than their rooms are notified (rolled_back)",
                store=str(self._path),
                last_revision=noted,
                found_revision=found,
            )
        self._noted = -1
        self.note(found)

    def note(self, revision: int) -> None:
        """Note the store's revision. A full disk loses the note, and nothing else."""
        if revision == self._noted:
            return
        self._noted = revision
        with suppress(OSError):
            file = os.open(self._note_path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                # Always of the same length, so that a reader never sees half of it.
                os.pwrite(file, f"{revision:0{_NOTE_DIGITS}}\n".encode(), 0)
            finally:
                os.close(file)

    def _read(self) -> int:
        try:
            return int(self._note_path.read_bytes()[:_NOTE_DIGITS])
        except (OSError, ValueError):
            return 0
