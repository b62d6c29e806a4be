"""The nodes of a cluster as the fleet of its queues: placements choose among them by region, latency and load.

A placement belongs to the node on which it was started; the room may be on any.
"""

from random import Random

from holdfast.cluster.membership import MemberState
from holdfast.core.errors import NotFound, Throttled
from holdfast.core.limits import Limits
from holdfast.core.tokens import printable
from holdfast.schemas.node import NodeInfo
from holdfast.schemas.requests import StartPlacement
from holdfast.schemas.room import RoomInfo
from holdfast.schemas.shared import GiveUpRoom, PlaceRoom
from holdfast.server.cluster.asking import Asking, Gone, Repeats
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.placement import OwnFleet

_PLACE, _GIVE_UP = "place_room", "give_up_room"
_ID_BYTES = 9


class ClusterFleet:
    """All nodes that live; a `Fleet`."""

    def __init__(
        self, node: ClusterNode, asking: Asking, own: OwnFleet, repeats: Repeats, limits: Limits, random: Random
    ) -> None:
        self._node = node
        self._asking = asking
        self._own = own
        self._limits = limits
        self._random = random
        self._repeats = repeats
        asking.answer(_PLACE, PlaceRoom, self._place_here)
        asking.answer(_GIVE_UP, GiveUpRoom, self._give_up_here)

    def nodes(self) -> list[NodeInfo]:
        beats = [
            member.beat
            for member in self._node.watch.membership.members.values()
            if member.state is MemberState.ALIVE and not member.beat.is_draining
        ]
        others = [
            NodeInfo(
                name=beat.name,
                region=beat.region,
                is_ready=not beat.reasons,
                is_healthy=not beat.reasons,
                rooms=beat.rooms,
                rooms_max=beat.rooms_max,
                sessions=beat.sessions,
                reasons=list(beat.reasons),
            )
            for beat in beats
        ]
        return [*self._own.nodes(), *others]

    async def place(self, node: str, request: StartPlacement, owner: str, address: str) -> RoomInfo:
        life = self._life_of(node)
        if life == self._node.life:
            return await self._own.place(node, request, owner, address)
        asked = PlaceRoom(printable(self._random.randbytes(_ID_BYTES)), request, owner, address)
        try:
            return await self._asking.ask(life, _PLACE, asked, RoomInfo, within_s=2 * self._limits.activation_s)
        except Gone:
            raise Throttled(f"the node {node!r} has just gone") from None

    async def give_up(self, node: str, room_id: str) -> None:
        life = self._life_of(node)
        try:
            await self._asking.ask(life, _GIVE_UP, GiveUpRoom(room_id), bool, within_s=self._limits.silent_s)
        except Gone:
            return  # and with it the room, unless it is durable: then nobody joins it, and it ends

    def _life_of(self, name: str) -> str:
        if name == self._own.nodes()[0].name:
            return self._node.life
        members = self._node.watch.membership.members
        life = next((life for life in members if self._node.is_alive(life) and self._node.name_of(life) == name), None)
        if life is None:
            raise Throttled(f"the node {name!r} has just gone")
        return life

    # For placements of other nodes

    async def _place_here(self, asked: PlaceRoom) -> RoomInfo:
        own = self._own.nodes()[0].name
        return await self._repeats.once(
            f"{_PLACE} {asked.id}",
            lambda: self._own.place(own, asked.request, asked.owner, asked.address),
            player=asked.owner,
            address=asked.address,
        )

    async def _give_up_here(self, asked: GiveUpRoom) -> bool:
        try:
            await self._own.give_up("", asked.room)
        except NotFound:
            return False
        return True
