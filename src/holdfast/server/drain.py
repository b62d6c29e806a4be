"""Draining: the node takes nothing new and says so; what would not outlive it has a while to come to its end.

Durable rooms need no time: they are saved, and go on elsewhere or after the restart.
"""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.room import Room
from holdfast.schemas.events import Event, NodeDraining, RoomEnded, SeatExpired, SeatFreed

if TYPE_CHECKING:
    from holdfast.server.node import Node
    from holdfast.server.rooms.runner import RoomRunner


class Drain:
    """What happens between SIGTERM and the end."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        # Rooms that were waited for when we last looked at all of them.
        self._waiting: set[str] = set()
        self._emptied = asyncio.Event()
        self.is_on = False

    @property
    def waits_for(self) -> "list[RoomRunner]":
        """The rooms that end with this node and have somebody in them."""
        return [
            host for host in self._node.rooms.hosts() if host.room.durability == "memory" and host.room.seats_used > 0
        ]

    async def run(self, within_s: float) -> None:
        """Announce the end, and wait until no room needs the time, or there is none left."""
        self.begin(within_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._emptied.wait()

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
        self._look()

    def _happened(self, event: Event) -> None:
        if isinstance(event, RoomEnded | SeatFreed | SeatExpired):
            self.look_at(event.room)

    def look_at(self, room_id: str) -> None:
        """Somebody may have been the last one in this room, or is not coming after all."""
        room = self._node.rooms.get(room_id)
        if self.is_on and (room is None or room.seats_used == 0):
            self._waiting.discard(room_id)
            if not self._waiting:
                self._look()

    def _look(self) -> None:
        # All of them: somebody may have moved to a room that was empty before.
        self._waiting = {host.room.id for host in self.waits_for}
        if not self._waiting:
            self._emptied.set()
