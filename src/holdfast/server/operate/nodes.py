"""The nodes of a cluster as operators see them: list them, drain one, move a room to another."""

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.cluster.membership import ClusterMember, MemberState
from holdfast.cluster.port import BusError
from holdfast.core.errors import NotAllowed, Throttled
from holdfast.core.limits import Limits
from holdfast.schemas.beat import Beat
from holdfast.schemas.cluster import DrainNode
from holdfast.schemas.node import MemberInfo, NodeInfo, NodeList, RoomPlace
from holdfast.server.cluster.emptying import Emptying
from holdfast.server.cluster.finder import Unsure
from holdfast.server.cluster.parts import ClusterParts
from holdfast.server.context import Context

_DRAIN = "drain"


class NodeOperations:
    """All nodes, asked on any of them. Without a cluster there is one, and nothing to be moved."""

    def __init__(
        self, context: Context, cluster: ClusterParts | None, *, life: str, this_one: Callable[[], NodeInfo]
    ) -> None:
        self._now = context.clock.now
        self._limits: Limits = context.limits
        self._cluster = cluster
        self._life = life
        self._this_one = this_one
        if cluster is not None:
            cluster.node.questions.answer(_DRAIN, DrainNode, self._asked)

    @property
    def name(self) -> str:
        """What this node is called among the others; empty without a cluster."""
        return self._cluster.node.name if self._cluster is not None else ""

    def list(self) -> NodeList:
        """This node, and the others by name; those that are dead or have left for a minute."""
        if self._cluster is None:
            info = self._this_one()
            return NodeList(
                [
                    MemberInfo(
                        info.name,
                        self._life,
                        MemberState.ALIVE.value,
                        is_self=True,
                        region=info.region,
                        rooms=info.rooms,
                        rooms_max=info.rooms_max,
                        sessions=info.sessions,
                        reasons=info.reasons,
                    )
                ]
            )
        node = self._cluster.node
        others = [self._of_member(each) for each in node.watch.membership.members.values()]
        this_one = _of_beat(node.beat, MemberState.ALIVE, is_self=True)
        return NodeList(sorted([this_one, *others], key=lambda each: (each.name, each.started_at)), self._cluster.place)

    def _of_member(self, member: ClusterMember) -> MemberInfo:
        return _of_beat(member.beat, member.state, heard_s=max(0.0, self._now() - member.heard_at))

    # What changes something

    async def drain(self, name: str, *, is_on: bool = True) -> MemberInfo:
        """Let a node hand over everything that can go on elsewhere, and take nothing new; or end that.

        Returns once it has begun.
        """
        cluster = self._in_cluster("drained: stop it, and its players return after the restart")
        life = cluster.node.life_of(name)
        if life == cluster.node.life:
            self._asked(DrainNode(is_on=is_on))
        else:
            await self._ask(cluster, life, is_on=is_on)
        info = next(each for each in self.list().nodes if each.life == life)
        # Its next beat says so.
        return info if info.is_draining is is_on else replace(info, is_draining=is_on, is_drained=False)

    @staticmethod
    async def _ask(cluster: ClusterParts, life: str, *, is_on: bool) -> None:
        try:
            await cluster.node.questions.ask(life, _DRAIN, DrainNode(is_on=is_on), bool)
        except BusError:
            raise Throttled(f"the node {cluster.node.name_of(life)} does not answer; try again") from None

    def _asked(self, asked: DrainNode) -> bool:
        emptying: Emptying = self._in_cluster("drained").emptying
        if asked.is_on:
            emptying.begin()
        else:
            emptying.cancel()
        return True

    async def move(self, room_id: str, to: str) -> RoomPlace:
        """Let a room go on on another node, with everybody in it; returns once it is there."""
        cluster = self._in_cluster("moved: there is no other node")
        try:
            await cluster.migration.move(room_id, to)
        except Unsure:
            raise Throttled("a node of the cluster does not answer; it may have the room: try again") from None
        return RoomPlace(room_id, cluster.node.name_of(cluster.node.life_of(to)))

    def _in_cluster(self, what: str) -> ClusterParts:
        if self._cluster is None:
            raise NotAllowed(f"this server is not a node of a cluster, so nothing can be {what}")
        return self._cluster


def _of_beat(beat: Beat, state: MemberState, *, heard_s: float = 0.0, is_self: bool = False) -> MemberInfo:
    return MemberInfo(
        name=beat.name or beat.life,
        life=beat.life,
        state=state.value,
        is_self=is_self,
        version=beat.version,
        region=beat.region,
        address=beat.address,
        started_at=beat.started_at,
        heard_s=heard_s,
        is_draining=beat.is_draining,
        is_drained=beat.is_drained,
        load=beat.load,
        rooms=beat.rooms,
        rooms_max=beat.rooms_max,
        sessions=beat.sessions,
        connections=beat.connections,
        kinds=list(beat.kinds),
        loop_age_s=beat.loop_age_s,
        reasons=list(beat.reasons),
    )
