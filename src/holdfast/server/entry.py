"""A room's entry in the directory, as it is changed: everybody in the room is told, and so is whoever watches it."""

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.core.election import elect
from holdfast.core.errors import NotFound
from holdfast.core.listing import RoomStatus
from holdfast.core.messages import HostChanged, RoomUpdated
from holdfast.core.player import Player
from holdfast.core.updates import apply_update
from holdfast.core.wishes import Update

if TYPE_CHECKING:
    from holdfast.server.node import Node
    from holdfast.server.room_host import RoomHost


class Entry:
    """The changes of one room's entry. Each is a turn of the room, or part of one."""

    def __init__(self, host: "RoomHost", node: "Node", loop: asyncio.AbstractEventLoop) -> None:
        self._host = host
        self._room = host.room
        self._node = node
        self._loop = loop
        # The version that everybody in the room knows, or will have heard of when the timer has rung.
        self._told_version = 0
        self._telling: asyncio.TimerHandle | None = None

    def stop(self) -> None:
        """There is nobody to be told any more."""
        if self._telling is not None:
            self._telling.cancel()

    def apply(self, wish: Update) -> None:
        """Change the entry."""
        room, node = self._room, self._node
        node.rooms.check_name(room, wish.name)
        new_host = apply_update(room, wish, node.limits.properties_bytes_max, node.random.randbytes)
        old_host = room.host
        if new_host is not None:
            room.host = new_host
        node.rooms.renamed(room)
        self._tell()
        self._host.follow(room.on_update)
        if room.host is not old_host:
            self._tell_host(old_host)
        self._host.door.seat_freed()

    def changed(self) -> None:
        """Something about the entry may have changed, by the game's own hand: everybody in the room is told soon.

        Not at once: a game may change its properties with every tick.
        """
        room = self._room
        if room.listing.version == self._told_version or self._telling is not None:
            return
        if room.players:
            self._telling = self._loop.call_later(self._node.limits.watch_s, self._tell_soon)
        else:
            # Who joins is shown the entry as it is then.
            self._told_version = room.listing.version

    def _tell_soon(self) -> None:
        self._telling = None
        if self._room.listing.version != self._told_version:
            self._host.take_turn(self._tell)

    def _tell(self) -> None:
        room = self._room
        self._told_version = room.listing.version
        room.broadcast(RoomUpdated(self._node.rooms.info_of(self._host, sees_code=True)))
        if room.listing.status is not RoomStatus.CREATING:
            # Before that, nobody has heard of the room.
            self._node.events.publish("room.updated", room=room.id, version=room.listing.version)

    def name_host(self, player: Player[Any] | None) -> None:
        """Another player is the host."""
        room = self._room
        if player is not None and player not in room.players:
            raise NotFound(f"player {player.id} has no seat in the room, and cannot be its host")
        old, room.host = room.host, player
        if player is not old:
            room.listing.version += 1
            self._host.listed()
            self._tell_host(old)

    def _tell_host(self, old: Player[Any] | None) -> None:
        room = self._room
        player_id = room.host.id if room.host is not None else ""
        if player_id == room.successor:
            room.successor = ""
        room.broadcast(HostChanged(player_id))
        self._node.events.publish("host.changed", room=room.id, player=player_id)
        self._host.follow(room.on_host_changed, old, room.host)

    def check_host(self) -> None:
        """Elect a host if the room has none, or its host has left for good."""
        room = self._room
        if room.is_closing or (room.host is not None and room.host in room.players):
            return
        if room.host is not None or room.election != "none":
            # Of who waits for their `on_join`, the room has not heard yet.
            players = [player for player in room.players if self._host.has_joined(player)]
            self.name_host(elect(players, room.election, room.successor))
