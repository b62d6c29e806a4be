"""All sessions of a node, found by id, by player and by connection; the three indexes always agree."""

from collections.abc import Iterator

from holdfast.core.by_player import ByPlayer
from holdfast.core.connection import Connection, ConnectionId
from holdfast.core.reasons import Reason
from holdfast.core.session import Session, SessionId, SessionState, SessionStep


class SessionRegistry:
    """The sessions by id, player and connection: attach and detach them only through this class."""

    def __init__(self) -> None:
        self._by_id: dict[SessionId, Session] = {}
        self._by_player: ByPlayer[Session] = ByPlayer()
        self._by_connection: dict[ConnectionId, Session] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Session]:
        """A copy: sessions may end during the iteration."""
        return iter(list(self._by_id.values()))

    def get(self, session_id: str) -> Session | None:
        return self._by_id.get(SessionId(session_id))

    def of_player(self, player_id: str) -> list[Session]:
        """The sessions of a player, oldest first."""
        return list(self._by_player.all(player_id))

    def name_of(self, player_id: str) -> str:
        """A player's display name: that of the newest session, or empty."""
        session = self._by_player.last(player_id)
        return session.name if session is not None else ""

    def of_connection(self, connection_id: str) -> Session | None:
        return self._by_connection.get(ConnectionId(connection_id))

    def add(self, session: Session, *, by_player: bool = True) -> None:
        """Add a session. Those of rooms' own agents are not found by player: every room may have a "bot"."""
        if session.id in self._by_id:
            raise ValueError(f"session {session.id} is already registered")
        self._by_id[session.id] = session
        if by_player:
            self._by_player.add(session.player_id, session)

    def attach(self, session: Session, connection: Connection, now: float) -> Connection | None:
        """Give the session a new connection; the one it replaces is returned."""
        if connection.id in self._by_connection:
            raise ValueError(f"connection {connection.id} is already attached to a session")
        old = session.attach(connection, now)
        if old is not None:
            self._by_connection.pop(old.id, None)
        self._by_connection[connection.id] = session
        return old

    def detach(self, connection: Connection, now: float) -> Session | None:
        """The connection is gone: its session, or None if it no longer had one (fenced, never signed in)."""
        session = self._by_connection.pop(connection.id, None)
        if session is not None:
            session.detach(now)
        return session

    def end(self, session: Session, reason: Reason) -> bool:
        """End the session and remove it; False if that has happened before."""
        if self._by_id.pop(session.id, None) is None:
            return False
        self._by_player.remove(session.player_id, session)
        if session.connection is not None:
            self._by_connection.pop(session.connection.id, None)
        expired = reason is Reason.GRACE_ENDED and session.state is SessionState.DISCONNECTED
        session.finish(SessionStep.EXPIRED if expired else SessionStep.ENDED, reason)
        return True
