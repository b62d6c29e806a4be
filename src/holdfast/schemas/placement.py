"""Placements and their queues as data."""

from msgspec import Struct

from holdfast.schemas.room import RoomInfo


class PlacementInfo(Struct, frozen=True, omit_defaults=True):
    """A placement: pending until it is fulfilled, cancelled, timed_out or failed."""

    id: str
    queue: str
    status: str
    players: list[str]
    reason: str = ""
    node: str = ""
    room: RoomInfo | None = None
    started_at: float = 0.0
    ended_at: float = 0.0


class QueueInfo(Struct, frozen=True, omit_defaults=True):
    """A queue of placements: its destinations, and how long it tries."""

    name: str
    destinations: list[str]
    timeout_s: float
    pending: int = 0
