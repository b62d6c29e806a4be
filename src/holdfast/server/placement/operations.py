"""The requests of a session about placements."""

from holdfast.core.session import Session
from holdfast.schemas.placement import PlacementInfo
from holdfast.schemas.requests import GetPlacement, StartPlacement, StopPlacement
from holdfast.server.directory.directory import Directory
from holdfast.server.directory.operations import Operation
from holdfast.server.placement.placements import Placements


class PlacementOperations:
    """Carries out placement requests of players, each for their own placements."""

    def __init__(self, placements: Placements, rooms: Directory) -> None:
        self._placements = placements
        self._rooms = rooms

    async def start(self, session: Session, request: StartPlacement) -> PlacementInfo:
        """Start a placement: a room on the best node."""
        self._rooms.check_role(request.kind, session.roles)
        return self._placements.start(request, session.player_id, session.address)

    async def get(self, session: Session, request: GetPlacement) -> PlacementInfo:
        """The state of one's own placement."""
        return self._placements.get(request.placement, session.player_id)

    async def stop(self, session: Session, request: StopPlacement) -> PlacementInfo:
        """Stop one's own placement."""
        return self._placements.stop(request.placement, session.player_id)

    def table(self) -> dict[str, Operation]:
        return {
            "get_placement": self.get,
            "start_placement": self.start,
            "stop_placement": self.stop,
        }
