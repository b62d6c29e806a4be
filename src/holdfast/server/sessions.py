"""Sessions on this server: their transitions between start and end, their graces, and what a store adds to them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from holdfast.core.addresses import AddressQuota, AddressShares
from holdfast.core.connection import Connection
from holdfast.core.messages import Message
from holdfast.core.reasons import Reason
from holdfast.core.registry import SessionRegistry
from holdfast.core.session import SESSION_ID_BYTES, PlayerId, Session, SessionId
from holdfast.core.tokens import new_id
from holdfast.schemas.events import Dropped, Ended, Released, SessionResynced, Superseded
from holdfast.schemas.frames import Notice, Purpose, sentence
from holdfast.schemas.placement import PlacementInfo
from holdfast.schemas.player import WaitInfo
from holdfast.schemas.room import RoomInfo, RoomsChanged
from holdfast.schemas.session import Stopping
from holdfast.server.context import Clock, Context, Deadlines

RETRY_AFTER_STOP_S = 1.0
"""A restart takes about this long; clients add their jitter."""
# While the store fails, graces without a length are renewed this often.
_RENEWED_S_MIN = 1.0


class Graces:
    """Ends the sessions whose players did not return in time."""

    def __init__(self, clock: Clock, registry: SessionRegistry, end: Callable[[Session], None]) -> None:
        self._now = clock.now
        self._registry = registry
        self._end = end
        self._deadlines = Deadlines(clock, self._has_expired, self._reached)
        self.stop = self._deadlines.stop
        self.may_end: Callable[[Session], bool] = lambda _: True
        """Whether players can return now: they cannot while the store fails."""

    def begin(self, session: Session) -> None:
        """End the session at `expires_at`, unless its player returns or that time changes."""
        if session.expires_at is not None:
            self._deadlines.add(session.expires_at, session.id)

    def renew(self, session: Session, *, least_s: float = 0.0) -> None:
        """Restart the grace of a disconnected session."""
        if session.expires_at is not None:
            session.expires_at = self._now() + max(session.grace_s, least_s)
            self.begin(session)

    def _has_expired(self, at: float, session_id: str) -> bool:
        session = self._registry.get(session_id)
        return session is not None and session.has_expired(at)

    def _reached(self, session_id: str) -> None:
        session = self._registry.get(session_id)
        assert session is not None
        if self.may_end(session):
            self._end(session)
        else:
            self.renew(session, least_s=_RENEWED_S_MIN)


class SessionLifecycle:
    """Carries out transitions of sessions.

    The lists of listeners are filled where the server is composed: a drop or an end takes effect in their order. A
    listener returns at once and does not raise.
    """

    def __init__(self, context: Context, shares: AddressShares) -> None:
        self._clock = context.clock
        self._limits = context.limits
        self._publish = context.publish
        self._counters = context.counters
        self._faults = context.faults
        self._random = context.random
        self.registry = SessionRegistry()
        self.quota: AddressQuota[Session] = AddressQuota(shares)
        """Counted by the address at which each session began."""
        self.graces = Graces(
            context.clock, self.registry, lambda session: self.end_session(session, Reason.GRACE_ENDED)
        )
        # One object for all sessions: reading `self.end_session` makes a new one each time.
        self._ends = self.end_session
        self.on_prove: list[Callable[[Session], None]] = []
        """The roles of a session were proven: it begins, is restored, or its player has an account now."""
        self.sends: Callable[[Session, Message], bool] | None = None
        """How `Session.send` is carried out."""
        self.on_move: list[Callable[[Session], None]] = []
        """A session took or lost a seat, or a place as a spectator."""
        self.on_drop: list[Callable[[Session], None]] = []
        """A connection was lost."""
        self.on_detach: list[Callable[[Session], None]] = []
        """A session has lost its connection, or a newer one took over: whatever belonged to the old one is invalid."""
        self.on_end: list[Callable[[Session, Reason, str], None]] = []
        """A session ended for good: its seat is freed, its token is invalid."""
        self.on_release: list[Callable[[Session], None]] = []
        """This server forgets a session that lives on in the store."""
        self.postpones: Callable[[Session, Reason, str], bool] = _never
        """Whether a session may not end now, because another node is about to have it; its end follows."""
        self.close_connection: Callable[[Session, Connection, Reason, str], None] = _close
        """Closes the connection of an ended session: at once, unless the end has to be saved first."""

    def add(self, session: Session, *, by_player: bool = True) -> None:
        """A session begins, or is restored; `by_player` if it can be found by its player."""
        session.ends = self._ends
        session.sends = self.sends
        self.prove(session, session.proven_roles)
        self.registry.add(session, by_player=by_player)

    def prove(self, session: Session, roles: frozenset[str]) -> None:
        """The session's authenticator, or the game that opened the agent, says that it has these roles."""
        session.proven_roles = roles
        for heard in self.on_prove:
            heard(session)

    def moved(self, session: Session) -> None:
        """The session took or lost a seat, or a place as a spectator."""
        for heard in self.on_move:
            heard(session)

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

    def supersede(self, old: Connection, session: Session, *, is_moving: bool = False) -> None:
        """A newer connection continues the session: notify and close the old one. If the client only moves from one to
        the other, nobody hears of a drop."""
        self._counters.takeovers += 1
        session.drops += not is_moving
        old.forget_session()
        old.close(Reason.SUPERSEDED, "this session continues on a newer connection")
        self._publish(
            Superseded(session=session.id, player=session.player_id, player_name=session.name, connection=old.id)
        )
        before = session.drop_reason
        if is_moving:
            session.drop_reason = Reason.MOVED
        self._detached(session, is_moving=is_moving)
        session.drop_reason = before

    def _detached(self, session: Session, *, is_moving: bool = False) -> None:
        if session.on_disconnect is not None and not is_moving:
            try:
                session.on_disconnect(session)
            except Exception as error:  # noqa: BLE001 - logged, counted, contained
                self._faults.report("on_disconnect of a session", error, session=session.id)
        for heard in self.on_detach:
            heard(session)

    def overflowed(self, session: Session) -> None:
        """A client's outgoing messages exceed the limit: it will be resynced when it resumes."""
        self._counters.streams_overflowed += 1
        self._publish(SessionResynced(session=session.id, player=session.player_id, player_name=session.name))
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
        if self.postpones(session, reason, message):
            return
        connection = session.connection
        if not self.registry.end(session, reason):
            return
        self.quota.give_back(session)
        self._counters.sessions_ended += 1
        for heard in self.on_end:
            heard(session, reason, message)
        self._publish(
            Ended(
                session=session.id,
                player=session.player_id,
                player_name=session.name,
                reason=reason,
                message=sentence(message),
                duration_s=round(self._clock.now() - session.created_at, 3),
            )
        )
        if connection is not None:
            self.close_connection(session, connection, reason, message)

    def release(self, session: Session, reason: Reason) -> None:
        """Forget a session that lives on in the store."""
        connection = session.connection
        if self._forget(session, reason) and connection is not None:
            connection.close(reason, retry_after_s=RETRY_AFTER_STOP_S)

    def give_away(self, session: Session, node: str) -> None:
        """Forget a session that lives on on another node of the cluster; its connection stays as it is."""
        self._forget(session, Reason.MOVED, node)

    def _forget(self, session: Session, reason: Reason, node: str = "") -> bool:
        connection = session.connection
        if not self.registry.end(session, reason):
            return False
        self.quota.give_back(session)
        for heard in self.on_release:
            heard(session)
        self._publish(
            Released(session=session.id, player=session.player_id, player_name=session.name, reason=reason, node=node)
        )
        if connection is not None:
            connection.forget_session()
        return True

    def stand_in(
        self, player_id: str, name: str, *, grace_s: float, by_player: bool = True, sign_outs: int = 0
    ) -> Session:
        """A session without a client, on a seat that is held for its player to take over."""
        session = Session(
            SessionId(new_id(self._random.randbytes(SESSION_ID_BYTES))),
            PlayerId(player_id),
            limits=self._limits,
            now=self._clock.now(),
            grace_s=grace_s,
            name=name,
        )
        session.sign_outs = sign_outs
        self.restore(session, by_player=by_player)
        return session

    def restore(self, session: Session, *, by_player: bool = True) -> None:
        """A session was restored from the store: its player has a new grace to return."""
        self.add(session, by_player=by_player)
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
        player_name=session.name,
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


class Notices:
    """Sends notices to connected sessions."""

    def __init__(self, registry: SessionRegistry) -> None:
        self._registry = registry
        self.elsewhere: Callable[[PlayerId, Notice], None] | None = None
        """In a cluster: tells the player's sessions on other nodes."""
        self.divert: Callable[[Session, Notice], bool] = _never
        """Whether the notice follows a session that is on its way from one node to another."""

    def rooms(self, session: Session, watch_id: str, changed: list[RoomInfo], removed: list[str]) -> None:
        """Changes in a watched search; they must fit in one payload."""
        self.send(session, Notice("rooms", watch_id, RoomsChanged(changed, removed)))

    def offer(self, player_id: PlayerId, place: WaitInfo) -> None:
        """A seat is reserved for a player on the waitlist."""
        self._send_to(player_id, Notice("offer", place.room, place))

    def placement(self, player_id: PlayerId, info: PlacementInfo) -> None:
        """The state of a placement changed."""
        self._send_to(player_id, Notice("placement", info.id, info))

    def stopping(self, session: Session, deadline_s: float) -> None:
        """The server stops within `deadline_s` seconds."""
        self.send(session, Notice("stopping", "", Stopping(deadline_s)))

    def _send_to(self, player_id: PlayerId, notice: Notice) -> None:
        self.send_here(player_id, notice)
        if self.elsewhere is not None:
            self.elsewhere(player_id, notice)

    def send_here(self, player_id: PlayerId, notice: Notice) -> None:
        """Send it to the sessions of a player on this server."""
        for session in self._registry.of_player(player_id):
            self.send(session, notice)

    def send(self, session: Session, notice: Notice) -> None:
        """Send it, if the session is connected."""
        if not self.divert(session, notice) and session.connection is not None:
            session.connection.send(notice)


def _nothing(*_: object) -> None:
    """There is no store."""


def _no(_: object) -> bool:
    return False


def _never(*_: object) -> bool:
    return False


async def _at_once(_: object) -> None:
    """There is nothing to wait for."""


@dataclass(slots=True, kw_only=True)
class StoredSessions:
    """The part of a store that sessions use, filled where the server is composed. Without a store it does nothing."""

    restore: Callable[[str], None] = _nothing
    """Restore the session with this id, if the store has it."""
    restore_of_player: Callable[[str], None] = _nothing
    """Restore all sessions of a player."""
    hold: Callable[[Session], None] = _nothing
    """The session changed, and its client may be notified only once that is saved."""
    moved: Callable[[Session, Purpose], None] = _nothing
    """The session took or left a seat or place, or its streams restart: saved together with the room."""
    changed: Callable[[Session], None] = _nothing
    """Save the session with the next commit."""
    seated_in_memory: Callable[[Session], None] = _nothing
    """The session took a seat that is not saved: its record is deleted before its client is notified."""
    is_saved: Callable[[Session], bool] = _no
    """Whether the session outlives this process."""
    is_stuck: Callable[[Session], bool] = _no
    """Whether the session outlives this process while the store fails."""
    is_elsewhere: Callable[[str], bool] = _no
    """Whether another server has taken over the session with this id."""
    is_unclaimed: Callable[[Session], bool] = _no
    """Whether the session was restored, and its former server may have written it after it was read."""
    confirm: Callable[[Session], bool] = _no
    """In a cluster: another node may have taken over the session, unnoticed. Begin to find out; False if none can."""
    saved_without: Callable[[Session], Awaitable[None]] = _at_once
    """Wait until the room that the session has just left is saved without it."""
    end_saved: Callable[[Session], Callable[[], Awaitable[None]] | None] = _nothing
    """The wait until the end of a session is saved; None if the session is not saved at all."""
