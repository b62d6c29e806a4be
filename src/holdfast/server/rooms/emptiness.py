"""An empty room waits a while for somebody to come, then it ends.

A room that nobody has joined yet has one deadline: attempts to join it, and seats that players reserve in it, do not
put it off. Seats that an operator or a placement reserved do, for as long as they were promised.
"""

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.server.node import Node
    from holdfast.server.rooms.runner import RoomRunner


class Emptiness:
    """The wait of one room that nobody is in."""

    def __init__(self, host: "RoomRunner", node: "Node", loop: asyncio.AbstractEventLoop) -> None:
        self._host = host
        self._node = node
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._unjoined_until: float | None = None

    def check(self) -> None:
        """Begin to wait for the end of an empty room, or stop waiting."""
        self.stop()
        room = self._host.room
        if self._unjoined_until is None:
            self._unjoined_until = self._node.now() + self._node.limits.unjoined_s
        if self._host.is_closing or room.seats:
            return
        if not self._host.was_joined and not room.reservations.is_room_needed:
            left_s = max(0.0, self._unjoined_until - self._node.now())
            self._timer = self._loop.call_later(left_s, self._host.end, "never_joined")
        elif self._host.was_joined and room.seats_used == 0:
            self._timer = self._loop.call_later(room.empty_ttl_s, self._host.end, "empty")

    def stop(self) -> None:
        """Wait no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
