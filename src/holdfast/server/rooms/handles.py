"""What sessions and connections can do with a room: with its seats, or with the places of its spectators."""

from collections.abc import Callable
from typing import Any

from holdfast.core.reasons import Reason
from holdfast.core.room import Room
from holdfast.core.room_context import RoomContext
from holdfast.core.session import RoomHandle, Seat, Session
from holdfast.server.rooms.delivery import Delivery


def make_handle(
    room: Room[Any],
    context: RoomContext,
    delivery: Delivery,
    *,
    keep: Callable[[Session], None],
    has_read: Callable[[Seat], None],
    dropped: Callable[[Seat], None],
    returned: Callable[[Seat, bool], None],
    leave: Callable[[Seat], None],
    free: Callable[[Seat, Reason, str], None],
) -> RoomHandle:
    """`delivery` is the way in for their messages; the rest is what becomes of a seat, or of a spectator's place."""
    return RoomHandle(
        id=room.id,
        kind=room.kind,
        is_saved=room.durability != "memory",
        grace_s=lambda: room.grace_s,
        keep=keep,
        deliver=delivery.deliver,
        refuse=delivery.refuse,
        deliver_latest=delivery.deliver_latest,
        has_read=has_read,
        dropped=dropped,
        returned=returned,
        leave=leave,
        free=free,
        later=context.later,
    )
