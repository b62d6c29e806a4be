"""A saved session: the state that a client needs to continue it in another process, and where that is kept."""

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol, Self

import msgspec

from holdfast.core.codec import DECODE_ERRORS
from holdfast.core.errors import Conflict, Invalid
from holdfast.schemas.frames import HidesSecrets, Number, Position

try:
    import fcntl
except ImportError:  # Windows has no such locks: there nothing notices that two processes share a saved session.
    fcntl = None  # type: ignore[assignment]


class SavedChannel(msgspec.Struct, frozen=True):
    """One channel: how far its inward stream was processed, and what the server has not acknowledged."""

    number: Number
    generation: Number
    received: Number
    last_seq: Number
    room: str
    kind: str
    outbox: list[tuple[str, bytes]]
    # Whether the stream was restarted and the reader does not know yet.
    is_restarted: bool = False
    purpose: str = "seat"
    # Whether the room shares its state with us: it is not saved, so the next process asks for it.
    is_sharing: bool = False

    def __repr__(self) -> str:
        return f"SavedChannel({self.number}.{self.generation}, in {self.received}, out {self.last_seq})"


class SavedState(HidesSecrets, msgspec.Struct, frozen=True):
    """A whole session. It holds secrets: keep it like a password."""

    shown = ("session", "player", "channels")
    codec: str = msgspec.field(name="dialect")
    session: str
    token: str
    player: str
    scheme: str
    credential: str
    channels: list[SavedChannel]
    finished: list[Position]
    # Of the last welcome: which history the positions belong to, and the highest request that was answered.
    lineage: str = ""
    requests: Number = 0
    # By purpose, the number of the newest channel, which may be over.
    newest: dict[str, Number] = {}
    name: str = ""

    @classmethod
    def read(cls, state: bytes) -> Self:
        """What `write` wrote; `Invalid` if it is anything else."""
        try:
            saved = msgspec.msgpack.decode(state, type=cls)
        except DECODE_ERRORS as error:
            raise Invalid(f"this is not a saved session: {error}") from None
        if any(len(channel.outbox) > channel.last_seq for channel in saved.channels):
            raise Invalid("this is not a saved session: it keeps more messages than it has sent")
        return saved

    def write(self) -> bytes:
        return msgspec.msgpack.encode(self)


class SessionStorage(Protocol):
    """What `connect(url, saved=…)` needs of a place of your own. What a call has written is there when it returns.

    Raise `OSError` if it cannot be read or written. While `append` or `replace` raises, that or anything else, nothing
    is sent, and both are tried again; what is saved stays. Whatever is written holds secrets: keep it like a password.
    """

    def read(self) -> bytes:
        """The last state and everything that was appended since; empty if there is nothing."""

    def append(self, record: bytes) -> None:
        """Add to what is there. A record of which only a part was written, at the end, is passed over later."""

    def replace(self, state: bytes) -> None:
        """Write this instead of everything that is there: afterwards all of it is there, or all that was before."""

    def remove(self) -> None:
        """Forget everything: the session is over."""

    def close(self) -> None:
        """Let go of the place: this process is done with it."""


class SessionFile:
    """A file that only its owner can read, and only one process at a time uses.

    What was written survives a killed process. It is not forced to the disk: after a power cut the file may be a few
    seconds old. If the client has not reconnected since, it resumes. If it has, the old token counts as stolen: the
    session ends, and you sign in again (`reset`, `token_reused`).
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        # A file of its own, because the session's file is replaced. It is never deleted: others may wait for its lock.
        self._lock = _open(self._path.with_name(self._path.name + ".lock"))
        self._file: BinaryIO | None = None
        try:
            if fcntl is not None:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise Conflict(
                f"the saved session {str(self._path)!r} is in use: end the session that has it, or use another file"
            ) from None

    def read(self) -> bytes:
        with suppress(FileNotFoundError):
            return self._path.read_bytes()
        return b""

    def append(self, record: bytes) -> None:
        if self._file is None:
            self._file = _open(self._path)
        if self._file.write(record) != len(record):
            raise OSError(f"{str(self._path)!r} takes no more: is the disk full?")

    def replace(self, state: bytes) -> None:
        draft = self._path.with_name(self._path.name + ".draft")
        draft.unlink(missing_ok=True)
        file = _open(draft)
        try:
            if file.write(state) != len(state):
                raise OSError(f"{str(draft)!r} takes no more: is the disk full?")
            draft.replace(self._path)
        except BaseException:
            file.close()
            raise
        self._forget_file()
        # The same file, under its new name.
        self._file = file

    def remove(self) -> None:
        self._forget_file()
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        self._forget_file()
        self._lock.close()

    def _forget_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _open(path: Path) -> BinaryIO:
    # Without a buffer: what is written must be the kernel's before the next byte goes to the server.
    return open(path, "ab", buffering=0, opener=lambda name, flags: os.open(name, flags, 0o600))
