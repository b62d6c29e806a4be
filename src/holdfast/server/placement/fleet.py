"""The fleet as this node knows it: itself. Placements are written against a list of nodes, which a cluster fills."""

from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.errors import Invalid, NotFound
from holdfast.core.placement import NodeView
from holdfast.core.session import PlayerId
from holdfast.schemas.projection import project
from holdfast.schemas.requests import Create, StartPlacement
from holdfast.schemas.room import RoomInfo

if TYPE_CHECKING:
    from holdfast.server.node import Node


class OwnFleet:
    """One node."""

    def __init__(self, node: "Node") -> None:
        self._node = node

    def nodes(self) -> list[NodeView]:
        """The nodes that rooms can be placed on."""
        info = self._node.health.info()
        return [NodeView(info.name, info.region, info.is_ready, info.is_healthy, info.rooms, info.rooms_max)]

    async def place(self, node: str, request: StartPlacement, owner: str, address: str) -> RoomInfo:
        """Make the room, with a seat for everybody or not at all."""
        directory = self._node.rooms
        self._check_party(request)
        # Before the room is made, or one would be made and ended again at each attempt.
        self._node.rooms.reserved.check(owner, len(request.players))
        runner = await directory.create(project(request, Create), owner, address=address)
        try:
            party = [PlayerId(player.id) for player in request.players]
            await runner.call(runner.reservations.reserve_placed, party, owner)
            await runner.persistence.saved()
        except BaseException:
            # Also if it is cancelled: nothing is left behind.
            runner.end("placement_failed")
            raise
        return runner.entry.info(sees_code=True)

    def _check_party(self, request: StartPlacement) -> None:
        """Refuse for good what no room of this kind will ever hold."""
        kind = self._node.rooms.type_of(request.kind)
        if kind is not None and len(request.players) > kind.max_players:
            raise Invalid(f"{len(request.players)} players do not fit in a room for {kind.max_players}")

    async def give_up(self, node: str, room_id: str) -> None:
        """Nobody wants the room any more."""
        with suppress(NotFound):
            self._node.rooms.runner(room_id).end("placement_cancelled")
