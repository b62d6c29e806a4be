"""The batches of one commit, and the store's answers: each batch is written, to be repeated, or fenced (R4)."""

import asyncio
from dataclasses import dataclass, field

from holdfast.core.limits import Limits
from holdfast.server.durability.room_writer import RoomWriter
from holdfast.server.durability.session_writers import SessionWriter
from holdfast.stores.port import ABSENT, Entry, RevisionConflict, Store, Unavailable, Unknown, Write


class PendingBatch:
    """One room and its sessions, or one session alone: written whole, or not at all."""

    __slots__ = ("_room_writes", "room", "sessions", "writes")

    def __init__(self, room: RoomWriter | None, writes: list[Write]) -> None:
        self.room = room
        self.writes = writes
        self._room_writes = len(writes)
        self.sessions: list[tuple[SessionWriter, int]] = []

    @property
    def size(self) -> int:
        """The bytes to write."""
        return sum(len(write.value) for write in self.writes if write.value is not None)

    def add(self, session: SessionWriter) -> None:
        """Save a session in the same batch."""
        writes = session.cut()
        self.writes += writes
        self.sessions.append((session, len(writes)))

    def committed(self, revisions: list[int]) -> None:
        """The store has it all. The room first: its messages and the replies to its sessions are flushed together."""
        if self.room is not None:
            self.room.committed(revisions[: self._room_writes])
        position = self._room_writes
        for session, writes in self.sessions:
            session.committed(revisions[position] if writes else ABSENT)
            position += writes

    def fenced(self, found: list[int]) -> "Fenced":
        """Another server has written something of this batch, given the revisions that the store has now."""
        is_ours = [revision == write.revision for revision, write in zip(found, self.writes, strict=True)]
        sessions: list[SessionWriter] = []
        position = self._room_writes
        for session, count in self.sessions:
            if not all(is_ours[position : position + count]):
                sessions.append(session)
            position += count
        return Fenced(sessions, is_room_ours=all(is_ours[: self._room_writes]))


@dataclass(frozen=True, slots=True)
class Committed:
    """The store has the batch, at these revisions."""

    revisions: list[int]


@dataclass(frozen=True, slots=True)
class Fenced:
    """Another server has written these sessions, or the room."""

    sessions: list[SessionWriter]
    is_room_ours: bool


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one call of the store has made of batches."""

    committed: list[tuple[PendingBatch, list[int]]] = field(default_factory=list)
    not_written: list[PendingBatch] = field(default_factory=list)
    """To be written again, unchanged."""
    unclear: list[PendingBatch] = field(default_factory=list)
    """To be read back: there was no answer, or a conflict, perhaps with an earlier attempt that had no answer."""
    error: Unavailable | Unknown | None = None
    """Why the store has taken nothing, or may have."""


class StoreWriter:
    """Writes batches, and reads back those of which the outcome is not known."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store = store
        self._timeout_s = limits.commit_timeout_s

    async def write(self, batches: list[PendingBatch]) -> Attempt:
        """Write all batches with one call; `Broken` if what was written before may be lost."""
        try:
            async with asyncio.timeout(self._timeout_s):
                results = await self._store.commit([batch.writes for batch in batches])
        except Unavailable as error:
            return Attempt(not_written=batches, error=error)
        except Unknown as error:
            return Attempt(unclear=batches, error=error)
        except TimeoutError:
            return Attempt(unclear=batches, error=Unknown("it does not answer"))
        attempt = Attempt()
        for batch, result in zip(batches, results, strict=True):
            if isinstance(result, RevisionConflict):
                attempt.unclear.append(batch)
            else:
                attempt.committed.append((batch, result))
        return attempt

    async def read_back(self, batch: PendingBatch) -> Committed | Fenced | None:
        """What became of a batch: None if it was not written. `Unavailable` and `Unknown` if the store cannot tell."""
        entries = [await self._get(write.key) for write in batch.writes]
        values = [entry.value if entry is not None else None for entry in entries]
        revisions = [entry.revision if entry is not None else ABSENT for entry in entries]
        if values == [write.value for write in batch.writes]:
            return Committed(revisions)
        if revisions == [write.revision for write in batch.writes]:
            return None
        return batch.fenced(revisions)

    async def _get(self, key: str) -> Entry | None:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._store.get(key)
        except TimeoutError:
            raise Unknown("it does not answer") from None
