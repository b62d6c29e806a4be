"""The sessions that are kept: which they are, where they are at home, and what of them the store has not heard yet."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.core.errors import Refused
from holdfast.core.session import Session
from holdfast.server.durability.bundles import SessionWriter
from holdfast.server.durability.room_writer import RoomWriter

if TYPE_CHECKING:
    from holdfast.server.node import Node


class SessionBook(ABC):
    """The half of the ledger that knows sessions."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._keeps: dict[Session, SessionWriter] = {}
        self._dirty_sessions: dict[SessionWriter, None] = {}

    @abstractmethod
    def mark(self, writer: RoomWriter) -> None:
        """Save a room with the next commit."""

    @abstractmethod
    async def saved(self, writer: RoomWriter) -> None:
        """Save a room as it is, and wait until the store has it."""

    @abstractmethod
    def _has(self, writer: RoomWriter) -> bool:
        """Whether a room is kept."""

    @abstractmethod
    def _schedule(self) -> None:
        """There is something to write."""

    def __contains__(self, session: Session) -> bool:
        return session in self._keeps

    def keep_of(self, session: Session) -> SessionWriter | None:
        """What is kept of a session; None if it is not durable."""
        return self._keeps.get(session)

    def adopt(self, session: Session, home: RoomWriter | None, revision: int = 0) -> SessionWriter:
        """The session has its seat in a durable room (or came back from the store): it lasts until it ends."""
        keep = self._keeps.get(session)
        if keep is None:
            keep = self._keeps[session] = SessionWriter(session, revision)
        keep.home = home
        keep.is_ended = False
        return keep

    async def settled(self, session: Session) -> None:
        """Wait until the room that the session has just left is saved without it."""
        keep = self._keeps.get(session)
        home = keep.home if keep is not None else None
        if home is not None and self._has(home) and session.player is None:
            with contextlib.suppress(Refused):
                await self.saved(home)

    def moved(self, session: Session) -> None:
        """The session took or left a seat of its home."""
        keep = self._keeps.get(session)
        if keep is not None:
            keep.is_moved = True
            if keep.home is not None:
                self.mark(keep.home)
            self._mark_session(keep)

    def hold(self, session: Session) -> None:
        """The session changed, and its client may hear of it only when that is saved."""
        keep = self._keeps.get(session)
        if keep is None:
            return
        connection = self._node.connection_of(session)
        if connection is not None and connection is not keep.held:
            connection.hold()
            keep.held = connection
        self._mark_session(keep)

    def changed(self, session: Session) -> None:
        """Save the session with the next commit, together with whatever its client says meanwhile."""
        keep = self._keeps.get(session)
        if keep is not None:
            self._mark_session(keep)

    def ended(self, session: Session) -> None:
        """The session is over, or its seat is in a memory room: nothing of it need last."""
        keep = self._keeps.get(session)
        if keep is not None:
            keep.is_ended = keep.is_moved = True
            if keep.home is not None:
                self.mark(keep.home)
            self._mark_session(keep)

    def close_after(self, session: Session, close: Callable[[], None]) -> None:
        """Close the connection of a session that ended, once the store has heard of it."""
        self._keeps[session].close = close

    def forget(self, session: Session) -> None:
        """The session was not brought back after all: the store keeps what it has."""
        keep = self._keeps.pop(session, None)
        if keep is not None:
            self._dirty_sessions.pop(keep, None)

    def _mark_session(self, keep: SessionWriter) -> None:
        if keep not in self._dirty_sessions:
            self._dirty_sessions[keep] = None
            self._schedule()
