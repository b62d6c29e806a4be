"""One node: its sessions, rooms and connections, and the few moments at which they touch.

Everything here runs on one event loop and returns at once. Sessions change state only through the registry; what a
change means for the room, the connection and the timers is decided here, in one place.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from holdfast.core.address_quota import AddressQuota, AddressShares
from holdfast.core.connection import Connection, ConnectionEvent, ConnectionId
from holdfast.core.ids import new_id
from holdfast.core.limits import Limits
from holdfast.core.placement import Queue
from holdfast.core.reasons import Reason
from holdfast.core.registry import SessionRegistry
from holdfast.core.session import PlayerId, Session
from holdfast.core.tokens import printable
from holdfast.identity.hashing import Hashing
from holdfast.identity.port import Authenticator
from holdfast.logs import get_logger
from holdfast.observability.bus import Bus
from holdfast.observability.counters import Counters
from holdfast.observability.events import EventLog
from holdfast.observability.journal import Journal, tell_left_out
from holdfast.observability.line_limit import LineLimit
from holdfast.observability.loop_lag import LoopLag
from holdfast.observability.meters import Meters
from holdfast.observability.packet_log import PacketLog
from holdfast.observability.timeline import Timelines
from holdfast.schemas.events import ConnectionRefused, Dropped, Ended, PlacementChanged, Released, Resynced, Superseded
from holdfast.schemas.frames import sentence
from holdfast.schemas.placement import PlacementInfo
from holdfast.server.admission.access import Access
from holdfast.server.admission.connection_limiter import ConnectionLimiter
from holdfast.server.admission.handshake import Handshake
from holdfast.server.admission.session_limit import TooManySessions
from holdfast.server.connection.alarms import Alarms
from holdfast.server.connection.connection import LiveConnection
from holdfast.server.connection.fair_queue import FairQueue
from holdfast.server.connection.lifetimes import Lifetimes
from holdfast.server.connection.throttle import Throttle
from holdfast.server.connection.writes import Writes
from holdfast.server.directory.directory import Directory
from holdfast.server.directory.requests import RequestDesk
from holdfast.server.drain import Drain
from holdfast.server.durability.committer import Committer
from holdfast.server.durability.lost_rooms import LostRooms
from holdfast.server.durability.recovery import Recovery
from holdfast.server.graces import Graces
from holdfast.server.health import Health
from holdfast.server.notices import Notices
from holdfast.server.placement.fleet import OwnFleet
from holdfast.server.placement.placements import Placements
from holdfast.server.rooms.effects import Carry, Outbox
from holdfast.server.rooms.saves import Saving
from holdfast.stores.port import Store

if TYPE_CHECKING:
    from holdfast.observability.tracing import NodeTracing

log = get_logger("holdfast.server")

# A restart takes about this long; clients add their jitter.
_RETRY_AFTER_STOP_S = 1.0
_PLACEMENT_ID_BYTES = 9

# Ends that no turn of a room has decided: they are in force whatever is saved.
_NOT_WELCOME = frozenset({Reason.BANNED, Reason.SIGNED_OUT, Reason.TOKEN_REUSED})


class Node:
    """The shared ground of a server's parts."""

    def __init__(  # noqa: PLR0913, PLR0915 - one call site, all but the loop by keyword
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        authenticators: Mapping[str, Authenticator],
        limits: Limits,
        shares: AddressShares,
        random: Random,
        grace_s: float,
        now: Callable[[], float],
        wall_clock: Callable[[], float],
        effects: Mapping[str, Carry],
        store: Store | None,
        fatal: Callable[[Exception], None],
        name: str,
        region: str,
        queues: Iterable[Queue],
        too_many_sessions: TooManySessions,
        hashing: Hashing | None,
    ) -> None:
        self._loop = loop
        self.now = now
        self.wall_clock = wall_clock
        self.limits = limits
        self.shares = shares
        self.random = random
        self.grace_s = grace_s
        self.region = region
        self.too_many_sessions = too_many_sessions
        self.hashing = hashing
        """For the passwords of rooms; None for argon2id."""
        self.incarnation = printable(random.randbytes(6))
        """Of this start of the node, and of no other."""
        self.name = name or self.incarnation
        self.counters = Counters()
        self.bus = Bus(loop, wall_clock=wall_clock, waiting_max=limits.events_waiting_max, failed=self.internal_error)
        self.publish = self.bus.publish
        self.events = EventLog(loop, wall_clock=wall_clock, kept_max=limits.events_kept_max)
        self.bus.observe(self.events.record)
        self.timelines = Timelines(limits, now)
        self.bus.observe(self.timelines.record)
        self.meters = Meters(self, authenticators)
        self.loop_lag = LoopLag(loop, now, self.meters.loop_lag)
        self.tracing: NodeTracing | None = None
        """Set by the server before there are rooms, if it is asked for."""
        self.lines = LineLimit(loop, limits.log_lines_per_s, tell_left_out)
        self.bus.observe(Journal(self.lines, limits.log_events_per_s).record)
        self.notices = Notices(self)
        self.health = Health(self, loop)
        self.sessions = SessionRegistry()
        self.session_quota: AddressQuota[Session] = AddressQuota(shares)
        """By the address that each began at."""
        self.graces = Graces(self, loop)
        self.lifetimes = Lifetimes(self, loop)
        self.drain = Drain(self)
        self.access = Access(self, loop, store)
        self.alarms = Alarms(loop, self.publish)
        self.connection_limiter = ConnectionLimiter(self)
        self.throttle = Throttle(self)
        self.lane = FairQueue(self, loop)
        self.connections: dict[ConnectionId, LiveConnection] = {}
        self.packets = PacketLog(self, loop)
        self.writes = Writes(loop, ack_s=limits.ack_s)
        self.committer = Committer(self, loop, store, fatal=fatal) if store is not None else None
        self.outbox = Outbox(self, loop, effects)
        self.saving = Saving(loop)
        self.recovery = Recovery(self, loop, self.committer) if self.committer is not None else None
        self.rooms = Directory(self, loop)
        self.authenticators = authenticators
        self.handshake = Handshake(self, loop, authenticators)
        self.desk = RequestDesk(self, loop)
        self.placements = Placements(
            loop,
            OwnFleet(self),
            queues=queues,
            quota=AddressQuota(shares),
            now=now,
            wall_clock=wall_clock,
            make_id=lambda: new_id(random.randbytes(_PLACEMENT_ID_BYTES)),
            changed=self._placement_changed,
        )
        self.raised: Callable[[Exception, str], None] = lambda _error, _where: None
        """Hears of every error that is contained here: a test fails with it."""
        self._connections_opened = 0
        self.elsewhere: LostRooms | None = None
        """What another server has taken over: not gone, only elsewhere."""
        if self.committer is not None and self.recovery is not None:
            self.elsewhere = LostRooms(loop, self.committer, self.recovery, sessions_max=limits.sessions_max)
        self._links: set[LiveConnection] = set()
        self._all_unlinked: asyncio.Future[None] | None = None

    def _placement_changed(self, info: PlacementInfo, owner: str) -> None:
        self.publish(PlacementChanged(placement=info.id, status=info.status, reason=info.reason))
        if owner:
            self.notices.placement(PlayerId(owner), info)

    # Connections

    def accept(self) -> LiveConnection:
        """The receiver for a link that has just been opened. Its id is never used again, not even by a later node."""
        return LiveConnection(self, self.next_connection_id(), self.now())

    def next_connection_id(self) -> ConnectionId:
        """A fresh connection id."""
        self._connections_opened += 1
        return ConnectionId(f"{self.incarnation}-{self._connections_opened}")

    def opened(self, connection: LiveConnection) -> None:
        """A link is up; strangers have `hello_s` to say who they are."""
        self.counters.connections += 1
        self.meters.link_up(connection)
        self._links.add(connection)
        if not self.connection_limiter.came(connection):
            return
        self.connections[connection.id] = connection
        self._loop.call_later(self.limits.hello_s, self.handshake.check_time, connection)

    def lost(self, connection: LiveConnection) -> None:
        """A connection is gone, or closing and deaf: if it spoke for a session, that has dropped."""
        self.connections.pop(connection.id, None)
        self.connection_limiter.lost(connection)
        self.lifetimes.over(connection)
        session = self.sessions.detach(connection, self.now())
        if session is not None:
            self._dropped(session, connection)

    def turned_away(self, connection: Connection, reason: Reason) -> None:
        """A stranger's connection is being closed."""
        self.publish(
            ConnectionRefused(
                connection=connection.id,
                transport=connection.transport_kind,
                reason=reason,
                address=connection.address,
            )
        )

    def unlinked(self, connection: LiveConnection) -> None:
        """A transport has ended: nothing of this connection is left."""
        self.meters.link_down(connection)
        self._links.discard(connection)
        self.connection_limiter.gone(connection)
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
        self.publish(Superseded(session=session.id, player=session.player_id, connection=old.id))
        self.rooms.listings.dropped(session)
        self._tell_drop(session)

    def _dropped(self, session: Session, connection: Connection) -> None:
        self.counters.drops += 1
        session.drop_reason = connection.end_reason if connection.end_reason is not Reason.DROPPED else None
        self.publish(_drop_of(session, connection, self.now()))
        self.desk.dropped(session)
        self.rooms.listings.dropped(session)
        self._tell_drop(session)
        self.graces.begin(session)

    def _tell_drop(self, session: Session) -> None:
        if session.on_disconnect is not None:
            try:
                session.on_disconnect(session)
            except Exception as error:  # noqa: BLE001 - logged, counted, contained
                self.internal_error("on_disconnect of a session", error, session=session.id)
        if session.player is not None:
            self.rooms.host_of(session.player).dropped(session.player)

    def end_session(self, session: Session, reason: Reason, message: str = "") -> None:
        """The end of a session, whatever the cause; its seat is freed and its token is dead."""
        connection = self.connection_of(session)
        if not self.sessions.end(session, reason):
            return
        self.session_quota.give_back(session)
        self.graces.over(session)
        self.rooms.listings.dropped(session)
        self.counters.sessions_ended += 1
        if self.committer is not None:
            self.committer.ended(session)
        if session.player is not None:
            host = self.rooms.host_of(session.player)
            if reason is Reason.BYE:
                host.leave(session.player)
            else:
                host.free(session.player, reason, message)
        if not self.sessions.of_player(session.player_id):
            self.rooms.maker_gone(session.player_id)
        self.publish(Ended(session=session.id, player=session.player_id, reason=reason, message=sentence(message)))
        if connection is not None and self.committer is not None and session in self.committer:
            # The turn that ended it may have said something before, and all of it may still be undone.
            self.committer.close_after(session, partial(connection.close, reason, message))
            self._loop.call_later(self.limits.store_patience_s, self._close_unsaved, connection, reason, message)
        elif connection is not None:
            connection.close(reason, message)

    def _close_unsaved(self, connection: LiveConnection, reason: Reason, message: str) -> None:
        """The end of a session is not saved yet: if the store is not well, its link does not wait for that."""
        if reason in _NOT_WELCOME:
            connection.close(reason, message)
        elif self.committer is not None and self.committer.is_failing:
            self.turn_away(connection)
        elif connection.is_open:  # its commit began later than this wait
            self._loop.call_later(self.limits.store_patience_s, self._close_unsaved, connection, reason, message)

    def restored(self, session: Session) -> None:
        """A session came back from the store: its player has a fresh grace to do the same."""
        session.obeyed_by(self)
        self.sessions.add(session)
        self.session_quota.take(session, session.address)
        if session.signed_in_at:
            # It is as old as it was, whatever became of its servers.
            session.created_at = self.now() - max(0.0, self.wall_clock() - session.signed_in_at)
        session.restored(self.now())
        self.graces.begin(session)

    def forget_session(self, session: Session, reason: Reason) -> None:
        """Let go of a session that lives on in the store."""
        connection = self.connection_of(session)
        if self.sessions.end(session, reason):
            self.session_quota.give_back(session)
            self.graces.over(session)
            self.rooms.listings.dropped(session)
            self.publish(Released(session=session.id, player=session.player_id, reason=reason))
            if connection is not None:
                connection.session = None
                connection.close(reason, retry_after_s=_RETRY_AFTER_STOP_S)

    def lost_to_another(self, session: Session) -> None:
        """Another server has written the session's record, or its room's: it goes on there."""
        if self.elsewhere is not None:
            self.elsewhere.add(session.id)
        player = session.player
        self.forget_session(session, Reason.MOVED)
        if player is not None and session.room is not None and session.room.durability == "memory":
            self.rooms.host_of(player).free(player, Reason.MOVED)

    def is_elsewhere(self, wanted: str) -> bool:
        """Whether another server has the session or room with this id."""
        return self.elsewhere is not None and self.elsewhere.asked_for(wanted)

    def is_here_again(self, session_id: str) -> None:
        """The session came back to this server."""
        if self.elsewhere is not None:
            self.elsewhere.discard(session_id)

    def turn_away(self, connection: LiveConnection) -> None:
        """The store refuses: the client may come back when it does not."""
        message = "the server cannot save at the moment"
        connection.close(Reason.BUSY, message, retry_after_s=self.limits.store_patience_s)

    async def stop(self) -> None:
        """End the rooms, then the connections, and see their links out."""
        await self.placements.close()
        if self.elsewhere is not None:
            self.elsewhere.stop()
        if self.recovery is not None:
            self.recovery.stop()
        await self.handshake.stop()
        await self.desk.stop()
        await self.rooms.close_all(self.limits.close_s)
        await self.saving.stop(self.limits.close_s)
        await self.access.stop(self.limits.commit_timeout_s)
        if self.committer is not None:
            await self.committer.stop(self.limits.commit_timeout_s)
        await self.outbox.stop()
        closing = list(self.connections.values())
        for connection in closing:
            connection.close(Reason.STOPPING, "the server is stopping", retry_after_s=_RETRY_AFTER_STOP_S)
        self.rooms.suspend_all()
        for session in self.sessions:
            if self.committer is not None and session in self.committer:
                self.forget_session(session, Reason.STOPPING)
            else:
                self.end_session(session, Reason.STOPPING)
        self.rooms.passwords.close()
        self.alarms.close()
        await self.bus.stop(self.limits.close_s)
        self.lines.close()
        self.packets.close()
        self.events.close()
        if self._links:
            self._all_unlinked = self._loop.create_future()
            await self._all_unlinked

    # `SessionCommands`: what games and operators may ask of a session

    def disconnect(self, session: Session, reason: str) -> None:
        """Close the session's connection; the player may come back."""
        connection = session.connection
        if isinstance(connection, LiveConnection):
            connection.close(Reason.DISCONNECTED, reason)
        elif connection is not None:
            # An agent, which has no wire: nobody has to be told.
            connection.end_reason = Reason.DISCONNECTED
            connection.happened(ConnectionEvent.LOST)
            self.sessions.detach(connection, self.now())
            self._dropped(session, connection)

    def end(self, session: Session, reason: str) -> None:
        """End the session for good."""
        self.end_session(session, Reason.KICKED, reason)

    def overflowed(self, session: Session) -> None:
        """More piled up for a client than may be kept: it will be resynced when it resumes."""
        self.counters.streams_overflowed += 1
        self.publish(Resynced(session=session.id, player=session.player_id))
        connection = self.connection_of(session)
        if connection is not None:
            connection.close(Reason.SLOW, "too many messages are waiting for you; resume for the current state")

    def internal_error(self, where: str, error: Exception, *, hide: Sequence[str] = (), **ids: str) -> None:
        """Something raised that should not: logged with its traceback, without the secrets to `hide`; contained."""
        self.counters.internal_errors += 1
        self.raised(error, where)
        if self.lines.allow(where):
            log.error("internal error", where=where, **ids, exc_info=error, hide=hide)


def _drop_of(session: Session, connection: Connection, now: float) -> Dropped:
    latency = session.latency
    return Dropped(
        session=session.id,
        player=session.player_id,
        connection=connection.id,
        reason=connection.end_reason or Reason.DROPPED,
        grace_s=session.grace_s,
        silent_s=round(now - connection.heard_at, 3),
        pings=connection.pings_unanswered if isinstance(connection, LiveConnection) else 0,
        latency_ms=round(latency.smoothed_ms, 3),
        last_ms=round(latency.last_ms, 3),
        worst_ms=round(latency.worst_ms, 3),
        code=connection.end_code,
    )
