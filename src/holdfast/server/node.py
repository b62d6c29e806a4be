"""One node: its sessions, rooms and connections, and the few moments at which they touch.

Everything here runs on one event loop and returns at once. Sessions change state only through the registry; what a
change means for the room, the connection and the timers is decided here, in one place.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from random import Random

from holdfast.core.connection import Connection, ConnectionId
from holdfast.core.limits import Limits
from holdfast.core.reasons import Reason
from holdfast.core.registry import SessionRegistry
from holdfast.core.session import Session
from holdfast.core.tokens import printable
from holdfast.identity.port import Authenticator
from holdfast.server.connection import LiveConnection
from holdfast.server.counters import Counters
from holdfast.server.directory import Directory
from holdfast.server.handshake import Handshake
from holdfast.server.requests import RequestDesk
from holdfast.server.writes import Writes

log = logging.getLogger("holdfast")

# A restart takes about this long; clients add their jitter.
_RETRY_AFTER_STOP_S = 1.0


class Node:
    """The shared ground of a server's parts."""

    def __init__(  # noqa: PLR0913 - one call site, all but the loop by keyword
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        authenticators: Mapping[str, Authenticator],
        limits: Limits,
        random: Random,
        grace_s: float,
        now: Callable[[], float],
    ) -> None:
        self._loop = loop
        self.now = now
        self.limits = limits
        self.random = random
        self.grace_s = grace_s
        self.counters = Counters()
        self.sessions = SessionRegistry()
        self.connections: dict[ConnectionId, LiveConnection] = {}
        self.writes = Writes(loop, ack_s=limits.ack_s)
        self.rooms = Directory(self, loop)
        self.handshake = Handshake(self, loop, authenticators)
        self.desk = RequestDesk(self, loop)
        self._name = printable(random.randbytes(6))
        self._connections_opened = 0
        self._graces: dict[Session, asyncio.TimerHandle] = {}
        self._links: set[LiveConnection] = set()
        self._all_unlinked: asyncio.Future[None] | None = None

    # Connections

    def accept(self) -> LiveConnection:
        """The receiver for a link that has just been opened. Its id is never used again, not even by a later node."""
        return LiveConnection(self, self.next_connection_id(), self.now())

    def next_connection_id(self) -> ConnectionId:
        """A fresh connection id."""
        self._connections_opened += 1
        return ConnectionId(f"{self._name}-{self._connections_opened}")

    def opened(self, connection: LiveConnection) -> None:
        """A link is up; strangers have `hello_s` to say who they are."""
        self.counters.connections += 1
        self._links.add(connection)
        if len(self.connections) >= self.limits.connections_max:
            self.counters.connections_refused += 1
            connection.close(Reason.BUSY, "this node is full", retry_after_s=self.limits.hello_s)
            return
        self.connections[connection.id] = connection
        self._loop.call_later(self.limits.hello_s, self.handshake.check_time, connection)

    def lost(self, connection: LiveConnection) -> None:
        """A connection is gone, or closing and deaf: if it spoke for a session, that has dropped."""
        self.connections.pop(connection.id, None)
        session = self.sessions.detach(connection, self.now())
        if session is not None:
            self._dropped(session)

    def unlinked(self, connection: LiveConnection) -> None:
        """A transport has ended: nothing of this connection is left."""
        self._links.discard(connection)
        if self._all_unlinked is not None and not self._links:
            self._all_unlinked.set_result(None)

    def connection_of(self, session: Session) -> LiveConnection | None:
        """The connection to write to, if the session has one that is a wire and not an agent."""
        connection = session.connection
        return connection if isinstance(connection, LiveConnection) else None

    # Sessions

    def supersede(self, old: Connection, session: Session) -> None:
        """A newer connection speaks for the session: the old one is told and has no more say."""
        self.counters.takeovers += 1
        session.drops += 1
        if isinstance(old, LiveConnection):
            old.session = None
            old.close(Reason.SUPERSEDED, "this session continues on a newer connection")
        self._tell_drop(session)

    def _dropped(self, session: Session) -> None:
        self.counters.drops += 1
        self.desk.dropped(session)
        self._tell_drop(session)
        self._await_return(session)

    def _tell_drop(self, session: Session) -> None:
        if session.on_disconnect is not None:
            try:
                session.on_disconnect(session)
            except Exception as error:  # noqa: BLE001 - logged, counted, contained
                self.internal_error(f"on_disconnect of session {session.id}", error)
        if session.player is not None:
            self.rooms.host_of(session.player).dropped(session.player)

    def _await_return(self, session: Session) -> None:
        if session.expires_at is not None:
            self._graces[session] = self._loop.call_at(session.expires_at, self._check_grace, session)

    def returned(self, session: Session) -> None:
        """The grace is over: the player is back, or there is nothing to come back to."""
        timer = self._graces.pop(session, None)
        if timer is not None:
            timer.cancel()

    def _check_grace(self, session: Session) -> None:
        if session.has_expired(self.now()):
            self.end_session(session, Reason.GRACE_ENDED)
        else:
            # Early, by the resolution of the timer.
            self._await_return(session)

    def end_session(self, session: Session, reason: Reason, message: str = "") -> None:
        """The end of a session, whatever the cause; its seat is freed and its token is dead."""
        connection = self.connection_of(session)
        if not self.sessions.end(session, reason):
            return
        self.returned(session)
        self.counters.sessions_ended += 1
        if session.player is not None:
            host = self.rooms.host_of(session.player)
            if reason is Reason.BYE:
                host.leave(session.player)
            else:
                host.free(session.player, reason, message)
        if connection is not None:
            connection.close(reason if reason in _CLOSING else Reason.ENDED, message)

    async def stop(self) -> None:
        """End the rooms, then the connections, and see their links out."""
        await self.handshake.stop()
        await self.desk.stop()
        await self.rooms.close_all(self.limits.close_s)
        closing = list(self.connections.values())
        for connection in closing:
            connection.close(Reason.STOPPING, "the server is stopping", retry_after_s=_RETRY_AFTER_STOP_S)
        for session in self.sessions:
            self.end_session(session, Reason.STOPPING)
        if self._links:
            self._all_unlinked = self._loop.create_future()
            await self._all_unlinked

    # `SessionCommands`: what games and operators may ask of a session

    def disconnect(self, session: Session, reason: str) -> None:
        """Close the session's connection; the player may come back."""
        connection = self.connection_of(session)
        if connection is not None:
            connection.close(Reason.DISCONNECTED, reason)

    def end(self, session: Session, reason: str) -> None:
        """End the session for good."""
        self.end_session(session, Reason.KICKED, reason)

    def overflowed(self, session: Session) -> None:
        """More piled up for a client than may be kept: it will be resynced when it resumes."""
        self.counters.streams_overflowed += 1
        log.warning("session %s: more messages wait for it than may be kept; it will be resynced", session.id)
        connection = self.connection_of(session)
        if connection is not None:
            connection.close(Reason.SLOW, "too many messages are waiting for you; resume for the current state")

    def internal_error(self, where: str, error: Exception) -> None:
        """Something of ours raised: logged once with its traceback, counted, contained."""
        self.counters.internal_errors += 1
        log.error("internal error: %s", where, exc_info=error)


# Reasons of a session's end that its connection is closed with as they are.
_CLOSING = frozenset({Reason.BYE, Reason.KICKED, Reason.SUPERSEDED, Reason.TOKEN_REUSED, Reason.STOPPING})
