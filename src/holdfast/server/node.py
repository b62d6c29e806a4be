"""One node: its sessions, rooms and connections, and the few moments at which they touch.

Everything here runs on one event loop and returns at once. Sessions change state only through the registry; what a
change means for the room, the connection and the timers is decided here, in one place.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from holdfast.core.address_quota import AddressQuota, AddressShares
from holdfast.core.connection import Connection, ConnectionId
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
from holdfast.observability.bus import EventBus
from holdfast.observability.event_log import EventLog
from holdfast.observability.exposition import Exposition, NodeView
from holdfast.observability.log_lines import EventLogger, LineLimit, log_left_out
from holdfast.observability.message_log import MessageLog
from holdfast.observability.metrics import LoopLag, Metrics
from holdfast.observability.packet_log import PacketLog, Tap
from holdfast.observability.timeline import Timelines
from holdfast.schemas.events import ConnectionRefused, PlacementChanged
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
from holdfast.server.context import Clock
from holdfast.server.directory.directory import Directory
from holdfast.server.directory.requests import RequestDesk
from holdfast.server.drain import Drain
from holdfast.server.durability.committer import Committer
from holdfast.server.durability.lost_rooms import LostRooms
from holdfast.server.durability.recovery import Recovery
from holdfast.server.faults import Faults
from holdfast.server.health import Health
from holdfast.server.notices import Notices
from holdfast.server.placement.fleet import OwnFleet
from holdfast.server.placement.placements import Placements
from holdfast.server.rooms.effects import Carry, Outbox
from holdfast.server.rooms.saves import Saving
from holdfast.server.sessions.lifecycle import RETRY_AFTER_STOP_S, SessionLifecycle
from holdfast.stores.port import Store

if TYPE_CHECKING:
    from holdfast.observability.tracing import MessageTrace, MessageTracer

log = get_logger("holdfast.server")

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
        self.clock = Clock(loop, now, wall_clock)
        self.connections: dict[ConnectionId, LiveConnection] = {}
        self.metrics = Metrics(
            now=now, schemes=authenticators, connections=self.connections, kinds=lambda: self.rooms.kinds
        )
        self.counters = self.metrics.counters
        self.lines = LineLimit(loop, limits.log_lines_per_s, log_left_out)
        self.faults = Faults(self.counters, self.lines)
        self.internal_error = self.faults.report
        self.bus = EventBus(
            loop, wall_clock=wall_clock, waiting_max=limits.events_waiting_max, failed=self.faults.report
        )
        self.publish = self.bus.publish
        self.events = EventLog(loop, wall_clock=wall_clock, kept_max=limits.events_kept_max)
        self.bus.observe(self.events.record)
        self.timelines = Timelines(limits, now)
        self.bus.observe(self.timelines.record)
        self.bus.observe(self.metrics.record)
        self.loop_lag = LoopLag(loop, now, self.metrics.loop_lag.observe)
        self.tracing: MessageTracer | None = None
        """Set by the server before there are rooms, if it is asked for."""
        self.bus.observe(EventLogger(self.lines, limits.log_events_per_s).record)
        self.notices = Notices(self)
        self.sessions = SessionRegistry()
        self.lifecycle = lifecycle = SessionLifecycle(
            self.clock,
            registry=self.sessions,
            quota=AddressQuota(shares),
            publish=self.publish,
            counters=self.counters,
            faults=self.faults,
            store_patience_s=limits.store_patience_s,
        )
        self.session_quota = lifecycle.quota
        self.graces = lifecycle.graces
        self.end_session = lifecycle.end_session
        self.release_session = lifecycle.release
        self.supersede = lifecycle.supersede
        self.overflowed = lifecycle.overflowed
        self.turn_away = lifecycle.turn_away
        self.lifetimes = Lifetimes(self, loop)
        self.drain = Drain(self)
        self.access = Access(self, loop, store)
        self.alarms = Alarms(loop, self.publish)
        self.connection_limiter = ConnectionLimiter(self)
        self.throttle = Throttle(self)
        self.lane = FairQueue(self, loop)
        self.packets = PacketLog(
            loop,
            now=now,
            limits=limits,
            sessions=self.sessions,
            renew_taps=self._renew_taps,
            failed=self.faults.report,
        )
        self.messages = MessageLog(
            loop, wall_clock=wall_clock, limits=limits, renew_taps=self._renew_taps, failed=self.faults.report
        )
        self.bus.observe(self.messages.record)
        self.writes = Writes(loop, ack_s=limits.ack_s)
        self.committer = Committer(self, loop, store, fatal=fatal) if store is not None else None
        self.outbox = Outbox(self, loop, effects)
        self.saving = Saving(loop)
        self.recovery = Recovery(self, loop, self.committer) if self.committer is not None else None
        self.rooms = Directory(self, loop)
        self.health = Health(
            loop,
            name=self.name,
            region=region,
            limits=limits,
            rooms=self.rooms.hosts,
            room_count=lambda: len(self.rooms),
            session_count=lambda: len(self.sessions),
            is_store_failing=self.is_store_failing,
            publish=self.publish,
            failed=self.faults.report,
        )
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
        lifecycle.graces.may_expire = self._may_expire
        lifecycle.close_connection = self._close_connection
        lifecycle.on_drop += [self.desk.dropped]
        lifecycle.on_detach += [self.rooms.listings.dropped, self._seat_dropped]
        lifecycle.on_end += [lambda session, *_: self.rooms.listings.dropped(session)]
        if self.committer is not None:
            committer = self.committer
            lifecycle.on_end += [lambda session, *_: committer.ended(session)]
        lifecycle.on_end += [self._seat_ended]
        lifecycle.on_release += [self.rooms.listings.dropped]
        self._connections_opened = 0
        self.elsewhere: LostRooms | None = None
        """What another server has taken over: not gone, only elsewhere."""
        if self.committer is not None and self.recovery is not None:
            self.elsewhere = LostRooms(loop, self.committer, self.recovery, sessions_max=limits.sessions_max)
        self.exposition = Exposition(
            self.metrics,
            NodeView(
                name=self.name,
                region=region,
                limits=limits,
                sessions=lambda: self.sessions,
                connections=self.connections.values,
                rooms=lambda: [host.room for host in self.rooms.hosts()],
                kinds=lambda: self.rooms.kinds,
                is_ready=lambda: self.health.is_ready,
                is_healthy=lambda: self.health.is_healthy,
                is_store_failing=self.is_store_failing,
                events_lost=lambda: self.bus.lost,
            ),
        )
        self._links: set[LiveConnection] = set()
        self._all_unlinked: asyncio.Future[None] | None = None

    def _placement_changed(self, info: PlacementInfo, owner: str) -> None:
        self.publish(PlacementChanged(placement=info.id, status=info.status, reason=info.reason))
        if owner:
            self.notices.placement(PlayerId(owner), info)

    def is_store_failing(self) -> bool:
        """Whether the store does not save at the moment."""
        return self.committer is not None and self.committer.is_failing

    # Connections

    def tap(self, connection: LiveConnection) -> Tap | None:
        """Who follows the payloads of a connection."""
        session, codec = connection.session, connection.codec
        return Tap.of(self.packets.sink(connection, codec, session), self.messages.sink(codec, session))

    def _renew_taps(self) -> None:
        for connection in self.connections.values():
            connection.tap = self.tap(connection)

    def trace_written(self, session: Session, trace: "MessageTrace") -> None:
        """Let a trace end with the next payload to its session."""
        connection = self.connection_of(session)
        if connection is not None:
            connection.traces = [*(connection.traces or ()), trace]

    def accept(self) -> LiveConnection:
        """The receiver for a link that has just been opened. Its id is never used again, not even by a later node."""
        return LiveConnection(self, self.next_connection_id(), self.now())

    def next_connection_id(self) -> ConnectionId:
        """A fresh connection id."""
        self._connections_opened += 1
        return ConnectionId(f"{self.incarnation}-{self._connections_opened}")

    def opened(self, connection: LiveConnection) -> None:
        """A link is up; strangers have `hello_s` to say who they are."""
        self.metrics.connection_opened(connection.transport_kind)
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
        self.lifecycle.lost(connection)

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
        self.metrics.connection_closed(connection.end_reason or Reason.DROPPED)
        self._links.discard(connection)
        self.connection_limiter.gone(connection)
        if self._all_unlinked is not None and not self._links:
            self._all_unlinked.set_result(None)

    def connection_of(self, session: Session) -> LiveConnection | None:
        """The connection to write to, if the session has one that is a wire and not an agent."""
        connection = session.connection
        return connection if isinstance(connection, LiveConnection) else None

    # Sessions

    def _seat_dropped(self, session: Session) -> None:
        if session.player is not None:
            self.rooms.host_of(session.player).dropped(session.player)

    def _seat_ended(self, session: Session, reason: Reason, message: str) -> None:
        if session.player is not None:
            host = self.rooms.host_of(session.player)
            if reason is Reason.BYE:
                host.leave(session.player)
            else:
                host.free(session.player, reason, message)
        if not self.sessions.of_player(session.player_id):
            self.rooms.maker_gone(session.player_id)

    def _close_connection(self, session: Session, connection: Connection, reason: Reason, message: str) -> None:
        if self.committer is not None and session in self.committer:
            # The turn that ended it may have said something before, and all of it may still be undone.
            self.committer.close_after(session, partial(connection.close, reason, message))
            self._loop.call_later(self.limits.store_patience_s, self._close_unsaved, connection, reason, message)
        else:
            connection.close(reason, message)

    def _close_unsaved(self, connection: Connection, reason: Reason, message: str) -> None:
        """The end of a session is not saved yet: if the store is not well, its link does not wait for that."""
        if reason in _NOT_WELCOME:
            connection.close(reason, message)
        elif self.committer is not None and self.committer.is_failing:
            self.turn_away(connection)
        elif connection.is_open:  # its commit began later than this wait
            self._loop.call_later(self.limits.store_patience_s, self._close_unsaved, connection, reason, message)

    def _may_expire(self, session: Session) -> bool:
        return self.committer is None or not self.committer.is_failing or session not in self.committer

    def lost_to_another(self, session: Session) -> None:
        """Another server has written the session's record, or its room's: it goes on there."""
        if self.elsewhere is not None:
            self.elsewhere.add(session.id)
        player = session.player
        self.release_session(session, Reason.MOVED)
        if player is not None and session.room is not None and session.room.durability == "memory":
            self.rooms.host_of(player).free(player, Reason.MOVED)

    def is_elsewhere(self, wanted: str) -> bool:
        """Whether another server has the session or room with this id."""
        return self.elsewhere is not None and self.elsewhere.asked_for(wanted)

    def is_here_again(self, session_id: str) -> None:
        """The session came back to this server."""
        if self.elsewhere is not None:
            self.elsewhere.discard(session_id)

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
            connection.close(Reason.STOPPING, "the server is stopping", retry_after_s=RETRY_AFTER_STOP_S)
        self.rooms.suspend_all()
        for session in self.sessions:
            if self.committer is not None and session in self.committer:
                self.release_session(session, Reason.STOPPING)
            else:
                self.end_session(session, Reason.STOPPING)
        self.rooms.passwords.close()
        self.alarms.close()
        await self.bus.stop(self.limits.close_s)
        self.lines.close()
        self.packets.close()
        self.messages.close()
        self.events.close()
        if self._links:
            self._all_unlinked = self._loop.create_future()
            await self._all_unlinked
