"""What one commit tells the store: for each room that changed, the room, its sessions and its outside effects."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.core.channel import Channel
from holdfast.core.errors import NotFound, Refused
from holdfast.core.records import encode, session_key
from holdfast.core.saving import channel_record, session_record
from holdfast.core.session import Session
from holdfast.schemas.session import ChannelRecord
from holdfast.server.durability.gate import GatedOutlet
from holdfast.server.durability.room_writer import RoomWriter
from holdfast.stores.port import ABSENT, Write

if TYPE_CHECKING:
    from holdfast.server.connection.connection import LiveConnection


class SessionWriter:
    """What the store has of one session."""

    __slots__ = (
        "_end_waiters",
        "_leaving",
        "close",
        "held",
        "home",
        "is_ended",
        "is_gone",
        "is_moved",
        "outlets",
        "revision",
        "session",
    )

    def __init__(self, session: Session, revision: int) -> None:
        self.session = session
        self.revision = revision
        self.home: RoomWriter | None = None
        """The durable room it has its seat in, or has just left."""
        self.is_moved = False
        """It took or left a seat: the store must hear of the room and the session in one breath."""
        self.is_ended = False
        self.is_gone = False
        """The store is being told of its end, or has been."""
        self.held: LiveConnection | None = None
        """Who may not be written to before the next commit."""
        self._leaving: LiveConnection | None = None
        self.close: Callable[[], None] | None = None
        """What is left to do when the store has heard of its end."""
        self._end_waiters: list[asyncio.Future[None]] = []
        self.outlets: list[GatedOutlet] = []
        """Of the seat, and of former ones whose last messages are on their way."""

    def write(self) -> list[Write]:
        """What the store must be told."""
        key = session_key(self.session.id)
        if self.is_ended or not self.is_at_the_door:
            self._leaving, self.held = self.held, None
        self.is_gone = self.is_ended
        if self.is_ended:
            return [Write(key, None, self.revision)] if self.revision != ABSENT else []
        session = self.session
        channels = list(session.channels())
        self.outlets = [outlet for outlet in self.outlets if outlet.channel in channels]
        room_id = self.home.room_id if self.home is not None and self.home.has_seat_of(session) else ""
        if session.player is None:
            self.home = None
        closing = [self._record(channel) for channel in session.closing]
        return [Write(key, encode(session_record(session, room_id, closing)), self.revision)]

    @property
    def is_at_the_door(self) -> bool:
        """Whether it has a seat that its room has not heard of: that is not saved yet, and its client must wait."""
        home, session = self.home, self.session
        return home is not None and session.player is not None and not home.has_seat_of(session)

    def _record(self, channel: Channel) -> ChannelRecord:
        outlet = next((outlet for outlet in self.outlets if outlet.channel is channel), None)
        return outlet.record() if outlet is not None else channel_record(channel)

    def committed(self, revision: int) -> None:
        """The store has it: its client may hear of it."""
        self.revision = revision
        leaving, self._leaving = self._leaving, None
        if leaving is not None:
            leaving.release()
        if self.is_gone:
            self._close(None)

    def lost(self) -> None:
        """Another has written it: if it had ended here, the store will not hear of that from us."""
        self._close(NotFound("another server has this session"))

    def _close(self, error: Refused | None) -> None:
        if self.close is not None:
            self.close()
        for waiter in self._end_waiters:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
        self._end_waiters.clear()

    async def ended(self) -> None:
        """Wait until the session, which has ended here, has no record any more."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._end_waiters.append(ended)
        await ended


class Bundle:
    """One batch: written whole, or not at all."""

    __slots__ = ("_room_writes", "sessions", "writer", "writes")

    def __init__(self, writer: RoomWriter | None, writes: list[Write]) -> None:
        self.writer = writer
        self.writes = writes
        self._room_writes = len(writes)
        self.sessions: list[tuple[SessionWriter, int]] = []

    @property
    def size(self) -> int:
        """The bytes to write."""
        return sum(len(write.value) for write in self.writes if write.value is not None)

    def add(self, keep: SessionWriter) -> None:
        """The session goes along."""
        # A seat that the room has not heard of is not in its record: the session must not be alone in knowing it.
        keep.is_moved = keep.is_at_the_door
        writes = keep.write()
        self.writes += writes
        self.sessions.append((keep, len(writes)))

    def has_room(self, revisions: list[int]) -> bool:
        """Whether the room is as we know it: then only a session of it was written by another."""
        room = zip(revisions[: self._room_writes], self.writes, strict=False)
        return all(revision == write.revision for revision, write in room)

    def lost_sessions(self, revisions: list[int]) -> list[SessionWriter]:
        """Those that another has written."""
        lost: list[SessionWriter] = []
        position = self._room_writes
        for keep, count in self.sessions:
            written = zip(revisions[position : position + count], self.writes[position : position + count], strict=True)
            if any(revision != write.revision for revision, write in written):
                lost.append(keep)
            position += count
        return lost

    def committed(self, revisions: list[int]) -> None:
        """The store has it all. The room first: what it lets out is written to its clients together with the rest."""
        if self.writer is not None:
            self.writer.committed(revisions[: self._room_writes])
        position = self._room_writes
        for keep, writes in self.sessions:
            keep.committed(revisions[position] if writes else ABSENT)
            position += writes
