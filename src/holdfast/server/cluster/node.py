"""This server among the other nodes: its link to them, its beats, and what it knows of who lives."""

import asyncio
from collections.abc import Callable

from holdfast.cluster.descriptors import Descriptors
from holdfast.cluster.direct import DirectBus
from holdfast.cluster.heart import Heart, beating, say_bye
from holdfast.cluster.membership import MemberState
from holdfast.cluster.port import Bus
from holdfast.cluster.questions import Questions
from holdfast.cluster.relay import ClientRelay
from holdfast.cluster.setting import Cluster
from holdfast.cluster.watch import MemberWatch
from holdfast.core.errors import Invalid, NotFound
from holdfast.core.limits import Limits
from holdfast.logs import get_logger
from holdfast.schemas.beat import Beat

log = get_logger("holdfast.cluster")


class ClusterNode:
    """One node, from `start` to `stop`."""

    def __init__(
        self,
        cluster: Cluster,
        limits: Limits,
        life: str,
        make_beat: Callable[[int, float], Beat],
        *,
        wall_clock: Callable[[], float],
    ) -> None:
        """`make_beat` is called from another thread."""
        self._limits = limits
        self._make_beat = make_beat
        self._cluster = cluster
        self.life = life
        """This run of the process, in the words of all nodes."""
        self.bus: Bus = cluster.make_bus()
        descriptors = None
        if cluster.links is not None:
            self.bus = DirectBus(self.bus, life, cluster.links)
            descriptors = Descriptors(life, cluster.links, kept_s=limits.relay_passing_s)
        self.watch = MemberWatch(self.bus, self.life, limits, wall_clock)
        self.questions = Questions(self.bus, self.watch, self.life, limits)
        self.relay = ClientRelay(self.bus, self.life, limits, descriptors=descriptors)
        self.watch.on_change.append(self.relay.node_changed)
        self._heart = Heart(cluster.make_bus, make_beat, limits) if cluster.has_threads else None
        self._beating: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Hear the other nodes, and be heard by them; returns once it knows those that live."""
        await self.bus.open()
        try:
            await self.questions.start()
            await self.relay.start()
            await self.watch.start()
            if self._heart is not None:
                await self._heart.start()
            else:
                self._beating = asyncio.create_task(
                    beating(self.bus, self._make_beat, self._limits, lambda: 0.0), name="beats"
                )
        except BaseException:
            await self.bus.close()
            raise
        # Whoever knows nobody takes everybody for dead.
        await asyncio.sleep(self._limits.suspect_s)

    async def leave(self) -> None:
        """Say bye: the rooms of this node are saved, and others may have them."""
        heart, self._heart = self._heart, None
        beating, self._beating = self._beating, None
        if heart is not None:
            await heart.stop()
        elif beating is not None:
            beating.cancel()
            await asyncio.wait([beating])
            await say_bye(self.bus, self.life)

    async def stop(self) -> None:
        """Hear nobody any more."""
        await self.leave()
        await self.watch.stop()
        await self.relay.stop()
        await self.bus.close()

    @property
    def beat(self) -> Beat:
        """What this node says of itself now."""
        return self._make_beat(0, 0.0)

    def node_before(self, life: str) -> tuple[str, bool]:
        """The name of the other node that had something, and whether it is dead; "" for one that is not known."""
        member = self.watch.membership.members.get(life)
        return ("", False) if member is None else (self.name_of(life), member.state is MemberState.DEAD)

    def address_of(self, life: str) -> str:
        """The address that another node alone has; empty if it has none, or is not known."""
        member = self.watch.membership.members.get(life)
        return "" if member is None else member.beat.address

    @property
    def name(self) -> str:
        """What people call this node."""
        return self.beat.name or self.life

    def is_alive(self, life: str) -> bool:
        """Whether a node lives, as far as is known."""
        member = self.watch.membership.members.get(life)
        return life == self.life or (member is not None and member.state is MemberState.ALIVE)

    def may_live(self, life: str) -> bool:
        """Whether a node is not known to be dead or gone."""
        member = self.watch.membership.members.get(life)
        return member is not None and member.state in {MemberState.ALIVE, MemberState.SUSPECT}

    def able(self, kind: str) -> list[str]:
        """The nodes that can take a room of this kind now, as far as is known."""
        return self.watch.membership.able(kind, self.beat)

    def able_by_load(self, kind: str) -> list[str]:
        """The same, the least loaded first."""
        members, own = self.watch.membership.members, self.beat
        return sorted(
            self.watch.membership.able(kind, own),
            key=lambda life: ((own if life == self.life else members[life].beat).load, life),
        )

    def next_owner(self, room_id: str, kind: str) -> str | None:
        """Which node should take a room that nobody has; None if none can."""
        return self.watch.membership.next_owner(room_id, kind, self.beat)

    def next_taker(self, session_id: str) -> str | None:
        """The same for a session without a room."""
        return self.watch.membership.next_taker(session_id, self.beat)

    def clock_ahead_s(self, life: str) -> float:
        """How far the wall clock of a node is ahead of this one's, as far as is known."""
        member = self.watch.membership.members.get(life)
        return member.clock_ahead_s if member is not None else 0.0

    def name_of(self, life: str) -> str:
        """The name of a node, for people."""
        if life == self.life:
            return self.name
        member = self.watch.membership.members.get(life)
        return (member.beat.name if member is not None else "") or life

    def life_of(self, name: str) -> str:
        """The life of the node with this name, or this life; `Refused` if there is none that lives, or several."""
        named = [life for life in (self.life, *self.watch.membership.members) if name in {life, self.name_of(life)}]
        alive = [life for life in named if self.is_alive(life)]
        if not alive:
            known = ", ".join(sorted(self.name_of(life) for life in self.lives))
            raise NotFound(f"there is no node {name!r} in the cluster; there are: {known}")
        if len(alive) > 1:
            raise Invalid(f"{len(alive)} nodes have the name {name!r}: use a life, one of {', '.join(alive)}")
        return alive[0]

    @property
    def lives(self) -> list[str]:
        """The nodes that live, this one first."""
        return [self.life, *(life for life in self.watch.membership.members if self.is_alive(life))]
