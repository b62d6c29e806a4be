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
from holdfast.core.errors import Throttled
from holdfast.core.flood import Rates
from holdfast.core.ids import new_id
from holdfast.core.limits import Limits
from holdfast.core.placement import Queue
from holdfast.core.reasons import Reason
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
from holdfast.schemas.events import ConnectionRefused, Event, PlacementChanged
from holdfast.schemas.frames import Reply
from holdfast.schemas.placement import PlacementInfo
from holdfast.server.admission.access import Access
from holdfast.server.admission.connection_limiter import ConnectionLimiter
from holdfast.server.admission.handshake import Handshake
from holdfast.server.admission.linking import Linking
from holdfast.server.admission.resume import Resumer
from holdfast.server.admission.sign_in import SessionMaker, SignIn
from holdfast.server.admission.welcome import Welcomer
from holdfast.server.agents import AgentServices
from holdfast.server.alarms import Alarms
from holdfast.server.connection.connection import ConnectionServices, LiveConnection
from holdfast.server.connection.connections import Connections
from holdfast.server.connection.fair_queue import FairQueue
from holdfast.server.connection.heartbeat import Heartbeat
from holdfast.server.connection.lifetimes import Lifetimes
from holdfast.server.connection.throttle import Throttle
from holdfast.server.connection.writes import Writes
from holdfast.server.context import Clock, Context
from holdfast.server.directory.directory import Directory, StoredRooms
from holdfast.server.directory.operations import DirectoryOperations
from holdfast.server.directory.requests import RequestHandler
from holdfast.server.directory.room_passwords import RoomPasswords
from holdfast.server.drain import Drain
from holdfast.server.durability.committer import Committer
from holdfast.server.durability.recovery import Recovery
from holdfast.server.durability.rollbacks import Rollbacks
from holdfast.server.durability.room_writer import RoomWriter, WriterContext
from holdfast.server.faults import Faults
from holdfast.server.health import Health
from holdfast.server.placement.fleet import OwnFleet
from holdfast.server.placement.operations import PlacementOperations
from holdfast.server.placement.placements import Placements
from holdfast.server.room_factory import RoomFactory
from holdfast.server.rooms.effects import Carry, Outbox
from holdfast.server.rooms.reserved import ReservedSeats
from holdfast.server.rooms.runner import RoomListeners
from holdfast.server.rooms.saves import Saving
from holdfast.server.rooms.services import RoomServices
from holdfast.server.sessions.lifecycle import RETRY_AFTER_STOP_S, SessionLifecycle
from holdfast.server.sessions.notices import Notices
from holdfast.server.sessions.stored import StoredSessions
from holdfast.stores.port import Broken, Store

if TYPE_CHECKING:
    from holdfast.observability.tracing import MessageTrace, MessageTracer

log = get_logger("holdfast.server")

_PLACEMENT_ID_BYTES = 9


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
        self.hashing = hashing
        """For the passwords of rooms; None for argon2id."""
        self.incarnation = printable(random.randbytes(6))
        """Of this start of the node, and of no other."""
        self.name = name or self.incarnation
        self.clock = Clock(loop, now, wall_clock)
        self.connections = Connections(self.incarnation)
        self.metrics = Metrics(
            now=now, schemes=authenticators, connection=self.connections.get, kinds=lambda: self.rooms.kinds
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
        self.alarms = Alarms(loop, self.publish)
        self.context = context = Context(
            clock=self.clock,
            limits=limits,
            random=random,
            publish=self.publish,
            counters=self.counters,
            faults=self.faults,
            alarms=self.alarms,
        )
        self.lifecycle = lifecycle = SessionLifecycle(context, shares)
        self.sessions = lifecycle.registry
        self.notices = Notices(self.sessions)
        self.stored = StoredSessions()
        self.session_quota = lifecycle.quota
        self.graces = lifecycle.graces
        self.end_session = lifecycle.end_session
        self.release_session = lifecycle.release
        self.supersede = lifecycle.supersede
        self.overflowed = lifecycle.overflowed
        self.turn_away = lifecycle.turn_away
        self.lifetimes = Lifetimes(self.clock, limits, lifecycle.end_session)
        self.access = Access(
            context,
            store,
            lifecycle=lifecycle,
            stored=self.stored,
            strangers=lambda: [each for each in self.connections if each.session is None],
            fatal=self._store_broke,
        )
        self.connection_limiter = ConnectionLimiter(
            context,
            shares,
            open_count=self.connections.__len__,
            pause=self._pause,
        )
        throttle = Throttle(
            context,
            pause=self._pause,
            failed=self.connection_limiter.failed,
        )
        self.fair_queue = FairQueue(self.clock, limits, over=throttle.over, cut_off=throttle.cut_off)
        self.heartbeat = Heartbeat(self.clock, limits, self.connections.__iter__)
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
        self.committer: Committer | None = None
        if store is not None:
            self.committer = Committer(context, store, lifecycle=lifecycle, metrics=self.metrics, fatal=fatal)
        self.outbox = Outbox(context, effects, store=store, broken=self._store_broke)
        self.saving = Saving(loop)
        reserved = ReservedSeats(limits.reservations_per_player_max)
        services = RoomServices(
            context=context,
            grace_s=grace_s,
            turn_meter=self.metrics.turns_of,
            trace=lambda: self.tracing.message if self.tracing is not None else None,
            lifecycle=lifecycle,
            stored=self.stored,
            saving=self.saving,
            outbox=self.outbox,
            reserved=reserved,
            shares=shares,
        )
        writers = WriterContext(self.clock, limits, self.metrics, self.incarnation, self.outbox.start)
        factory = RoomFactory(services, self.committer, make_writer=partial(RoomWriter, writers))
        stored_rooms = StoredRooms(is_kept=store is not None, is_failing=self.is_store_failing)
        self.rooms = Directory(
            context,
            shares,
            sessions=self.sessions,
            stored=stored_rooms,
            make_runner=factory.make,
            reserved=reserved,
            passwords=RoomPasswords(limits, random, hashing),
            check_capacity=self._check_capacity,
            tell_rooms=self.notices.rooms,
        )
        self.recovery: Recovery | None = None
        if self.committer is not None:
            self.recovery = Recovery(
                context,
                self.committer,
                grace_s=grace_s,
                directory=self.rooms,
                make_room=factory.make_durable,
                lifecycle=lifecycle,
                outbox=self.outbox,
                last_sign_out=lambda: self.access.sign_outs,
            )
            self.recovery.on_session += [self.access.came_back]
            stored_rooms.restore = self.recovery.restore_room
            stored_rooms.restore_of_player = self.recovery.restore_rooms_of
            stored_rooms.is_elsewhere = self.recovery.moved_away.asked_for
            self.committer.on_session_lost = self.recovery.moved_away.lost
            self.committer.on_room_lost = self.recovery.room_lost
        self.health = Health(
            loop,
            name=self.name,
            region=region,
            limits=limits,
            rooms=self.rooms.runners,
            room_count=lambda: len(self.rooms),
            session_count=lambda: len(self.sessions),
            is_store_failing=self.is_store_failing,
            publish=self.publish,
            failed=self.faults.report,
        )
        self.drain = Drain(
            self.name,
            publish=self.publish,
            registry=self.sessions,
            notices=self.notices,
            runners=self.rooms.runners,
            room=self.rooms.get,
            begun=self._drain_begun,
        )
        factory.listeners = RoomListeners(
            listed=self.rooms.listed,
            seat_changed=self.rooms.seat_changed,
            seat_given_back=self.drain.look_at,
            gone=self.rooms.forget,
            check_name=self.rooms.check_name,
            updated=self.rooms.updated,
            seat_offered=self.notices.offer,
        )
        self.authenticators = authenticators
        self.linking = Linking(
            context,
            authenticators,
            lifecycle=lifecycle,
            stored=self.stored,
            limiter=self.connection_limiter,
        )
        self.placements = Placements(
            loop,
            OwnFleet(self.health.info, self.rooms),
            queues=queues,
            quota=AddressQuota(shares),
            now=now,
            wall_clock=wall_clock,
            make_id=lambda: new_id(random.randbytes(_PLACEMENT_ID_BYTES)),
            changed=self._placement_changed,
        )
        self.operations = DirectoryOperations(context, self.rooms, sessions=self.sessions, stored=self.stored)
        self.requests = RequestHandler(
            context,
            {
                **self.operations.table(),
                **PlacementOperations(self.placements, self.rooms).table(),
                "confirm": self.linking.confirm,
                "link": self.linking.link,
            },
            stored=self.stored,
            send=self._send,
            settle=self.operations.settle,
        )
        self.session_maker = SessionMaker(context, grace_s=grace_s, lifecycle=lifecycle, access=self.access)
        welcomer = Welcomer(limits, self.connection_limiter, self.requests.last_known)
        self.sign_in = SignIn(
            context,
            authenticators,
            maker=self.session_maker,
            welcomer=welcomer,
            lifecycle=lifecycle,
            stored=self.stored,
            access=self.access,
            limiter=self.connection_limiter,
            is_draining=lambda: self.drain.is_on,
        )
        self.agents = AgentServices(
            context=context,
            lifecycle=lifecycle,
            maker=self.session_maker,
            rooms=self.rooms,
            next_connection_id=self.connections.next_id,
            seat_returned=self.rooms.session_returned,
        )
        resumer = Resumer(
            context,
            lifecycle=lifecycle,
            stored=self.stored,
            access=self.access,
            welcomer=welcomer,
            rollbacks=Rollbacks(self.publish, self.counters),
            seat_returned=self.rooms.session_returned,
        )
        self.handshake = Handshake(
            context, limiter=self.connection_limiter, access=self.access, resumer=resumer, sign_in=self.sign_in
        )
        lifecycle.graces.may_expire = lambda session: not self.stored.is_stuck(session)
        lifecycle.on_drop += [self.requests.dropped]
        lifecycle.on_detach += [self.rooms.index.dropped, self.rooms.session_dropped]
        lifecycle.on_end += [lambda session, *_: self.rooms.index.dropped(session)]
        if self.committer is not None:
            durable = self.committer.sessions
            lifecycle.close_connection = durable.close_connection
            lifecycle.on_end += [lambda session, *_: durable.ended(session)]
        lifecycle.on_end += [self.rooms.session_ended]
        lifecycle.on_release += [self.rooms.index.dropped]
        if self.committer is not None and self.recovery is not None:
            durable = self.committer.sessions
            self.stored.restore = self.recovery.restore_session
            self.stored.restore_of_player = self.recovery.restore_sessions_of
            self.stored.hold = durable.hold
            self.stored.saved_without = self.committer.saved_without
            self.stored.moved = durable.moved
            self.stored.changed = durable.changed
            self.stored.is_saved = durable.__contains__
            self.stored.is_stuck = durable.is_stuck
            self.stored.is_elsewhere = self.recovery.moved_away.asked_for
            self.stored.end_saved = durable.end_saved
        self.exposition = Exposition(
            self.metrics,
            NodeView(
                name=self.name,
                region=region,
                limits=limits,
                sessions=lambda: self.sessions,
                connections=self.connections.__iter__,
                rooms=lambda: [runner.room for runner in self.rooms.runners()],
                kinds=lambda: self.rooms.kinds,
                is_ready=lambda: self.health.is_ready,
                is_healthy=lambda: self.health.is_healthy,
                is_store_failing=self.is_store_failing,
                events_lost=lambda: self.bus.lost,
            ),
        )
        self._services = ConnectionServices(
            clock=self.clock,
            limits=limits,
            counters=self.counters,
            faults=self.faults,
            writes=Writes(loop, ack_s=limits.ack_s),
            rates=Rates(limits),
            opened=self.connections.opened,
            lost=self.connections.lost,
            unlinked=self.connections.unlinked,
            refused=self._refused,
            welcomed=self.lifetimes.begin,
            tap=self.tap,
            hello=self.handshake.hello,
            request=self.requests.receive,
            end_session=lifecycle.end_session,
            token_confirmed=self.stored.changed,
            round_trip=self.metrics.round_trip.observe,
            received_early=self.fair_queue.received,
            received_more=self.fair_queue.received_more,
            first_portion=self.fair_queue.first_portion,
            over=throttle.over,
            over_message=throttle.over_message,
            allows_latest=throttle.allows_latest,
            allows_request=throttle.allows_request,
        )
        self.connections.on_link += [lambda connection: self.metrics.connection_opened(connection.transport_kind)]
        self.connections.admit = self.connection_limiter.admit
        self.connections.on_admit += [self.handshake.opened]
        self.connections.on_lost += [self.connection_limiter.lost, self.lifetimes.cancel, lifecycle.lost]
        self.connections.on_unlink += [
            lambda connection: self.metrics.connection_closed(connection.end_reason or Reason.DROPPED),
            self.connection_limiter.unlinked,
        ]

    def _placement_changed(self, info: PlacementInfo, owner: str) -> None:
        self.publish(PlacementChanged(placement=info.id, status=info.status, reason=info.reason))
        if owner:
            self.notices.placement(PlayerId(owner), info)

    def is_store_failing(self) -> bool:
        """Whether the store does not save at the moment."""
        return self.committer is not None and self.committer.is_failing

    def _check_capacity(self) -> None:
        if self.drain.is_on:
            raise Throttled("this node is stopping")
        if not self.health.is_healthy:
            raise Throttled("this node is not well, and takes no new rooms")

    def _send(self, session: Session, frame: Reply) -> None:
        connection = self.connection_of(session)
        if connection is not None:
            connection.send(frame)

    # Connections

    def tap(self, connection: LiveConnection) -> Tap | None:
        """Who follows the payloads of a connection."""
        session, codec = connection.session, connection.codec
        return Tap.of(self.packets.sink(connection, codec, session), self.messages.sink(codec, session))

    def _renew_taps(self) -> None:
        for connection in self.connections:
            connection.tap = self.tap(connection)

    def trace_written(self, session: Session, trace: "MessageTrace") -> None:
        """Let a trace end with the next payload to its session."""
        connection = self.connection_of(session)
        if connection is not None:
            connection.traces = [*(connection.traces or ()), trace]

    def accept(self) -> LiveConnection:
        """The receiver for a link that has just been opened."""
        return LiveConnection(self.connections.next_id(), self._services)

    def _pause(self, connection: LiveConnection, seconds: float) -> None:
        self.fair_queue.pause(connection, seconds)

    def _drain_begun(self, observe: Callable[[Event], None]) -> None:
        self.health.is_ready = False
        self.bus.observe(observe)

    def _refused(self, connection: LiveConnection, reason: Reason) -> None:
        self.publish(
            ConnectionRefused(
                connection=connection.id,
                transport=connection.transport_kind,
                reason=reason,
                address=connection.address,
            )
        )

    def connection_of(self, session: Session) -> LiveConnection | None:
        """The connection to write to, if the session has one that is a wire and not an agent."""
        connection = session.connection
        return connection if isinstance(connection, LiveConnection) else None

    # Sessions

    def _store_broke(self, error: Broken) -> None:
        assert self.committer is not None
        self.committer.broken(error)

    async def stop(self) -> None:
        """End the rooms, then the connections, and see their links out."""
        await self.placements.close()
        if self.recovery is not None:
            self.recovery.stop()
        await self.sign_in.stop()
        self.operations.is_stopped = True
        await self.requests.stop()
        await self.rooms.close_all(self.limits.close_s)
        await self.saving.stop(self.limits.close_s)
        await self.access.stop(self.limits.commit_timeout_s)
        if self.committer is not None:
            await self.committer.stop(self.limits.commit_timeout_s)
        await self.outbox.stop()
        self.connections.close_all(Reason.STOPPING, "the server is stopping", retry_after_s=RETRY_AFTER_STOP_S)
        self.rooms.suspend_all()
        for session in self.sessions:
            if self.committer is not None and session in self.committer.sessions:
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
        await self.connections.wait_until_unlinked()
