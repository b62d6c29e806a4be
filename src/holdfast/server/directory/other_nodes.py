"""What the requests of players need of the other nodes of a cluster."""

from typing import Protocol

from holdfast.core.errors import NotFound
from holdfast.core.session import PlayerId, Session
from holdfast.schemas.requests import Join, JoinOrCreate
from holdfast.schemas.room import RoomInfo
from holdfast.schemas.shared import SeatHere


class OtherNodes(Protocol):
    """The other nodes."""

    async def seats(self, player_id: PlayerId) -> list[SeatHere]:
        """Where on other nodes a player has a seat or a reservation; `Throttled` if one of them does not answer."""

    async def own_seat(self, player_id: PlayerId, kind: str) -> str:
        """The id of a room of this kind on another node in which the player has a seat, or has reserved one; or ""."""

    async def find_seat(self, session: Session, request: JoinOrCreate) -> str:
        """The id of a room, on whichever node, with a seat for the player: one that was open, or a new one."""

    async def show(self, player_id: PlayerId, room_id: str) -> RoomInfo | None:
        """A room of another node, as the player may see it."""

    async def has_code(self, code: str) -> bool:
        """Whether a room of another node has this code; `Throttled` if one of them does not answer."""

    async def enter(self, session: Session, request: Join, missing: NotFound) -> None:
        """Keep a seat for the player in a missing room, or raise the refusal."""

    def has_come(self, session: Session) -> bool:
        """Whether the session has come here for its present request."""
