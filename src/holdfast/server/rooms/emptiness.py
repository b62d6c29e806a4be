"""An empty room waits a while for somebody to come, then it ends."""

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.server.node import Node
    from holdfast.server.rooms.room_host import RoomHost


class Emptiness:
    """The wait of one room that nobody is in."""

    def __init__(self, host: "RoomHost", node: "Node", loop: asyncio.AbstractEventLoop) -> None:
        self._host = host
        self._node = node
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    def check(self) -> None:
        """Begin to wait for the end of an empty room, or stop waiting."""
        self.stop()
        host = self._host
        if host.room.seats_used == 0 and not host.is_closing:
            ttl_s = host.room.empty_ttl_s if host.was_joined else self._node.limits.unjoined_s
            self._timer = self._loop.call_later(ttl_s, host.end, "empty" if host.was_joined else "never_joined")

    def stop(self) -> None:
        """Wait no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
