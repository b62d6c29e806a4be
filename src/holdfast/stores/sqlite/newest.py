"""The newest revision that a server has assigned, noted beside the file: a file with an older one was set back.

A restored backup, or a disk that lost writes, cannot be recognised from the file itself. The note (`game.db.newest`) is
written a few times a second, and nothing waits for it: it may lag behind, but is never ahead.
"""

import os
from contextlib import suppress
from pathlib import Path

from holdfast.logs import get_logger

log = get_logger("holdfast.stores")

_DIGITS = 20


class NewestRevision:
    """The note beside one store."""

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
                os.pwrite(file, f"{revision:0{_DIGITS}}\n".encode(), 0)
            finally:
                os.close(file)

    def _read(self) -> int:
        try:
            return int(self._note_path.read_bytes()[:_DIGITS])
        except (OSError, ValueError):
            return 0
