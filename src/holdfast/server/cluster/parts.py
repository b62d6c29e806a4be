"""Composes what makes a server a node of a cluster."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from holdfast.cluster.membership import MemberChange, MemberState
from holdfast.cluster.relay import RelayedLink
from holdfast.cluster.setting import Cluster
from holdfast.core.addresses import AddressShares
from holdfast.core.session import Session
from holdfast.observability.exposition import ClusterNumbers, holdfast_version
from holdfast.schemas.beat import Beat
from holdfast.schemas.events import Event, NodeDied, NodeJoined, NodeLeft
from holdfast.schemas.frames import Request
from holdfast.schemas.node import NodeInfo
from holdfast.server.admission.access import Access
from holdfast.server.cluster.advertising import Advertising
from holdfast.server.cluster.departures import Departures
from holdfast.server.cluster.edge import Edge
from holdfast.server.cluster.emptying import Emptying
from holdfast.server.cluster.finder import Finder
from holdfast.server.cluster.handovers import Handovers, SavedSessions
from holdfast.server.cluster.migration import Migration
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.cluster.rooms import RemoteRooms, whereabouts
from holdfast.server.cluster.saved_rooms import writer_of
from holdfast.server.cluster.shared import SharedDirectory
from holdfast.server.cluster.takeover import Takeover
from holdfast.server.connection.connection import ConnectionServices, LiveConnection
from holdfast.server.connection.connections import Connections
from holdfast.server.context import Context
from holdfast.server.directory.directory import Directory
from holdfast.server.durability.committer import Committer
from holdfast.server.durability.recovery import Recovery
from holdfast.server.health import Drain
from holdfast.server.presence import Presence
from holdfast.server.rooms.outbox import Outbox
from holdfast.server.session_messages import SessionMessages
from holdfast.server.sessions import Notices, SessionLifecycle
from holdfast.stores.port import Entry
from holdfast.transports.port import Accept, Subprotocol, TransportLimits


class ClusterParts:
    """The parts of one node that know of others."""

    def __init__(  # noqa: PLR0913 - what it needs of the server, all by keyword
        self,
        cluster: Cluster,
        context: Context,
        *,
        life: str,
        node: Callable[[], NodeInfo],
        rooms: Directory,
        lifecycle: SessionLifecycle,
        connections: Connections,
        services: ConnectionServices,
        recovery: Recovery,
        saved: SavedSessions,
        grace_s: float,
        restored: Callable[[Session], None],
        known: Callable[[LiveConnection], None],
        relayed: Callable[[LiveConnection], None],
        ask: Callable[[Session, Request], None],
        is_asking: Callable[[Session], bool],
        answered: Callable[[Session], Awaitable[None]],
        is_waiting: Callable[[LiveConnection], bool],
        committer: Committer,
        outbox: Outbox,
        messages: SessionMessages,
        drain: Drain,
        access: Access,
        notices: Notices,
        presence: Presence,
        shares: AddressShares,
    ) -> None:
        limits = context.limits
        self.place = cluster.place
        self.is_ending = False
        """Whether the whole cluster ends."""
        version, started_at = holdfast_version(), context.clock.wall_clock()

        def beat(number: int, loop_age_s: float) -> Beat:
            info = node()
            return Beat(
                life=life,
                number=number,
                name=info.name,
                version=version,
                kinds=tuple(rooms.types),
                rows=self.shared.teller.number if self.shared is not None else 0,
                news=self.shared.news.number if self.shared is not None else 0,
                load=min(1.0, info.rooms / max(1, info.rooms_max)),
                is_draining=drain.is_leaving,
                is_drained=self.emptying.is_done,
                loop_age_s=loop_age_s,
                region=info.region,
                address=cluster.address,
                started_at=started_at,
                rooms=info.rooms,
                rooms_max=info.rooms_max,
                sessions=info.sessions,
                connections=len(connections),
                reasons=tuple(info.reasons),
                wall_clock=context.clock.wall_clock(),
            )

        def has_room(room_id: str) -> bool:
            return rooms.get(room_id) is not None

        def is_expected(session_id: str) -> bool:
            return self.handovers.is_expected(session_id)

        def has_session(session_id: str) -> bool:
            return lifecycle.registry.get(session_id) is not None

        # The first beat is made for the life in it.
        self.shared: SharedDirectory | None = None
        self._limits = TransportLimits.of(limits)
        clock = context.clock
        self.node = ClusterNode(
            cluster,
            limits,
            life,
            beat,
            wall_clock=lambda: clock.wall_clock(),  # noqa: PLW0108 - tests change it
        )
        recovery.clock_ahead_s = self.node.clock_ahead_s
        recovery.node_before = self.node.node_before
        self.finder = Finder(self.node.questions, whereabouts(rooms, has_session, is_expected))
        self.takeover = Takeover(
            context,
            self.node,
            self.finder,
            committer.store,
            recovery,
            has_room=has_room,
            has_session=has_session,
            is_ending=committer.sessions.is_ending,
            is_claimed=committer.is_claimed,
            is_carried=outbox.has,
            confirm_rooms=committer.confirm_rooms,
        )
        self.departures = Departures(context, self.node, lifecycle, messages, notices)
        self.handovers: Handovers = Handovers(
            context,
            self.node,
            departures=self.departures,
            finder=self.finder,
            lifecycle=lifecycle,
            connections=connections,
            services=services,
            saved=saved,
            grace_s=grace_s,
            restored=restored,
            known=known,
            switches=rooms.session_switches,
            ask=ask,
            is_asking=is_asking,
            is_watching=rooms.index.watches.has,
            is_stopping=lambda: rooms.is_stopping,
        )
        connections.on_link.append(_count_from_its_node)
        self.migration = Migration(
            context,
            self.node,
            rooms=rooms,
            lifecycle=lifecycle,
            committer=committer,
            outbox=outbox,
            takeover=self.takeover,
            handovers=self.handovers,
            departures=self.departures,
            is_asking=is_asking,
            answered=answered,
            is_full=rooms.why_not_taken,
        )
        notices.divert = lambda session, notice: (
            self.departures.keeps(session, notice) or self.handovers.keeps(session, notice)
        )
        self.node.watch.on_change.append(partial(_publish_change, context.publish, self.node))
        self.emptying = Emptying(context, self.node, drain=drain, migration=self.migration, rooms=rooms)
        self.edge = Edge(
            self.node,
            self.takeover,
            self.departures,
            self._limits,
            context.faults,
            patience_s=limits.silent_s,
            is_waiting=is_waiting,
            relayed=relayed,
        )
        self.advertising = Advertising(self.node, cluster.address)
        self.rooms = RemoteRooms(self.node, self.finder, self.takeover, self.handovers, rooms)
        self.directory = self.shared = SharedDirectory(
            context,
            self.node,
            self.takeover,
            committer.store,
            rooms=rooms,
            lifecycle=lifecycle,
            access=access,
            notices=notices,
            presence=presence,
            shares=shares,
            grace_s=grace_s,
            find=self.rooms.life_of,
            has_come=lambda session: self.handovers.hops(session) > 0,
        )
        committer.on_foreign.append(partial(_note_writers, self.node))
        self.takeover.suspects.listed = self.shared.listener.durable_rooms_of

    @property
    def numbers(self) -> ClusterNumbers:
        """What this node counts of its cluster."""
        states = Counter({"alive": 1, "suspect": 0, "dead": 0})
        for member in self.node.watch.membership.members.values():
            if member.state is not MemberState.LEFT:
                states[member.state.value] += 1
        return ClusterNumbers(
            states=states,
            is_draining=self.node.beat.is_draining,
            relayed=self.edge.relayed_count,
            given=self.handovers.given,
            taken=self.handovers.taken,
            rooms_taken=self.takeover.rooms_taken,
            rooms_unowned=self.takeover.rooms_unowned,
        )

    @property
    def others(self) -> list[str]:
        """The names of the other nodes that live."""
        node = self.node
        return sorted(node.name_of(life) for life in node.watch.membership.members if node.may_live(life))

    async def start(self, accept: Accept, subprotocols: Sequence[Subprotocol]) -> None:
        """Hear the other nodes, and be heard; take the clients that they relay."""
        self.node.relay.listen(accept, subprotocols=subprotocols, limits=self._limits, follow=self.handovers.follow)
        await self.node.start()
        await self.directory.start()

    def begin(self) -> None:
        """Take over what no node has: from now on this one writes."""
        self.takeover.start()
        self.directory.begin()

    def end_whole(self) -> None:
        """All nodes end now: what is here does not go on elsewhere."""
        self.is_ending = True
        self.takeover.stop()

    async def stop_taking(self) -> None:
        """Take nothing more, and give nothing more away: this node ends."""
        self.emptying.stop()
        self.edge.stop()
        self.takeover.stop()
        self.directory.stop()
        await self.migration.stop()
        self.handovers.stop()
        self.finder.stop()
        await self.takeover.stopped()

    async def leave(self) -> None:
        """Everything here is saved: others may have it, while the last connections are closing."""
        await self.node.leave()

    async def stop(self) -> None:
        """Nobody is connected any more."""
        self.departures.stop()
        await self.node.stop()


def _note_writers(node: ClusterNode, entries: list[Entry]) -> None:
    """Other nodes have saved these rooms, which were here: they live."""
    for entry in entries:
        node.watch.wrote(writer_of([entry]))


def _count_from_its_node(connection: LiveConnection) -> None:
    """A relayed connection was opened when its client came to the node that relays it."""
    if isinstance(connection.transport, RelayedLink):
        connection.opened_at -= connection.transport.age_s


def _publish_change(publish: Callable[[Event], None], node: ClusterNode, change: MemberChange) -> None:
    """Tell of another node that has come or gone."""
    name = node.name_of(change.life)
    match change.after:
        case MemberState.ALIVE if change.before is not MemberState.SUSPECT:
            version = node.watch.membership.members[change.life].beat.version
            publish(NodeJoined(node=name, life=change.life, version=version))
        case MemberState.DEAD:
            publish(NodeDied(node=name, life=change.life, why=change.why))
        case MemberState.LEFT:
            publish(NodeLeft(node=name, life=change.life))
        case _:
            pass
