"""Rooms on other nodes, for the requests of clients: the session goes where the room is."""

from collections.abc import Callable

from holdfast.core.errors import NotFound, Throttled
from holdfast.core.session import Session
from holdfast.logs import get_logger
from holdfast.schemas.cluster import Present, Whereabouts
from holdfast.schemas.frames import Request
from holdfast.server.cluster.finder import Finder, Unsure
from holdfast.server.cluster.handovers import Handovers
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.cluster.takeover import Takeover
from holdfast.server.directory.directory import Directory
from holdfast.server.rooms.approval import Interrupted
from holdfast.stores.port import StoreError

log = get_logger("holdfast.cluster")

# A room that moves while sessions follow it ends this, and two nodes that are of different minds.
_HOPS_MAX = 4


class RemoteRooms:
    """Finds the node of a room, and hands sessions over to it."""

    def __init__(
        self, node: ClusterNode, finder: Finder, takeover: Takeover, handovers: Handovers, rooms: Directory
    ) -> None:
        self._node = node
        self._finder = finder
        self._takeover = takeover
        self._handovers = handovers
        self._rooms = rooms

    async def look(self, session: Session, missing: NotFound, requests: Callable[[], list[Request]]) -> None:
        """Hand the session over to the node of the room; returns if the room is here by now."""
        life = await self.life_of(missing)
        if life == self._node.life:
            return
        if self._handovers.hops(session) >= _HOPS_MAX:
            raise Throttled("this room is moving from node to node; try again in a moment")
        await self._handovers.give(session, life, requests)
        raise Interrupted

    async def life_of(self, missing: NotFound) -> str:
        """The node that has a room, or takes it now; the refusal if there is no such room."""
        try:
            if missing.room_id:
                life = await self._takeover.room(missing.room_id)
            else:
                found = await self._finder.find("code", missing.room_code)
                life = found.life if found is not None else None
        except (Unsure, StoreError):
            raise Throttled("a node of the cluster does not answer; try again in a moment") from None
        if life is None:
            raise missing
        return life


def whereabouts(
    rooms: Directory, has_session: Callable[[str], bool], is_expected: Callable[[str], bool]
) -> Callable[[Whereabouts], Present]:
    """What of something is here: the answer to other nodes."""

    def here(wanted: Whereabouts) -> Present:
        codes = {code: room_id for code in wanted.codes if (room_id := rooms.names.coded(code)) is not None}
        return Present(
            [each for each in wanted.sessions if has_session(each)],
            [each for each in wanted.rooms if rooms.get(each) is not None],
            codes,
            [each for each in wanted.sessions if is_expected(each)],
        )

    return here
