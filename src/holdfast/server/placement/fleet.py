"""The fleet as this node knows it: itself. Placements work on a list of nodes, which a cluster will fill."""

from collections.abc import Callable
from contextlib import suppress

from holdfast.core.errors import Invalid, NotFound
from holdfast.core.session import PlayerId
from holdfast.schemas.node import NodeInfo
from holdfast.schemas.projection import project
from holdfast.schemas.requests import Create, StartPlacement
from holdfast.schemas.room import RoomInfo
from holdfast.server.directory.directory import Directory


class OwnFleet:
    """A fleet of one node."""

    def __init__(self, info: Callable[[], NodeInfo], rooms: Directory) -> None:
        self._info = info
        self._rooms = rooms

    def nodes(self) -> list[NodeInfo]:
        return [self._info()]

    async def place(self, node: str, request: StartPlacement, owner: str, address: str) -> RoomInfo:
        self._check_party(request)
        # Before the room is created, or every attempt would create and end one.
        self._rooms.reserved.check(owner, len(request.players))
        runner = await self._rooms.create(project(request, Create), owner, address=address)
        try:
            party = [PlayerId(player.id) for player in request.players]
            await runner.call(runner.reservations.reserve_placed, party, owner)
            await runner.persistence.saved()
        except BaseException:
            # Also when cancelled: nothing is left behind.
            runner.end("placement_failed")
            raise
        return runner.entry.info(sees_code=True)

    def _check_party(self, request: StartPlacement) -> None:
        """Refuse for good a party that no room of this kind can hold."""
        kind = self._rooms.type_of(request.kind)
        if kind is not None and len(request.players) > kind.max_players:
            raise Invalid(f"{len(request.players)} players do not fit in a room for {kind.max_players}")

    async def give_up(self, node: str, room_id: str) -> None:
        with suppress(NotFound):
            self._rooms.runner(room_id).end("placement_cancelled")
