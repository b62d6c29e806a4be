"""A disk that can be filled and freed: a small one of our own in memory if we may mount it, else a quota of nothing.

Or a NATS server that can be killed and started again.
"""

import errno
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from tests.nats_server import NatsServer

_DISK_MIB = 128
_CHUNK = bytes(64 * 1024)


def enter_namespace(module: str, words: Sequence[str], *, more: Sequence[str] = ()) -> bool:
    """Begin this program anew where it may mount a disk that nobody else sees; False if that is not permitted.

    `more` are options of `unshare`, as for a network of its own.
    """
    for options in (["--mount", *more], ["--mount", "--map-root-user", *more]):
        try:
            trial = [*("unshare", *options), "mount", "-t", "tmpfs", "tmpfs", tempfile.gettempdir()]
            subprocess.run(trial, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        os.execvp("unshare", ["unshare", *options, sys.executable, "-m", module, *words])  # noqa: S606, S607 - as above
    return False


class Disk:
    """Where the store is."""

    def __init__(self, folder: Path, *, is_own: bool) -> None:
        self.folder = folder
        self._is_own = is_own
        self._ballast = folder / "ballast"
        if is_own:
            mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MIB}m", "tmpfs", str(folder)]
            subprocess.run(mount, check=True)

    @property
    def store(self) -> str:
        """The store's URL."""
        return f"sqlite:{self._file}"

    @property
    def _file(self) -> Path:
        return self.folder / "storm.db"

    @property
    def manner(self) -> str:
        """How it is filled."""
        return "ballast" if self._is_own else "quota"

    def fill(self, pids: Sequence[int]) -> None:
        """Leave no byte of space; a quota is for these processes."""
        if not self._is_own:
            for pid in pids:
                _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
            return
        # A log that was long once has place for many commits: take it away first.
        with closing(sqlite3.connect(self._file, timeout=10.0)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self.top_up()

    def top_up(self) -> None:
        """Take what the store has given back since: it puts its log away when the disk is full."""
        if not self._is_own:
            return
        file = os.open(self._ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            while True:
                os.write(file, _CHUNK)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        finally:
            os.close(file)

    def free(self, pids: Sequence[int]) -> None:
        """Give the space back."""
        if not self._is_own:
            for pid in pids:
                _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
        self._ballast.unlink(missing_ok=True)

    def close(self) -> None:
        """Nothing on it is needed any more."""
        if self._is_own:
            subprocess.run(["umount", str(self.folder)], check=True)  # noqa: S607 - wherever the system has it


class NatsDisk:
    """A NATS server instead of a disk; instead of being full, it is killed, and started again."""

    manner = "nats"

    def __init__(self, folder: Path) -> None:
        self._server = NatsServer(folder)
        self._server.start()

    @property
    def store(self) -> str:
        """The store's URL."""
        return f"{self._server.url}/storm?monitor={self._server.monitor}"

    def fill(self, _: Sequence[int]) -> None:
        """Kill it: nothing can be saved."""
        self._server.kill()

    def top_up(self) -> None:
        """It stays away by itself."""

    def free(self, _: Sequence[int]) -> None:
        """It is back, with all that it had."""
        if not self._server.is_running:
            self._server.start()

    def close(self) -> None:
        """Nothing there is needed any more."""
        self._server.kill()
