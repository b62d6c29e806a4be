"""The transitions of a session between its start and its end, and the order in which parts of the server handle them.

The lists of listeners are filled where the server is composed: a drop or an end takes effect in their order. A
listener returns at once and does not raise.
"""

from collections.abc import Callable

from holdfast.core.addresses import AddressQuota, AddressShares
from holdfast.core.connection import Connection
from holdfast.core.reasons import Reason
from holdfast.core.registry import SessionRegistry
from holdfast.core.session import Session
from holdfast.schemas.events import Dropped, Ended, Released, SessionResynced, Superseded
from holdfast.schemas.frames import sentence
from holdfast.server.context import Context
from holdfast.server.sessions.graces import Graces

RETRY_AFTER_STOP_S = 1.0
"""A restart takes about this long; clients add their jitter."""


class SessionLifecycle:
    """Carries out transitions of sessions."""

    def __init__(self, context: Context, shares: AddressShares) -> None:
        self._clock = context.clock
        self._limits = context.limits
        self._publish = context.publish
        self._counters = context.counters
        self._faults = context.faults
        self.registry = SessionRegistry()
        self.quota: AddressQuota[Session] = AddressQuota(shares)
        """Counted by the address at which each session began."""
        self.graces = Graces(context.clock, lambda session: self.end_session(session, Reason.GRACE_ENDED))
        # One object for all sessions: reading `self.end_session` makes a new one each time.
        self._ends = self.end_session
        self.on_drop: list[Callable[[Session], None]] = []
        """A connection was lost."""
        self.on_detach: list[Callable[[Session], None]] = []
        """A session has lost its connection, or a newer one took over: whatever belonged to the old one is invalid."""
        self.on_end: list[Callable[[Session, Reason, str], None]] = []
        """A session ended for good: its seat is freed, its token is invalid."""
        self.on_release: list[Callable[[Session], None]] = []
        """This server forgets a session that lives on in the store."""
        self.close_connection: Callable[[Session, Connection, Reason, str], None] = _close
        """Closes the connection of an ended session: at once, unless the end has to be saved first."""

    def add(self, session: Session) -> None:
        """A session begins, or is restored."""
        session.ends = self._ends
        self.registry.add(session)

    # Connections

    def lost(self, connection: Connection) -> None:
        """A connection is gone, or closing and no longer read: its session, if it is still attached, has dropped."""
        session = self.registry.detach(connection, self._clock.now())
        if session is not None:
            self._dropped(session, connection)

    def _dropped(self, session: Session, connection: Connection) -> None:
        self._counters.drops += 1
        session.drop_reason = connection.end_reason if connection.end_reason is not Reason.DROPPED else None
        self._publish(_drop_of(session, connection, self._clock.now()))
        for heard in self.on_drop:
            heard(session)
        self._detached(session)
        self.graces.begin(session)

    def supersede(self, old: Connection, session: Session) -> None:
        """A newer connection continues the session: notify and close the old one."""
        self._counters.takeovers += 1
        session.drops += 1
        old.forget_session()
        old.close(Reason.SUPERSEDED, "this session continues on a newer connection")
        self._publish(Superseded(session=session.id, player=session.player_id, connection=old.id))
        self._detached(session)

    def _detached(self, session: Session) -> None:
        if session.on_disconnect is not None:
            try:
                session.on_disconnect(session)
            except Exception as error:  # noqa: BLE001 - logged, counted, contained
                self._faults.report("on_disconnect of a session", error, session=session.id)
        for heard in self.on_detach:
            heard(session)

    def overflowed(self, session: Session) -> None:
        """A client's outgoing messages exceed the limit: it will be resynced when it resumes."""
        self._counters.streams_overflowed += 1
        self._publish(SessionResynced(session=session.id, player=session.player_id))
        if session.connection is not None:
            message = "too many messages are waiting for you; resume for the current state"
            session.connection.close(Reason.SLOW, message)

    def turn_away(self, connection: Connection) -> None:
        """The store fails: the client may return when it works again."""
        message = "the server cannot save at the moment"
        connection.close(Reason.BUSY, message, retry_after_s=self._limits.store_patience_s)

    # The end

    def end_session(self, session: Session, reason: Reason, message: str = "") -> None:
        """End a session for good, whatever the cause."""
        connection = session.connection
        if not self.registry.end(session, reason):
            return
        self.quota.give_back(session)
        self.graces.cancel(session)
        self._counters.sessions_ended += 1
        for heard in self.on_end:
            heard(session, reason, message)
        self._publish(Ended(session=session.id, player=session.player_id, reason=reason, message=sentence(message)))
        if connection is not None:
            self.close_connection(session, connection, reason, message)

    def release(self, session: Session, reason: Reason) -> None:
        """Forget a session that lives on in the store."""
        connection = session.connection
        if not self.registry.end(session, reason):
            return
        self.quota.give_back(session)
        self.graces.cancel(session)
        for heard in self.on_release:
            heard(session)
        self._publish(Released(session=session.id, player=session.player_id, reason=reason))
        if connection is not None:
            connection.forget_session()
            connection.close(reason, retry_after_s=RETRY_AFTER_STOP_S)

    def restore(self, session: Session) -> None:
        """A session was restored from the store: its player has a new grace to return."""
        self.add(session)
        self.quota.take(session, session.address)
        if session.signed_in_at:
            # Its age counts from its start on the first server.
            session.created_at = self._clock.now() - max(0.0, self._clock.wall_clock() - session.signed_in_at)
        session.restored(self._clock.now())
        self.graces.begin(session)


def _close(_session: Session, connection: Connection, reason: Reason, message: str) -> None:
    connection.close(reason, message)


def _drop_of(session: Session, connection: Connection, now: float) -> Dropped:
    latency = session.latency
    return Dropped(
        session=session.id,
        player=session.player_id,
        connection=connection.id,
        reason=connection.end_reason or Reason.DROPPED,
        grace_s=session.grace_s,
        silent_s=round(now - connection.heard_at, 3),
        pings=connection.pings_unanswered,
        latency_ms=round(latency.smoothed_ms, 3),
        last_ms=round(latency.last_ms, 3),
        worst_ms=round(latency.worst_ms, 3),
        code=connection.end_code,
    )
