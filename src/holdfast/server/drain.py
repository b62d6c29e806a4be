"""Draining: the node takes nothing new and says so; what would not outlive it has a while to come to its end.

Durable rooms need no time: they are saved, and go on elsewhere or after the restart.
"""

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.events import Event, NodeDraining, RoomEnded, SeatFreed
from holdfast.core.room import Room

if TYPE_CHECKING:
    from holdfast.server.node import Node
    from holdfast.server.room_host import RoomHost


class Drain:
    """What happens between SIGTERM and the end."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._emptied = asyncio.Event()
        self.is_on = False

    @property
    def waits_for(self) -> "list[RoomHost]":
        """The rooms that end with this node and have somebody in them."""
        return [
            host for host in self._node.rooms.hosts() if host.room.durability == "memory" and host.room.seats_used > 0
        ]

    async def run(self, within_s: float) -> None:
        """Announce the end, and wait until no room needs the time, or there is none left."""
        self.begin(within_s)
        try:
            async with asyncio.timeout(within_s):
                await self._emptied.wait()
        except TimeoutError:
            pass

    def begin(self, within_s: float) -> None:
        """Take nobody new, and tell those who are here."""
        if self.is_on:
            return
        self.is_on = True
        node = self._node
        node.health.is_ready = False
        node.bus.observe(self._happened)
        node.publish(NodeDraining(node=node.name, deadline_s=within_s))
        for session in node.sessions:
            node.notices.stopping(session, within_s)
        for host in node.rooms.hosts():
            if type(host.room).on_stopping is not Room.on_stopping and not host.room.is_closing:
                host.follow(host.room.on_stopping, within_s)
        self._check()

    def _happened(self, event: Event) -> None:
        if isinstance(event, RoomEnded | SeatFreed):
            self._check()

    def _check(self) -> None:
        if not self.waits_for:
            self._emptied.set()
