"""Composes a server: every part is given what it needs here. Only `server.py` and `operations.py` import this file.

`_order_listeners` sets the order in which the parts handle a lost connection, a drop and an end.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.cluster.setting import Cluster
from holdfast.core.addresses import AddressQuota, AddressShares
from holdfast.core.limits import Limits
from holdfast.core.placement import Queue
from holdfast.core.reasons import Reason
from holdfast.core.room import Room
from holdfast.core.session import PlayerId, Session
from holdfast.core.tokens import new_id, printable
from holdfast.identity.port import Authenticator, Identity
from holdfast.observability.bus import EventBus, EventLog
from holdfast.observability.exposition import ALONE, Exposition, NodeView
from holdfast.observability.gc_pauses import GcPauses
from holdfast.observability.log_lines import EventLogger, LineLimit, log_left_out
from holdfast.observability.message_log import MessageLog
from holdfast.observability.metrics import COUNTED_EVENTS, LoopLag, Metrics
from holdfast.observability.packet_log import PacketLog, Sink, joined_sinks
from holdfast.observability.timeline import TIMELINE_EVENTS, Timelines
from holdfast.schemas.events import ConnectionRefused, PlacementChanged, RoomEnded
from holdfast.schemas.placement import PlacementInfo
from holdfast.server.admission.access import Access
from holdfast.server.admission.connection_limiter import ConnectionLimiter
from holdfast.server.admission.handshake import Handshake, Resumer
from holdfast.server.admission.linking import Linking
from holdfast.server.admission.sign_in import SessionMaker, SignIn, Welcomer
from holdfast.server.agent_sessions import AgentSessions
from holdfast.server.agents import AgentServices
from holdfast.server.cluster.handovers import SavedSessions
from holdfast.server.cluster.parts import ClusterParts
from holdfast.server.connection.buffers import Writes
from holdfast.server.connection.connection import ConnectionServices, LiveConnection
from holdfast.server.connection.connections import Connections, Heartbeat, Lifetimes
from holdfast.server.connection.session_limits import SPECTATOR_ROLE, SessionLimiter
from holdfast.server.connection.throttle import FairQueue, Throttle
from holdfast.server.context import Alarms, Clock, Context, Environment, Faults
from holdfast.server.directory.directory import Directory, StoredRooms
from holdfast.server.directory.operations import DirectoryOperations
from holdfast.server.directory.requests import RequestHandler
from holdfast.server.directory.room_passwords import RoomPasswords
from holdfast.server.display_names import CheckName, DisplayNames
from holdfast.server.durability.committer import Committer
from holdfast.server.durability.recovery import Recovery
from holdfast.server.durability.rollbacks import Rollbacks
from holdfast.server.durability.room_writer import WriterContext
from holdfast.server.health import Drain, HealthMonitor
from holdfast.server.placement import OwnFleet, PlacementDesk, PlacementOperations, Placements
from holdfast.server.presence import Presence
from holdfast.server.room_factory import RoomFactory
from holdfast.server.rooms.listeners import RoomListeners
from holdfast.server.rooms.outbox import Carry, Outbox
from holdfast.server.rooms.recordings import Recordings
from holdfast.server.rooms.runner import RoomRunner
from holdfast.server.rooms.saves import PlayerSaves
from holdfast.server.rooms.services import Brains, ReservedSeats, RoomServices
from holdfast.server.session_messages import SessionMessages
from holdfast.server.sessions import RETRY_AFTER_STOP_S, Notices, SessionLifecycle, StoredSessions
from holdfast.stores.port import Broken, Store
from holdfast.transports.port import TransportLimits
from holdfast.transports.udp.seal import Refusal
from holdfast.transports.udp.server import UdpPaths

if TYPE_CHECKING:
    from holdfast.observability.tracing import MessageTrace, MessageTracer, Tracing

_INCARNATION_BYTES = 6
_PLACEMENT_ID_BYTES = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a server is composed from."""

    room_types: Sequence[type[Room[Any]]]
    authenticators: Mapping[str, Authenticator]
    limits: Limits
    shares: AddressShares
    environment: Environment
    grace_s: float
    effects: Mapping[str, Carry]
    store: Store | None
    name: str
    region: str
    queues: Sequence[Queue]
    tracing: "Tracing | None"
    check_name: CheckName | None
    cluster: Cluster | None = None


class ServerParts:
    """The parts of one running server: for `Server`, tests and tools. No part holds a reference to it."""

    def __init__(self, settings: Settings) -> None:
        environment = settings.environment
        self.settings = settings
        self.incarnation = printable(environment.random.randbytes(_INCARNATION_BYTES))
        self.name = settings.name or self.incarnation
        self.clock = Clock(asyncio.get_running_loop(), environment.now, environment.wall_clock)
        self.connections = Connections(self.incarnation)
        self._make_observability()
        self._make_sessions()
        self._make_connection_limits()
        self._make_rooms()
        if self.committer is not None:
            self._make_recovery(self.committer)
        self._make_directory_services()
        self._make_admission()
        self._make_connections()
        self._order_listeners()
        self.cluster: ClusterParts | None = None
        if settings.cluster is not None:
            self._make_cluster(settings.cluster)
        self.rooms.offer(settings.room_types)

    # Observability

    def _make_observability(self) -> None:
        limits, clock = self.settings.limits, self.clock
        self.metrics = Metrics(
            now=clock.now,
            schemes=self.settings.authenticators,
            connection=self.connections.get,
            kinds=lambda: self.rooms.types,
        )
        self.lines = LineLimit(clock.loop, limits.log_lines_per_s, log_left_out)
        self.faults = Faults(self.metrics.counters, self.lines)
        self.bus = EventBus(
            clock.loop,
            wall_clock=clock.wall_clock,
            waiting_max=limits.events_waiting_max,
            failed=self.faults.report,
        )
        self.events = EventLog(clock.loop, wall_clock=clock.wall_clock, kept_max=limits.events_kept_max)
        self.timelines = Timelines(
            limits, clock.now, lambda player_id: [each.id for each in self.sessions.of_player(player_id)]
        )
        self.bus.observe(self.events.record)
        self.bus.observe(self.timelines.record, *TIMELINE_EVENTS)
        self.bus.observe(self.metrics.record, *COUNTED_EVENTS)
        self.bus.observe(EventLogger(self.lines, limits.log_events_per_s).record)
        self.loop_lag = LoopLag(clock.loop, clock.now, self.metrics.loop_lag.observe)
        self.gc_pauses = GcPauses(self.metrics.gc_pause.observe)
        self.alarms = Alarms(clock.loop, self.bus.publish)
        self.context = Context(
            clock=clock,
            limits=limits,
            random=self.settings.environment.random,
            publish=self.bus.publish,
            counters=self.metrics.counters,
            faults=self.faults,
            alarms=self.alarms,
        )
        self.exposition = Exposition(
            self.metrics,
            NodeView(
                name=self.name,
                label=self.name if self.settings.cluster is not None else "",
                region=self.settings.region,
                limits=limits,
                sessions=lambda: self.sessions,
                connections=self.connections.__iter__,
                rooms=lambda: [runner.room for runner in self.rooms.runners()],
                kinds=lambda: self.rooms.types,
                is_ready=lambda: self.health.is_ready,
                is_healthy=lambda: self.health.is_healthy,
                is_store_failing=self._is_store_failing,
                events_lost=lambda: self.bus.lost,
                recording_bytes=lambda: self.recordings.size_bytes,
                cluster=lambda: ALONE if self.cluster is None else self.cluster.numbers,
            ),
        )

    # Sessions

    def _make_sessions(self) -> None:
        limits, clock = self.settings.limits, self.clock
        self.lifecycle = SessionLifecycle(self.context, self.settings.shares)
        self.sessions = self.lifecycle.registry
        self.notices = Notices(self.sessions)
        self.presence = Presence(self.sessions)
        self.stored = StoredSessions()
        self.lifetimes = Lifetimes(clock, self.connections, self.lifecycle.end_session)
        self.session_limiter = SessionLimiter(clock, limits, renew=self.lifetimes.renew, save=self._save_session)
        self.access = Access(
            self.context,
            self.settings.store,
            lifecycle=self.lifecycle,
            stored=self.stored,
            unauthenticated=lambda: [each for each in self.connections if each.session is None],
            fatal=self._store_broke,
        )
        self.packets = PacketLog(
            clock.loop,
            now=clock.now,
            limits=limits,
            sessions=self.sessions,
            renew_taps=self._renew_taps,
            failed=self.faults.report,
        )
        self.messages = MessageLog(
            clock.loop,
            wall_clock=clock.wall_clock,
            limits=limits,
            renew_taps=self._renew_taps,
            failed=self.faults.report,
        )
        self.bus.observe(self.messages.record, RoomEnded)

    def _make_connection_limits(self) -> None:
        self.connection_limiter = ConnectionLimiter(
            self.context, self.settings.shares, open_count=self.connections.__len__, pause=self._pause
        )
        self.throttle = Throttle(self.context, pause=self._pause, failed=self.connection_limiter.failed)
        self.fair_queue = FairQueue(
            self.clock, self.settings.limits, over=self.throttle.over, cut_off=self.throttle.cut_off
        )
        self.heartbeat = Heartbeat(self.clock, self.settings.limits, self.connections)

    # Rooms

    def _make_rooms(self) -> None:
        settings, context = self.settings, self.context
        limits, store, environment = settings.limits, settings.store, settings.environment
        self.committer: Committer | None = None
        if store is not None:
            self.committer = Committer(
                context, store, lifecycle=self.lifecycle, metrics=self.metrics, fatal=environment.fatal
            )
        self.tracing = self._start_tracing()
        self.outbox = Outbox(context, settings.effects, store=store, broken=self._store_broke)
        self.player_saves = PlayerSaves(self.clock.loop)
        self.brains = Brains(self.clock.loop)
        self.recordings = Recordings(limits)
        self.agent_sessions = AgentSessions(context, self.lifecycle, self.connections.next_id)
        reserved = ReservedSeats(limits.reservations_per_player_max)
        services = RoomServices(
            context=context,
            grace_s=settings.grace_s,
            turn_meter=self.metrics.turns_of,
            trace=lambda: self.tracing.message if self.tracing is not None else None,
            lifecycle=self.lifecycle,
            presence=self.presence,
            stored=self.stored,
            player_saves=self.player_saves,
            outbox=self.outbox,
            recordings=self.recordings,
            reserved=reserved,
            shares=settings.shares,
            brains=self.brains,
            agents=self.agent_sessions,
        )
        self.session_messages = SessionMessages(context, self.lifecycle, self.committer, kinds=lambda: self.rooms.types)
        self.lifecycle.sends = self.session_messages.send
        writers = WriterContext(
            self.clock,
            limits,
            self.metrics,
            self.incarnation,
            start_effect=self.outbox.start,
            is_saved=lambda session: self.committer is not None and session in self.committer.sessions,
            hand_over=self.session_messages.hand_over,
        )
        self._factory = RoomFactory(services, self.committer, writers)
        self._stored_rooms = StoredRooms(is_kept=store is not None, is_failing=self._is_store_failing)
        self.rooms = Directory(
            context,
            settings.shares,
            sessions=self.sessions,
            presence=self.presence,
            stored=self._stored_rooms,
            make_runner=self._factory.make,
            reserved=reserved,
            passwords=RoomPasswords(limits, environment.random, environment.hashing),
            is_healthy=lambda: self.health.is_healthy,
            tell_rooms=self.notices.rooms,
        )
        self.health = HealthMonitor(
            context,
            self.name,
            settings.region,
            rooms=self.rooms,
            sessions=self.sessions,
            is_store_failing=self._is_store_failing,
        )
        self.drain = Drain(
            self.name, self.bus, health=self.health, sessions=self.sessions, notices=self.notices, rooms=self.rooms
        )
        self._factory.listeners = RoomListeners(
            listed=self.rooms.index.touch,
            seat_changed=self.rooms.seat_changed,
            seat_given_back=self.drain.look_at,
            gone=self._room_gone,
            check_name=self.rooms.check_name,
            update=self.rooms.update,
            updated=self.rooms.updated,
            seat_offered=self.notices.offer,
        )
        self.recovery: Recovery | None = None

    def _room_gone(self, runner: RoomRunner) -> None:
        self.rooms.forget(runner)
        self.recordings.end(runner.room.id)

    def _start_tracing(self) -> "MessageTracer | None":
        if self.settings.tracing is None:
            return None
        tracer = self.settings.tracing.start(
            now=self.clock.now, wall_clock=self.clock.wall_clock, when_written=self._trace_written
        )
        if self.committer is not None:
            self.committer.on_cut.append(tracer.cut)
            self.committer.on_committed.append(tracer.committed)
            self.committer.on_removed.append(tracer.forget)
        return tracer

    def _make_recovery(self, committer: Committer) -> None:
        recovery = self.recovery = Recovery(
            self.context,
            committer,
            grace_s=self.settings.grace_s,
            directory=self.rooms,
            make_room=self._factory.make_durable,
            lifecycle=self.lifecycle,
            outbox=self.outbox,
            last_sign_out=lambda: self.access.sign_outs,
            hand_over=self.session_messages.hand_over,
        )
        recovery.on_session += [self.access.session_restored]
        committer.on_session_lost = recovery.session_lost
        committer.on_rooms_lost = recovery.rooms_lost
        rooms, sessions, durable = self._stored_rooms, self.stored, committer.sessions
        rooms.restore = recovery.restore_room
        rooms.restore_of_player = recovery.restore_rooms_of
        sessions.restore = recovery.restore_session
        sessions.restore_of_player = recovery.restore_sessions_of
        if self.settings.cluster is None:
            # In a cluster the other nodes are asked.
            rooms.is_elsewhere = sessions.is_elsewhere = recovery.is_elsewhere
        sessions.hold = durable.hold
        sessions.moved = durable.moved
        sessions.changed = durable.changed
        sessions.seated_in_memory = durable.seated_in_memory
        sessions.is_saved = durable.__contains__
        sessions.is_stuck = durable.is_stuck
        sessions.is_unclaimed = durable.is_unclaimed
        sessions.end_saved = durable.end_saved
        sessions.saved_without = committer.saved_without

    # Requests of clients

    def _make_directory_services(self) -> None:
        settings, random = self.settings, self.settings.environment.random
        self.display_names = DisplayNames(self.context, settings.check_name)
        self.linking = Linking(
            self.context,
            settings.authenticators,
            lifecycle=self.lifecycle,
            stored=self.stored,
            limiter=self.connection_limiter,
        )
        self._own_fleet = OwnFleet(self.health.info, self.rooms)
        self.placements = Placements(
            self.clock.loop,
            self._own_fleet,
            queues=settings.queues,
            quota=AddressQuota(settings.shares),
            now=self.clock.now,
            wall_clock=self.clock.wall_clock,
            make_id=lambda: new_id(random.randbytes(_PLACEMENT_ID_BYTES)),
            changed=self._placement_changed,
        )
        self.placement_desk = PlacementDesk(self.placements)
        operations = self._directory_operations = DirectoryOperations(
            self.context, self.rooms, sessions=self.sessions, stored=self.stored, names=self.display_names
        )
        self.requests = RequestHandler(
            self.context,
            {
                **operations.table(),
                **PlacementOperations(self.placement_desk, self.rooms).table(),
                "confirm": self.linking.confirm,
                "link": self.linking.link,
            },
            stored=self.stored,
            settle=operations.settle,
        )

    def _make_admission(self) -> None:
        self._maker = SessionMaker(
            self.context, grace_s=self.settings.grace_s, lifecycle=self.lifecycle, access=self.access
        )
        welcomer = Welcomer(self.settings.limits, self.connection_limiter, self.requests.last_known)
        self.sign_in = SignIn(
            self.context,
            self.settings.authenticators,
            maker=self._maker,
            welcomer=welcomer,
            lifecycle=self.lifecycle,
            stored=self.stored,
            access=self.access,
            limiter=self.connection_limiter,
            names=self.display_names,
            sessions_max=self._sessions_max,
            is_draining=lambda: self.drain.is_leaving,
        )
        resumer = Resumer(
            self.context,
            lifecycle=self.lifecycle,
            stored=self.stored,
            access=self.access,
            welcomer=welcomer,
            rollbacks=Rollbacks(self.context.publish, self.context.counters),
            seat_returned=self.rooms.session_returned,
        )
        self.handshake = Handshake(
            self.context,
            limiter=self.connection_limiter,
            access=self.access,
            resumer=resumer,
            sign_in=self.sign_in,
            lifecycle=self.lifecycle,
        )
        self.agents = AgentServices(
            context=self.context,
            lifecycle=self.lifecycle,
            maker=self._maker,
            rooms=self.rooms,
            sessions=self.agent_sessions,
            seat_returned=self.rooms.session_returned,
            lost=self.lifecycle.lost,
        )

    def _make_connections(self) -> None:
        random = self.settings.environment.random
        self.udp_paths = UdpPaths(TransportLimits.of(self.settings.limits), random.randbytes, self._datagram_dropped)
        limits, throttle, fair_queue = self.settings.limits, self.throttle, self.fair_queue
        self.connection_services = ConnectionServices(
            clock=self.clock,
            limits=limits,
            counters=self.context.counters,
            faults=self.faults,
            writes=Writes(self.clock.loop, ack_s=limits.ack_s),
            rates=self.session_limiter.rates,
            opened=self.connections.opened,
            lost=self.connections.lost,
            unlinked=self.connections.unlinked,
            refused=self._refused,
            welcomed=self._welcomed,
            tap=self._tap,
            open_path=self.udp_paths.open,
            hello=self.handshake.hello,
            request=self.requests.receive,
            end_session=self.lifecycle.end_session,
            token_confirmed=self.stored.changed,
            round_trip=self.metrics.round_trip.observe,
            received_early=fair_queue.received,
            received_more=fair_queue.received_more,
            first_portion=fair_queue.first_portion,
            over=throttle.over,
            over_message=throttle.over_message,
            allows_latest=throttle.allows_latest,
            allows_request=throttle.allows_request,
        )

    def accept(self) -> LiveConnection:
        """The receiver of a newly opened link."""
        return LiveConnection(self.connections.next_id(), self.connection_services)

    # Other nodes

    def _make_cluster(self, cluster: Cluster) -> None:
        committer, recovery = self.committer, self.recovery
        assert committer is not None
        assert recovery is not None
        durable = committer.sessions
        parts = self.cluster = ClusterParts(
            cluster,
            self.context,
            life=self.incarnation,
            node=self.health.info,
            rooms=self.rooms,
            lifecycle=self.lifecycle,
            connections=self.connections,
            services=self.connection_services,
            recovery=recovery,
            saved=SavedSessions(
                settled=committer.settled,
                seal=committer.seal,
                unseal=committer.unseal,
                let_go=durable.forget,
                adopt=lambda session, revision: durable.adopt(session, None, revision),
            ),
            grace_s=self.settings.grace_s,
            restored=self.access.session_restored,
            known=lambda connection: self.connection_limiter.known(connection, is_resumed=True),
            relayed=self.handshake.relayed,
            ask=self.requests.receive,
            is_asking=self.requests.is_asking,
            answered=self.requests.answered,
            is_waiting=self.handshake.is_waiting,
            committer=committer,
            outbox=self.outbox,
            messages=self.session_messages,
            drain=self.drain,
            access=self.access,
            notices=self.notices,
            presence=self.presence,
            shares=self.settings.shares,
        )
        self.sign_in.space_elsewhere = parts.directory.sign_ins.space
        self.stored.confirm = durable.confirm
        self.handshake.look_elsewhere = parts.edge.look
        self.handshake.is_leaving = parts.departures.is_leaving
        self.requests.look_elsewhere = parts.rooms.look
        self.requests.ask_elsewhere = parts.directory.remote.ask
        operations = self._directory_operations
        parts.directory.remote.operations = {**operations.table(), "enter": operations.enter}
        self.requests.on_answered = parts.handovers.settled
        operations.others = parts.directory
        parts.directory.share_guesses(operations)
        self.placements.fleet = parts.directory.fleet(self._own_fleet)
        self.placement_desk.others = parts.directory.placements(self.placements)

    # The order in which the parts handle events

    def _order_listeners(self) -> None:
        lifecycle, rooms, connections = self.lifecycle, self.rooms, self.connections
        lifecycle.on_prove += [self.access.roles.apply]
        if SPECTATOR_ROLE in self.settings.limits.by_role:
            lifecycle.on_move += [self.session_limiter.apply]
        self.access.roles.on_change += [self.session_limiter.apply]
        lifecycle.graces.may_end = lambda session: not self.stored.is_stuck(session)
        lifecycle.on_drop += [self.requests.dropped]
        lifecycle.on_detach += [rooms.index.watches.dropped, rooms.session_dropped]
        lifecycle.on_end += [lambda session, *_: rooms.index.watches.dropped(session)]
        if self.committer is not None:
            durable = self.committer.sessions
            lifecycle.close_connection = durable.close_connection
            lifecycle.on_end += [lambda session, *_: durable.ended(session)]
            durable.on_claim_ended = self.handshake.claim_ended
        lifecycle.on_end += [rooms.session_ended, lambda session, *_: self.session_messages.ended(session)]
        lifecycle.on_release += [rooms.index.watches.dropped, self.session_messages.ended]
        connections.on_link += [lambda connection: self.metrics.connection_opened(connection.transport_kind)]
        connections.admit = self.connection_limiter.admit
        connections.on_admit += [self.handshake.opened]
        connections.on_lost += [self.connection_limiter.lost, lifecycle.lost]
        connections.on_unlink += [
            lambda connection: self.metrics.connection_closed(connection.end_reason or Reason.DROPPED),
            self.connection_limiter.unlinked,
        ]

    # Callbacks between parts

    def _welcomed(self, connection: LiveConnection, session: Session) -> None:
        self.lifetimes.begin(connection, session)
        if self.cluster is not None:
            self.cluster.advertising.welcomed(connection, session)

    def _save_session(self, session: Session) -> None:
        self.stored.changed(session)

    def _sessions_max(self, identity: Identity) -> int:
        roles = self.access.roles.of(identity.player_id, identity.roles)
        return self.session_limiter.sessions_per_player_max(roles)

    def _is_store_failing(self) -> bool:
        return self.committer is not None and self.committer.is_failing

    def _store_broke(self, error: Broken) -> None:
        assert self.committer is not None
        self.committer.broken(error)

    def _pause(self, connection: LiveConnection, seconds: float) -> None:
        self.fair_queue.pause(connection, seconds)

    def _placement_changed(self, info: PlacementInfo, owner: str) -> None:
        self.bus.publish(PlacementChanged(placement=info.id, status=info.status, reason=info.reason))
        if owner:
            self.notices.placement(PlayerId(owner), info)

    def _refused(self, connection: LiveConnection, reason: Reason) -> None:
        self.bus.publish(
            ConnectionRefused(
                connection=connection.id,
                transport=connection.transport_kind,
                reason=reason,
                address=connection.address,
            )
        )

    def _tap(self, connection: LiveConnection) -> Sink | None:
        session, codec = connection.session, connection.codec
        packets, messages = self.packets.sink(connection, codec, session), self.messages.sink(codec, session)
        return joined_sinks(packets, messages) if packets is not None or messages is not None else None

    def _datagram_dropped(self, why: Refusal) -> None:
        counters = self.context.counters
        match why:
            case Refusal.UNKNOWN:
                counters.datagrams_unknown += 1
            case Refusal.FORGED:
                counters.datagrams_forged += 1
            case Refusal.LATE:
                counters.datagrams_late += 1

    def _renew_taps(self) -> None:
        for connection in self.connections:
            connection.tap = self._tap(connection)

    def _trace_written(self, session: Session, trace: "MessageTrace") -> None:
        """Let a trace end with the next payload to its session."""
        connection = session.connection
        if isinstance(connection, LiveConnection):
            connection.traces = [*(connection.traces or ()), trace]

    # Stopping

    async def stop(self) -> None:
        """End the rooms, then the connections, and wait until their transports have ended."""
        limits = self.settings.limits
        await self.placements.close()
        self.session_messages.stop()
        if self.recovery is not None:
            self.recovery.stop()
        await self.sign_in.stop()
        self._directory_operations.is_stopped = True
        await self.requests.stop()
        await self.rooms.close_all(limits.close_s)
        await self.player_saves.stop(limits.close_s)
        await self.access.stop(limits.commit_timeout_s)
        if self.committer is not None:
            await self.committer.stop(limits.commit_timeout_s)
        await self.outbox.stop()
        # Other nodes have the rooms already.
        retry_after_s = 0.0 if self.cluster is not None and self.cluster.others else RETRY_AFTER_STOP_S
        self.connections.close_all(Reason.STOPPING, "the server is stopping", retry_after_s=retry_after_s)
        self.rooms.suspend_all()
        for session in self.sessions:
            if self.stored.is_saved(session):
                self.lifecycle.release(session, Reason.STOPPING)
            else:
                self.lifecycle.end_session(session, Reason.STOPPING)
        if self.cluster is not None:
            await self.cluster.leave()
        await self.brains.stop(limits.close_s)
        self.lifecycle.graces.stop()
        self.lifetimes.stop()
        self.rooms.passwords.close()
        self.alarms.close()
        await self.bus.stop(limits.close_s)
        self.lines.close()
        self.packets.close()
        self.messages.close()
        self.events.close()
        await self.connections.wait_until_unlinked()
